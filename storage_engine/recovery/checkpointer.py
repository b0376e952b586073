"""Makes derived files durable and records how far, so that the next start reads little of the log.

    log durable ─▶ consume queues synced ─▶ consumerOffset.json ─▶ new journal, keys ─▶ checkpoint

The checkpoint is last: records below its ``dispatched_offset`` are not read again by a start, so
what they settle must be in the consumer offsets by then, and the keys of their requests in files.
A consume queue file whose sync failed is not believed again, although the next sync would report
success: ``dispatched_offset`` then stays where it was until the next start, which writes the queues
anew from there. The slow steps run on a thread of the executor; appends and settles go on meanwhile
and belong to the next run, for which whoever asks during a run waits; they share it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator

from storage_engine.delivery.consumer_offsets import Snapshot
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.disk.layout import CHECKPOINT_FILE
from storage_engine.errors import DiskFull, SyncFailed
from storage_engine.index.indexer import Indexer
from storage_engine.log.checkpoint import Checkpoint, write_checkpoint
from storage_engine.log.durability import Durability
from storage_engine.puts.dispatcher import Dispatcher
from storage_engine.wire.protocol import CheckpointReply

log = logging.getLogger(__name__)


class Checkpointer:
    """See the module's docstring. ``derived`` takes down what else is to be written, and gives what
    writes it, on any thread.
    """

    def __init__(
        self,
        parts: EngineParts,
        dispatcher: Dispatcher,
        indexer: Indexer,
        durability: Durability,
        derived: Callable[[], list[Callable[[], None]]],
    ) -> None:
        self._files = parts.files
        self._path = parts.config.store_path / CHECKPOINT_FILE
        self._commit_log = parts.commit_log
        self._queues = parts.queues
        self._consumer_offsets = parts.consumer_offsets
        self._dispatcher = dispatcher
        self._indexer = indexer
        self._durable_to = durability.durable_to
        self._take_derived = derived
        self._running: asyncio.Task[CheckpointReply] | None = None
        self._next: asyncio.Task[CheckpointReply] | None = None  # has not begun
        self._is_derived_lost = False
        self._derived = 0, 0  # dispatched_offset and unit count that are durable

    def write_first(self, end_offset: int, saves: Iterable[Callable[[], object]]) -> None:
        """The checkpoint of a store that has just been recovered; durable on return.

        ``saves`` write what it counts as done. The next start begins here; where there is no room,
        at the checkpoint before, and a later one tries again. Raises ``SyncFailed``.
        """
        self._derived = end_offset, self._queues.make_durable()
        mark = Checkpoint(
            flushed_offset=end_offset,
            dispatched_offset=end_offset,
            unit_count=self._derived[1],
            indexed_offset=self._indexer.durable[0],
            index_entry_count=self._indexer.durable[1],
            store_timestamp_ms=self._commit_log.store_timestamp_ms,
        )
        try:
            for save in saves:
                save()
            write_checkpoint(self._files, self._path, mark)
        except DiskFull as exc:
            log.warning(
                "The disk is too full for the first checkpoint; recovery will read more of the log",
                extra={"action": "first_checkpoint_failed", "reason": str(exc)},
            )

    async def run(self) -> CheckpointReply:
        """A checkpoint of what there is now, or more. Raises ``SyncFailed``, ``DiskFull``; the one
        before then still stands.
        """
        if self._next is None:
            self._next = asyncio.ensure_future(self._run_next(self._running))
        return await asyncio.shield(self._next)

    async def finish(self) -> None:
        """Wait for runs that are under way or asked for, whatever becomes of them."""
        asked = [run for run in (self._running, self._next) if run is not None]
        await asyncio.gather(*asked, return_exceptions=True)

    async def _run_next(self, before: asyncio.Task[CheckpointReply] | None) -> CheckpointReply:
        if before is not None and not before.done():
            await asyncio.wait({before})
        self._running, self._next = self._next, None
        return await self._run()

    async def _run(self) -> CheckpointReply:
        dispatched_offset = self._dispatcher.dispatched_offset
        index = self._indexer.mark()
        ends = self._dispatcher.queue_ends(self._queues)
        dirty = [(queue, end) for queue, end in ends if queue.is_dirty(end)]
        # An async topic's records are visible before they are durable.
        await self._durable_to(dispatched_offset)
        flushed_offset = self._commit_log.flushed_offset
        stamp = self._commit_log.store_timestamp_ms
        taken, writers = self._consumer_offsets.snapshot(), self._take_derived()
        loop = asyncio.get_running_loop()
        if not self._is_derived_lost:
            files = [file for queue, end in dirty for file in queue.dirty_files(end)]
            try:
                await loop.run_in_executor(None, self._queues.sync, files)
            except SyncFailed as exc:
                self._is_derived_lost = True
                log.error(
                    "Could not make consume queues durable; the next start rebuilds "
                    "them from the log",
                    extra={"action": "queue_sync_failed", "reason": str(exc)},
                )
            else:
                for queue, end in dirty:
                    queue.synced(end)
                self._derived = dispatched_offset, sum([end for _, end in ends])
        indexed_offset, index_entry_count = await self._indexer.make_durable(index)
        mark = Checkpoint(
            flushed_offset=flushed_offset,
            dispatched_offset=self._derived[0],
            unit_count=self._derived[1],
            indexed_offset=indexed_offset,
            index_entry_count=index_entry_count,
            store_timestamp_ms=stamp,
        )
        await loop.run_in_executor(None, self._write_offsets, taken, writers)
        consumer_offset_count = self._consumer_offsets.finish(taken)
        await loop.run_in_executor(None, self._write_mark, mark)
        written = self._path.stat()
        return CheckpointReply(
            flushed_offset=mark.flushed_offset,
            consumer_offset_count=consumer_offset_count,
            inode=written.st_ino,
            mtime_ns=written.st_mtime_ns,
        )

    def _write_offsets(self, taken: Snapshot, writers: list[Callable[[], None]]) -> None:
        with _sync_failed("consumer offsets"):
            self._consumer_offsets.write(taken)
            for write in writers:
                write()

    def _write_mark(self, mark: Checkpoint) -> None:
        with _sync_failed("the checkpoint"):
            write_checkpoint(self._files, self._path, mark)


@contextlib.contextmanager
def _sync_failed(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise SyncFailed(f"cannot write {what}: {exc}") from exc
