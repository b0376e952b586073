"""Fills the consume queues and the index of a replica while it follows, so that who takes the shard
over reads only what came since the last checkpoint.

    replica ── checkpoint of the owner ──▶ [WarmReplica] ── records below it ──▶ queues, index
    replica ◀── the same checkpoint, with the counts of what is durable here ◀──┘

Recovery believes a checkpoint whose counts are those of the files, and rebuilds them from the whole
log otherwise. So nothing is at stake but time: whatever does not fit, a damaged record, a disk
without room, queues that do not have as many units as the owner's, leaves the checkpoint as the
owner wrote it. Settles and request keys are in the small files of the same moment. Any thread, one
at a time.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Mapping
from functools import partial

import msgspec

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    CHECKPOINT_FILE,
    COMMIT_LOG_DIR,
    CONFIG_DIR,
    CONSUME_QUEUE_DIR,
    TOPICS_FILE,
)
from storage_engine.disk.mapped_file import MappedFile
from storage_engine.disk.mapped_files import file_size_of
from storage_engine.errors import StoreCorrupt, StoreError
from storage_engine.index.indexer import Indexer, sync_index
from storage_engine.log.bucket_log import open_log
from storage_engine.log.checkpoint import (
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from storage_engine.log.log_scan import Damage, LogEnd, Run, Scan, read_through
from storage_engine.log.segment_cache import SegmentCache
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.queues.min_offsets import MinOffsets
from storage_engine.records.record_parts import RecordParts
from storage_engine.recovery.rebuild import Rebuild
from storage_engine.recovery.recovery import raise_to_floors

log = logging.getLogger(__name__)


class _Topics(msgspec.Struct):
    """Of the file, names only."""

    topicConfigTable: dict[str, msgspec.Raw] = {}


class WarmReplica:
    """See the module's docstring."""

    def __init__(
        self, config: StoreConfig, files: Files, clock: Clock, cache: SegmentCache | None = None
    ) -> None:
        self._config = config
        self._cache = cache  # of what of the log only the bucket has
        self._files = files
        self._clock = clock
        self._path = config.store_path / CHECKPOINT_FILE
        self._filled: _Filled | None = None
        self._is_told = False  # that the counts differ

    def localize(self, content: bytes) -> bytes:
        """A checkpoint of the owner as it is right for this store, whose other small files are of
        the same moment. Never fails: see the module.
        """
        try:
            mark = decode_checkpoint(content, self._path)
            local = None if mark is None else self._localized(mark)
        except (StoreError, OSError) as exc:
            log.warning(
                "Could not fill the consume queues of the replica; whoever takes the shard over "
                "now rebuilds them from the whole log, which takes longer",
                extra={"action": "replica_not_warm", "reason": str(exc)},
            )
            self.forget()  # what a sync has failed for is not believed again
            local = None
        return content if local is None else encode_checkpoint(local)

    def cut(self, offset: int) -> None:
        """Have nothing of the log from an offset on, whose records another owner has replaced."""
        try:
            self._cut(offset)
        except (StoreError, OSError) as exc:
            log.warning(
                "Could not cut off consume queues; filling them again from the log",
                extra={"action": "replica_queues_lost", "reason": str(exc)},
            )
            self.forget()

    def _cut(self, offset: int) -> None:
        self.close()
        found = read_checkpoint(self._path) or Checkpoint()
        indexed = found.indexed_offset, found.index_entry_count
        if found.indexed_offset > offset:
            indexed = 0, 0
        elif found.dispatched_offset <= offset:
            return  # whoever loads them cuts them there
        floors = MinOffsets(self._config, self._files)
        floors.load()
        queues = ConsumeQueues(self._config, self._files)
        try:
            queues.load(found.dispatched_offset, floors.table)
            if sum([queue.max_offset for queue in queues]) != found.unit_count:
                raise StoreCorrupt("consume queues do not have what the checkpoint counts")
            dispatched_offset = min(found.dispatched_offset, offset)
            queues.load(dispatched_offset, floors.table)
            unit_count = sum([queue.max_offset for queue in queues])
        finally:
            queues.close()
        cut = msgspec.structs.replace(
            found,
            dispatched_offset=dispatched_offset,
            unit_count=unit_count,
            indexed_offset=indexed[0],
            index_entry_count=indexed[1],
        )
        write_checkpoint(self._files, self._path, cut)

    def forget(self) -> None:
        """Have nothing."""
        with contextlib.suppress(StoreError, OSError):
            self._forget_queues()

    def close(self) -> None:
        """Before somebody else opens the files, or they are moved away."""
        if self._filled is not None:
            self._filled.close()
            self._filled = None

    def _localized(self, mark: Checkpoint) -> Checkpoint | None:
        filled = self._opened()
        if mark.dispatched_offset < filled.offset:
            return None  # this store was the owner's, and had more: until the next checkpoint
        local = filled.fill(mark)
        if local.unit_count != mark.unit_count and not filled.is_from_start:
            # What an earlier run has left does not fit: once more, from the log.
            local = self._from_start().fill(mark)
        if local.unit_count == mark.unit_count:
            return local
        if not self._is_told:
            self._is_told = True
            log.warning(
                "The replica has another number of messages in its consume queues than the owner; "
                "whoever takes the shard over rebuilds them from the whole log",
                extra={
                    "action": "replica_not_warm",
                    "unit_count": local.unit_count,
                    "owner_unit_count": mark.unit_count,
                },
            )
        return None

    def _opened(self) -> _Filled:
        if self._filled is None:
            found = read_checkpoint(self._path) or Checkpoint()
            self._filled = _Filled(self._config, self._files, self._clock, found, self._cache)
            if self._filled.unit_count != found.unit_count:
                return self._from_start()
        return self._filled

    def _from_start(self) -> _Filled:
        empty = self._forget_queues()
        self._filled = _Filled(self._config, self._files, self._clock, empty, self._cache)
        return self._filled

    def _forget_queues(self) -> Checkpoint:
        """Delete them, while no checkpoint counts them; what the checkpoint says then. The index is
        made anew as well.
        """
        self.close()
        found = read_checkpoint(self._path) or Checkpoint()
        empty = msgspec.structs.replace(
            found, dispatched_offset=0, unit_count=0, indexed_offset=0, index_entry_count=0
        )
        if found != empty:
            write_checkpoint(self._files, self._path, empty)
        shutil.rmtree(self._config.store_path / CONSUME_QUEUE_DIR, ignore_errors=True)
        return empty


class _Filled:
    """Consume queues and index of the records below ``offset``. ``is_from_start``: of all of them
    that the log has.
    """

    def __init__(
        self,
        config: StoreConfig,
        files: Files,
        clock: Clock,
        found: Checkpoint,
        cache: SegmentCache | None,
    ) -> None:
        store = config.store_path
        size_bytes = file_size_of(store / COMMIT_LOG_DIR, config.segment_bytes)
        config = msgspec.structs.replace(config, segment_bytes=size_bytes)
        self._topics_path = store / CONFIG_DIR / TOPICS_FILE
        self._commit_log = open_log(config, files, clock, b"", cache)
        self._queues = ConsumeQueues(config, files)
        self._min_offsets = MinOffsets(config, files)
        self._indexer = Indexer(config, files, self._commit_log)
        self._commit_log.load()
        self._min_offsets.load()
        self._queues.load(found.dispatched_offset, self._min_offsets.table)
        self.unit_count = sum([queue.max_offset for queue in self._queues])
        self.is_from_start = not found.dispatched_offset
        self.offset = max(found.dispatched_offset, self._commit_log.start_offset)
        self._indexer.begin(
            found,
            partial(write_checkpoint, files, store / CHECKPOINT_FILE),
            start_offset=self.offset,
            end_offset=max(self.offset, found.indexed_offset),
            damaged=[],
        )

    def fill(self, mark: Checkpoint) -> Checkpoint:
        """Fill and sync; the checkpoint with the counts of what is here then.

        Raises ``StoreCorrupt``, ``DiskFull``, ``SyncFailed``.
        """
        self._commit_log.load()
        self._min_offsets.load()
        self._forget_deleted()
        start, end = max(self.offset, self._commit_log.start_offset), mark.dispatched_offset
        if start < end:
            segments = self._commit_log.segments()
            _check(segments, start, end)
            found = Scan(LogEnd(end), 0, 0, [])
            Rebuild(
                self._queues, found, [], unsaved_offset=end, keys=self._indexer, found_mark=_saved
            ).run(segments, start)
        self._indexer.complete(end)
        raise_to_floors(self._queues, self._min_offsets.table, 0)
        self._indexer.drop_below(self._commit_log.start_offset)
        unit_count = self._queues.make_durable()
        for queue in self._queues:
            queue.delete_unreadable_files()
        index = self._indexer.mark()
        sync_index(index.orders)
        self.offset = end
        return msgspec.structs.replace(
            mark,
            unit_count=unit_count,
            indexed_offset=index.indexed_offset,
            index_entry_count=index.entry_count,
        )

    def _forget_deleted(self) -> None:
        """Queues of topics that the owner has forgotten, with the last of their messages."""
        known = {*self._min_offsets.deleted, *self._topics()}
        for topic in [name.decode() for name in self._queues.by_topic]:
            if topic not in known:
                self._queues.forget(topic)

    def _topics(self) -> Mapping[str, object]:
        try:
            content = self._topics_path.read_bytes()
            return msgspec.json.decode(content, type=_Topics).topicConfigTable
        except FileNotFoundError:
            return {}
        except msgspec.MsgspecError as exc:
            raise StoreCorrupt(f"{self._topics_path}: {exc}") from exc

    def close(self) -> None:
        self._queues.close()
        self._indexer.close()
        self._commit_log.close()


def _check(segments: list[MappedFile], start: int, end: int) -> None:
    """Raises ``StoreCorrupt``: between the two there is something else than whole records."""
    for found in read_through(segments, start, end, keeps_whole=False):
        match found:
            case Run(segment, _, whole):
                if segment.base_offset + whole.end_at >= end:
                    return
            case Damage():
                raise StoreCorrupt(f"the log is damaged at {found.start}: {found.reason}")
            case LogEnd():
                raise StoreCorrupt(f"the log ends at {found.offset}, before {end}")


def _saved(_: int, __: RecordParts) -> None:
    """A request key, which the owner has saved before its checkpoint."""
