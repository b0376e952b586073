"""Group commit: one thread makes the log durable, and each sync covers everybody who waits.

    store ── request() ──▶ [Flusher thread] ── commit_log.sync(all appended so far) ──▶ disk
    store ◀── flushed(to) or failed(error), on the loop ──┘

What is appended while a sync runs is covered by the next one: the target is read before the sync
starts, so a put is answered only by a sync that began after its bytes were in the map.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Final

from storage_engine.commit_log import CommitLog
from storage_engine.errors import StoreError

_STOP: Final = False
_SYNC: Final = True


class Flusher:
    """See the module's docstring."""

    def __init__(
        self,
        commit_log: CommitLog,
        loop: asyncio.AbstractEventLoop,
        flushed: Callable[[int], None],
        failed: Callable[[StoreError], None],
    ) -> None:
        self._commit_log = commit_log
        self._loop = loop
        self._flushed = flushed
        self._failed = failed
        self._orders: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._is_asked = False
        self._thread = threading.Thread(target=self._run, name="flusher", daemon=True)
        self.sync_count = 0
        self.error: StoreError | None = None  # the sync that failed; there is none after it

    def start(self) -> None:
        self._thread.start()

    def request(self) -> None:
        """Ask for a sync of all that is appended by now. Loop thread; returns at once."""
        if not self._is_asked:
            self._is_asked = True
            self._orders.put(_SYNC)

    def stop(self) -> None:
        """Wait for a running sync and end the thread."""
        self._orders.put(_STOP)
        self._thread.join()

    def _run(self) -> None:
        while self._orders.get() is _SYNC:
            # Cleared before the target is read: a request that comes later gets a sync of its own.
            self._is_asked = False
            target = self._commit_log.append_offset
            try:
                self._commit_log.sync(target)
            except StoreError as exc:
                self.error = exc
                self._loop.call_soon_threadsafe(self._failed, exc)
                return
            self.sync_count += 1
            self._loop.call_soon_threadsafe(self._flushed, target)
