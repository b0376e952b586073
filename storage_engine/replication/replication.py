"""Puts that wait for the replicated log, and what becomes of them when it does not answer.

    store ── wait(end_offset, done) ──▶ [Replication] ── disk has it ─▶ Shipper ─▶ replicated log
    store ◀── publish(replicated_offset), then done(None) of all who are covered ──┘

                 an entry waits longer than the limit
    accepting ───────────────────────────────────────▶ refusing: puts to ``replicated`` topics get
        ▲                                                │  ReplicationUnavailable, those that wait
        └── the log has all but what may be on its way ──┘  OutcomeUnknown; all else goes on

What else is durable on the disk follows within ``replication_interval_ms``. A log that a newer
epoch owns ends the engine: ``failed`` is called, and nobody is told of a success any more. A
process that stood still for longer than ``STALL_MS`` may have been replaced meanwhile: it
acknowledges nothing before the log has taken an entry that it sent since. Loop thread only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import msgspec

from storage_engine.clock import Clock
from storage_engine.config import KIB, StoreConfig
from storage_engine.disk.adopted_store import discarded_number_of
from storage_engine.disk.files import Files
from storage_engine.disk.small_files import FilesKeptChanging
from storage_engine.errors import (
    NotLeader,
    OutcomeUnknown,
    ReplicationUnavailable,
    StoreBusy,
    StoreError,
)
from storage_engine.log.commit_log import CommitLog
from storage_engine.log.durability import Durability
from storage_engine.replicated_log.errors import Fenced, LogError
from storage_engine.replication.changes import ChangeReader
from storage_engine.replication.log_waits import LogWaits
from storage_engine.replication.shipper import IN_FLIGHT_MAX, Shipper, on_thread
from storage_engine.replication.snapshotter import Snapshotter
from storage_engine.replication.tail import LogPlace, Tail, write_tail
from storage_engine.replication.uploads import SplitStore

log = logging.getLogger(__name__)

_MS: Final = 1_000
# Nobody takes a shard over whose owner was silent for less.
STALL_MS: Final = 2_000
_PLACE_MS: Final = 30_000  # between notes of what the log has
# So much makes an entry that goes at once: of a GiB 4,096 requests, at $5 a million two cents.
_AT_ONCE_BYTES: Final = 256 * KIB
_SILENT: Final = "the replicated log does not answer"
_STOPPED: Final = "the engine stopped before the replicated log confirmed"


class _Waiting(NamedTuple):
    """Somebody whose bytes the disk has, and who waits for the log."""

    end_offset: int
    since_ms: int
    done: Callable[[StoreError | None], None]


class Replication:
    """See the module's docstring.

    ``refused(error)`` is told why puts to replicated topics are refused from now on, and None when
    they are taken again.
    """

    def __init__(
        self,
        place: LogPlace,
        config: StoreConfig,
        clock: Clock,
        files: Files,
        commit_log: CommitLog,
        durability: Durability,
        *,
        publish: Callable[[int], None],
        refused: Callable[[StoreError | None], None],
        failed: Callable[[StoreError], None],
    ) -> None:
        replicated_log, tail, snapshots = place
        self._log = replicated_log
        self._tail = tail
        self._writing_tail = asyncio.Lock()
        self._placed_ms = clock.monotonic_ms()
        self._files = files
        self._store_path = config.store_path
        self._clock = clock
        self._commit_log = commit_log
        self._durability = durability
        self._publish = publish
        self._refused = refused
        self._failed = failed
        self._interval_s = config.replication_interval_ms / _MS
        self._timeout_ms = config.replication_timeout_ms
        self._waiting: deque[_Waiting] = deque()
        self._log_waits = LogWaits()
        self._wanted = asyncio.Event()  # somebody waits for what is not shipped
        self._enough = asyncio.Event()  # there is enough of it for an entry
        self.refusal: StoreError | None = None  # of puts to replicated topics
        self._is_over = False
        self._alive_ms = clock.monotonic_ms()  # when the loop last ran, as far as is known
        self._doubtful_since_ms: int | None = None
        self._asked: asyncio.Future[None] | None = None  # whether it still owns the shard
        self._asked_ms = 0
        # Called when acknowledgements that were held back may go out.
        self.confirmed: Callable[[], None] = _nothing
        # Called when nothing is shipped any more, with whether the log has everything.
        self.ended: Callable[[bool], None] = _nobody
        self._reader = ChangeReader(
            config.store_path, commit_log, segment_bytes=config.segment_bytes, log_from=tail.log_end
        )
        self._shipper = Shipper(
            replicated_log, self._reader, clock, tail=tail, arrived=self._arrived, failed=self._end
        )
        # Told from where on retention has to let the log be, and when no more.
        self.hold_segments: Callable[[int | None], None] = _nobody_holds
        self.snapshotter: Snapshotter | None = None
        if snapshots is not None:
            self.snapshotter = Snapshotter(
                snapshots,
                replicated_log,
                self._shipper,
                self._reader,
                config,
                epoch=tail.epoch,
                split_number=tail.split_number,
                covered=self._write_tail,
                hold=lambda offset: self.hold_segments(offset),
            )

    @property
    def confirmed_offset(self) -> int:
        """The log below it is in the replicated log."""
        return self._shipper.replicated_offset

    @property
    def epoch(self) -> int:
        return self._tail.epoch

    async def _write_tail(self, tail: Tail) -> None:
        """The next start reads the log from there on, unless it did already."""
        async with self._writing_tail:
            if tail.position > self._tail.position:
                self._tail = msgspec.structs.replace(tail, epochs=self._tail.epochs)
                await on_thread(partial(write_tail, self._files, self._store_path, self._tail))

    async def _write_place(self) -> None:
        """Where the log has what this store has, so that the next start compares little of it."""
        self._placed_ms = self._clock.monotonic_ms()
        if self._shipper.tail is not None:
            with contextlib.suppress(StoreError, OSError):  # the next start compares more
                await self._write_tail(self._shipper.tail)

    def wait(self, end_offset: int, done: Callable[[StoreError | None], None]) -> None:
        """Call ``done`` when disk and replicated log have everything below ``end_offset``."""
        since_ms = self._clock.monotonic_ms()
        self._durability.wait(end_offset, partial(self._synced, end_offset, since_ms, done))

    def _synced(
        self,
        end_offset: int,
        since_ms: int,
        done: Callable[[StoreError | None], None],
        error: StoreError | None,
    ) -> None:
        if error is None and self.confirmed_offset < end_offset:
            self._waiting.append(_Waiting(end_offset, since_ms, done))
            self._wanted.set()
            if self._has_enough:
                self._enough.set()
        else:
            done(error)

    def may_acknowledge(self) -> bool:
        """Whether this engine surely owned the shard a moment ago. If not, ``confirmed`` follows,
        or the end.
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._alive_ms > STALL_MS and self._doubtful_since_ms is None:
            self._doubtful_since_ms = now_ms
            self._wanted.set()
            log.warning(
                "The engine was paused; acknowledging nothing before the replicated log confirms "
                "that it still owns the shard",
                extra={"action": "ownership_doubtful", "stood_still_ms": now_ms - self._alive_ms},
            )
        self._alive_ms = now_ms
        return self._doubtful_since_ms is None and not self._is_over

    def confirm(self) -> asyncio.Future[None]:
        """Ask the log whether this engine still owns the shard: done when it does. If it does not,
        the engine ends.
        """
        if self._asked is None:
            self._asked = asyncio.get_running_loop().create_future()
            self._asked_ms = self._clock.monotonic_ms()
            self._wanted.set()
        return self._asked

    def everything(self) -> asyncio.Future[None]:
        """Done when the log has all that is durable on the disk now, small files too; who asks
        before an entry is made shares it. Fails with ``OutcomeUnknown`` where that takes longer
        than a put may, and with what ended this writer.
        """
        done = self._log_waits.add(self._clock.monotonic_ms())
        self._wanted.set()
        return done

    def _arrived(self) -> None:
        if self._asked is not None and self._shipper.confirmed_ms >= self._asked_ms:
            self._asked.set_result(None)
            self._asked = None
        doubtful_since_ms = self._doubtful_since_ms
        if doubtful_since_ms is not None and self._shipper.confirmed_ms >= doubtful_since_ms:
            self._doubtful_since_ms = None
            self.confirmed()
        waiting, to = self._waiting, self.confirmed_offset
        self._publish(to)
        while waiting and waiting[0].end_offset <= to:
            waiting.popleft().done(None)
        self._log_waits.arrived(self._shipper.number)

    # Its life -------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Ship what the log lacks; done when it has it, however long that takes.

        Raises ``NotLeader``.
        """
        try:
            await self._shipper.ship_rest()
        except LogError as exc:
            raise _store_error(exc) from exc

    async def run(self) -> None:
        """Ship whatever comes, until the log ends this writer, which it raises."""
        while True:
            # Not by wait_for: on Python 3.11 it loses a cancellation that comes with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._wanted.wait()
            await self._linger()
            self._wanted.clear()
            is_doubted = self._doubtful_since_ms is not None or self._asked is not None
            waits = self._log_waits.begin()
            try:
                if await self._shipper.ship(at_least_one=is_doubted):
                    self._log_waits.shipped(waits, self._shipper.given_number)
                    self._log_waits.arrived(self._shipper.number)
                if self._clock.monotonic_ms() - self._placed_ms >= _PLACE_MS:
                    await self._write_place()
            except LogError as exc:
                self._end(exc)
                raise _store_error(exc) from exc

    async def _linger(self) -> None:
        """Until the newest entry is as old as the log wants it to be before the next, or there is
        enough for one. What comes after a pause goes at once.
        """
        self._enough.clear()
        age_ms = self._clock.monotonic_ms() - self._shipper.appended_ms
        if age_ms < self._log.linger_ms and not self._has_enough:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout((self._log.linger_ms - age_ms) / _MS):
                    await self._enough.wait()

    @property
    def _has_enough(self) -> bool:
        return self._commit_log.flushed_offset - self._reader.log_end >= _AT_ONCE_BYTES

    def tick(self) -> None:
        """Every ``tick_interval_ms``: refuse what would wait too long, or take it again."""
        self.may_acknowledge()
        late_ms = self._clock.monotonic_ms() - self._timeout_ms
        since_ms = self._shipper.waiting_since_ms
        is_late = since_ms is not None and since_ms <= late_ms
        waiting = self._waiting
        while waiting and waiting[0].since_ms <= late_ms:
            is_late = True
            waiting.popleft().done(
                OutcomeUnknown(
                    f"the replicated log has not confirmed the message within {self._timeout_ms} "
                    "ms; it is stored here and may be delivered later"
                )
            )
        unknown = OutcomeUnknown(
            f"the replicated log has not confirmed it within {self._timeout_ms} ms; it was done "
            "here and may be lost with this machine"
        )
        is_late = self._log_waits.end_late(late_ms, unknown) or is_late
        if is_late and self.refusal is None:
            trouble = self._log.trouble
            reason = trouble.reason if trouble is not None else "it is too slow"
            self.refusal = ReplicationUnavailable(
                f"the replicated log does not answer ({reason}); puts to replicated topics are "
                "refused until it does"
            )
            log.error(
                "The replicated log is not responding; rejecting puts to replicated topics. "
                "Check the store that has it; they are accepted again once it responds",
                extra={"action": "replication_stalled", "reason": reason},
            )
            self._refused(self.refusal)
        elif self.refusal is not None and not is_late and self._is_caught_up:
            self.refusal = None
            log.warning(
                "The replicated log is responding again; accepting puts to replicated topics",
                extra={"action": "replication_resumed"},
            )
            self._refused(None)

    @property
    def _is_caught_up(self) -> bool:
        """Whether what the log lacks may all be on its way at once."""
        lacking_bytes = self._commit_log.flushed_offset - self.confirmed_offset
        return lacking_bytes <= IN_FLIGHT_MAX * self._log.entry_bytes_max

    def _end(self, error: LogError) -> None:
        """The log takes nothing from this writer any more."""
        if self._is_over:
            return
        self._is_over = True
        failure = _store_error(error)
        self._wanted.set()
        self._failed(failure)
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.done(failure)
        self._log_waits.end(failure)

    async def ship_all(self) -> None:
        """Until the log has all that the store has now, small files too.

        Raises ``ReplicationUnavailable``, also where that takes longer than a put may;
        ``NotLeader``, ``StoreBusy``, ``OSError``.
        """
        try:
            async with asyncio.timeout(self._timeout_ms / _MS):
                await self._shipper.ship_whole()
        except TimeoutError:
            raise ReplicationUnavailable(_SILENT) from None
        except FilesKeptChanging as exc:
            raise StoreBusy(str(exc)) from exc
        except LogError as exc:
            raise _store_error(exc) from exc

    async def stop(self, split: SplitStore | None = None) -> None:
        """Ship the rest, for so long as puts may wait; answer all who wait. ``durability`` has
        stopped. ``split``: with whose store the shard goes on; if the log does not have the rest,
        it does not.
        """
        is_whole = False
        try:
            if not self._is_over:
                async with asyncio.timeout(self._timeout_ms / _MS):
                    await self._shipper.ship_rest()
                is_whole = True
                await self._write_place()
                if split is not None:
                    await self._begin_anew(split)
        except (TimeoutError, LogError, OSError) as exc:
            log.error(
                "Stopping before the replicated log had everything; the next start ships the rest",
                extra={"action": "replication_cut_short", "reason": str(exc) or _SILENT},
            )
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.done(OutcomeUnknown(_STOPPED))
        self._log_waits.end(None if is_whole else OutcomeUnknown(_STOPPED))
        await self._shipper.close()
        await self._log.close()
        self.ended(is_whole)

    async def _begin_anew(self, split: SplitStore) -> None:
        if split.number <= discarded_number_of(self._store_path):
            # After this engine was asked to serve it: it has answered that nothing of it is here.
            log.warning(
                "The split was given up; serving the store that is there",
                extra={"action": "store_not_adopted", "split_number": split.number},
            )
            return
        try:
            async with asyncio.timeout(self._timeout_ms / _MS):
                await self._shipper.begin_anew(split.number, log_end=split.log_end)
        except (TimeoutError, LogError) as exc:
            log.error(
                "Could not write to the replicated log that the shard is to begin with another "
                "store; serving the one that the log says",
                extra={
                    "action": "store_not_adopted",
                    "split_number": split.number,
                    "reason": str(exc) or _SILENT,
                },
            )


def _nothing() -> None:
    """Until somebody serves."""


def _nobody(_: bool) -> None:
    """Until somebody wants to know."""


def _nobody_holds(_: int | None) -> None:
    """Until there is retention."""


def _store_error(error: LogError) -> StoreError:
    if isinstance(error, Fenced):
        return NotLeader(
            f"another engine has taken over this shard ({error}); this one stops and acknowledges "
            "nothing more. Start it as a replica, or again to take the shard back"
        )
    return ReplicationUnavailable(f"the replicated log cannot be written: {error}")
