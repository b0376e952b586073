"""Makes derived files durable and writes down how far, so that the next start has little to do.

    log durable ──▶ consume queues synced ──▶ checkpoint ──▶ consumerOffset.json ──▶ new journal

The slow steps run on a thread of the executor; appends and settles go on meanwhile and belong to
the next run. Calls that overlap share one run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from storage_engine.checkpoint import Checkpoint, write_checkpoint
from storage_engine.commit_log import CommitLog
from storage_engine.consume_queue import ConsumeQueue
from storage_engine.consume_queues import ConsumeQueues
from storage_engine.consumer_offsets import ConsumerOffsets
from storage_engine.dispatcher import Dispatcher
from storage_engine.files import Files
from storage_engine.protocol import CheckpointReply


class Checkpointer:
    """See the module's docstring. ``durable_to`` waits until the log is durable up to an offset."""

    def __init__(
        self,
        files: Files,
        path: Path,
        commit_log: CommitLog,
        dispatcher: Dispatcher,
        queues: ConsumeQueues,
        consumer_offsets: ConsumerOffsets,
        durable_to: Callable[[int], Awaitable[None]],
    ) -> None:
        self._files = files
        self._path = path
        self._commit_log = commit_log
        self._dispatcher = dispatcher
        self._queues = queues
        self._consumer_offsets = consumer_offsets
        self._durable_to = durable_to
        self._running: asyncio.Task[CheckpointReply] | None = None

    async def run(self) -> CheckpointReply:
        """One checkpoint. Raises ``SyncFailed``, ``DiskFull``; the one before then still stands."""
        if self._running is None or self._running.done():
            self._running = asyncio.ensure_future(self._run())
        return await asyncio.shield(self._running)

    async def _run(self) -> CheckpointReply:
        dispatched_offset = self._dispatcher.dispatched_offset
        unit_count = sum(queue.max_offset for queue in self._queues)
        # An async topic's records are visible before they are durable.
        await self._durable_to(dispatched_offset)
        mark = Checkpoint(
            flushed_offset=self._commit_log.flushed_offset,
            dispatched_offset=dispatched_offset,
            unit_count=unit_count,
            store_timestamp_ms=self._commit_log.store_timestamp_ms,
        )
        dirty = [queue for queue in self._queues if queue.is_dirty]
        taken = self._consumer_offsets.snapshot()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._write, dirty, mark, taken)
        return CheckpointReply(
            flushed_offset=mark.flushed_offset,
            consumer_offset_count=self._consumer_offsets.finish(taken),
        )

    def _write(
        self, dirty: list[ConsumeQueue], mark: Checkpoint, taken: dict[str, dict[int, int]]
    ) -> None:
        for queue in dirty:
            queue.sync()
        write_checkpoint(self._files, self._path, mark)
        self._consumer_offsets.write(taken)
