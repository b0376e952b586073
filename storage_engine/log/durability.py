"""Who waits for the disk, and what happens when a sync fails.

    store ── wait(end_offset, done) ──▶ [Durability] ── request ──▶ Flusher ── flushed(to) ──┐
    store ◀── publish(to), then done(None) of all who are covered ── [Durability] ◀──────────┘

A sync that failed once may report success the next time and have lost pages, so nothing is ever
acknowledged again on the strength of that file: the segments it concerns are written anew, as new
files under the same names (their records verified on the way), while puts are refused. Those who
waited are answered when that is durable. If it fails too, they are told so, and it is tried again
every few seconds with another new file. Loop thread only.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from storage_engine.errors import ShuttingDown, StoreError, StoreReadOnly
from storage_engine.log.commit_log import CommitLog
from storage_engine.log.flusher import Flusher, SyncTimes

log = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    """Somebody who appended and waits for the disk."""

    end_offset: int
    done: Callable[[StoreError | None], None]


class Durability:
    """See the module's docstring. ``refusal``: why nothing can be put now, or None."""

    def __init__(
        self, commit_log: CommitLog, publish: Callable[[int], None], repair_interval_ms: int
    ) -> None:
        self._commit_log = commit_log
        self._repair_interval_ms = repair_interval_ms
        self._publish = publish
        self._loop: asyncio.AbstractEventLoop
        self._flusher: Flusher
        self._repair: asyncio.Task[None] | None = None
        self._rewriting: asyncio.Future[None] | None = None
        self._is_stopped = False
        self._waiting: deque[_Waiting] = deque()
        self._durable_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._syncs_before = 0
        self.sync_times = SyncTimes()
        self.repair_count = 0
        self.refusal: StoreError | None = None

    @property
    def sync_count(self) -> int:
        return self._syncs_before + self._flusher.sync_count

    @property
    def has_waiters(self) -> bool:
        return bool(self._waiting)

    @property
    def confirmed_offset(self) -> int:
        """The log below it is on the disk."""
        return self._commit_log.flushed_offset

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._start_flusher()

    def _start_flusher(self) -> None:
        self._flusher = Flusher(
            self._commit_log, self._loop, self._flushed, self._sync_failed, self.sync_times
        )
        self._flusher.start()

    def wait(self, end_offset: int, done: Callable[[StoreError | None], None]) -> None:
        """Call ``done`` when a sync that begins from now on has covered ``end_offset``.

        With an error when nobody knows what the disk has.
        """
        self._waiting.append(_Waiting(end_offset, done))
        self._flusher.request()

    def request(self) -> None:
        """Ask for a sync of all that is appended, if something is and one can be made."""
        log_ = self._commit_log
        if log_.flushed_offset < log_.append_offset and self._flusher.error is None:
            self._flusher.request()

    async def durable_to(self, offset: int) -> None:
        """Until the log is durable up to ``offset``. Raises ``SyncFailed``."""
        if self._flusher.error is not None:
            raise self._flusher.error
        if self._commit_log.flushed_offset < offset:
            durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._durable_waiters.append((offset, durable))
            self._flusher.request()
            await durable

    def _flushed(self, to: int) -> None:
        if self._flusher.error is not None:
            return  # its failure is on its way; nothing may be answered any more
        waiting = self._waiting
        self._publish(to)
        while waiting and waiting[0].end_offset <= to:
            covered = waiting.popleft()
            covered.done(None)
        waiters, self._durable_waiters = self._durable_waiters, []
        for offset, durable in waiters:
            if offset > to:
                self._durable_waiters.append((offset, durable))
            elif not durable.done():
                durable.set_result(None)
        if waiting or self._durable_waiters:
            self._flusher.request()
        elif self._commit_log.append_offset > to:
            # Async records that came in behind the last sync record are visible at once.
            self._publish(self._commit_log.append_offset)

    # When the disk refuses ------------------------------------------------------------------

    def _sync_failed(self, error: StoreError) -> None:
        if self._is_stopped:
            return  # ``stop`` has told everybody; the directory may belong to somebody else
        log.error(
            "The disk refused a sync of the commit log; rewriting what was not durable",
            extra={"action": "sync_failed", "reason": str(error)},
        )
        self.refusal = StoreReadOnly(
            f"the disk refused a sync ({error}); rewriting the bytes that were not durable"
        )
        self._fail_durable_waiters(error)
        self._repair = asyncio.ensure_future(self._keep_repairing(error))

    async def _keep_repairing(self, error: StoreError) -> None:
        while True:
            try:
                self._rewriting = self._loop.run_in_executor(
                    None, self._commit_log.replace_unsynced
                )
                await asyncio.shield(self._rewriting)
                break
            except (StoreError, OSError) as exc:
                log.error(
                    "Could not rewrite the commit log after a failed sync; trying again",
                    extra={"action": "rewrite_failed", "reason": str(exc)},
                )
                self.refusal = StoreReadOnly(
                    f"the disk refused a sync ({error}) and then a new file ({exc}); trying again"
                )
                self._fail_waiting(error)
            await asyncio.sleep(self._repair_interval_ms / 1_000)
        self._commit_log.take_replaced()
        self.repair_count += 1
        self._syncs_before += self._flusher.sync_count
        self._start_flusher()
        self.refusal = None
        log.warning(
            "Rewrote the commit log after a failed sync; accepting messages again",
            extra={"action": "rewritten"},
        )
        self._flushed(self._commit_log.flushed_offset)

    def _fail_durable_waiters(self, error: StoreError) -> None:
        waiters, self._durable_waiters = self._durable_waiters, []
        for _, durable in waiters:
            if not durable.done():
                durable.set_exception(error)

    def _fail_waiting(self, error: StoreError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for failed in waiting:
            failed.done(error)

    def reject(self, error: StoreError) -> None:
        """Tell all who wait this, whatever the disk has, and refuse puts for good."""
        self.refusal = error
        self._fail_waiting(error)

    async def stop(self) -> bool:
        """Make durable what can be; answer all who wait. False: the disk refused, now or before.

        Nothing is written to the log any more on return.
        """
        self._is_stopped = True
        self._flusher.stop()
        if self._repair is not None:
            self._repair.cancel()
            await asyncio.gather(self._repair, return_exceptions=True)
        if self._rewriting is not None:
            await asyncio.gather(self._rewriting, return_exceptions=True)
        # Clients are still served: what they have the engine append would be seen by nobody.
        self.refusal = ShuttingDown("the engine is stopping")
        if self._flusher.error is None:
            try:
                self._commit_log.sync(self._commit_log.append_offset)
            except StoreError as exc:
                self._flusher.error = exc
        if self._flusher.error is not None:
            self._fail_durable_waiters(self._flusher.error)
            self._fail_waiting(self._flusher.error)
            return False
        self._flushed(self._commit_log.append_offset)
        return True
