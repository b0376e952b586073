"""Group commit: one thread makes the log durable, and each sync covers all waiting writers.

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

from prometheus_client import Histogram

from storage_engine.clock import measured_ns
from storage_engine.errors import StoreError
from storage_engine.log.commit_log import CommitLog

_STOP: Final = False
_SYNC: Final = True
_SECONDS: Final = (0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_BYTES: Final = tuple(4**power * 1_024 for power in range(10))  # 1 KiB to 256 MiB


class SyncTimes:
    """What the syncs of one store took and did; outlives the flusher, which ends with a failure."""

    def __init__(self) -> None:
        self.seconds = Histogram(
            "mq_engine_sync_seconds", "Duration of a sync.", buckets=_SECONDS, registry=None
        )
        self.bytes = Histogram(
            "mq_engine_sync_bytes", "Bytes made durable by a sync.", buckets=_BYTES, registry=None
        )


class Flusher:
    """See the module's docstring."""

    def __init__(
        self,
        commit_log: CommitLog,
        loop: asyncio.AbstractEventLoop,
        flushed: Callable[[int], None],
        failed: Callable[[StoreError], None],
        times: SyncTimes | None = None,
    ) -> None:
        self._commit_log = commit_log
        self._loop = loop
        self._flushed = flushed
        self._failed = failed
        self._orders: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._is_asked = False
        self._thread = threading.Thread(target=self._run, name="flusher", daemon=True)
        self.sync_count = 0
        self._times = times or SyncTimes()
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
            before, started_ns = self._commit_log.flushed_offset, measured_ns()
            try:
                self._commit_log.sync(target)
            except StoreError as exc:
                self.error = exc
                self._loop.call_soon_threadsafe(self._failed, exc)
                return
            self.sync_count += 1
            self._times.seconds.observe((measured_ns() - started_ns) / 1e9)
            self._times.bytes.observe(max(target - before, 0))
            self._loop.call_soon_threadsafe(self._flushed, target)
