"""Keeps the key index up with the visible log: the only writer of index files.

    dispatcher ── published(start, end, keys) ──▶ [Indexer] ── many at once ──▶ index_files
    commit_log ── records not collected ─────────▶

Keys that were collected while records were put wait here until there are enough of them to make
the work worth it. They are only a short cut: whatever is dropped (too many wait, the disk is full)
is read from the log again, so a failure delays the index and loses nothing, and puts never notice.
No entry points above what is visible. The order and the bytes are the same on either way.
Loop thread only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple

import msgspec
import numpy as np

from storage_engine.config import StoreConfig
from storage_engine.disk.files import Files
from storage_engine.errors import StoreError, SyncFailed
from storage_engine.index.index_file import Entries
from storage_engine.index.index_files import IndexFiles, SyncOrder
from storage_engine.log.checkpoint import Checkpoint
from storage_engine.log.commit_log import CommitLog
from storage_engine.log.log_scan import Damage, scan, walk
from storage_engine.records.key_hash import key_hashes, topic_hash
from storage_engine.records.message_keys import KeyBatch, empty_batch, keys_of
from storage_engine.records.record_check import fault_at
from storage_engine.records.record_parts import is_unseen, parts_of, store_timestamp_of

log = logging.getLogger(__name__)

# Fewer are not worth the fixed cost of an insert, about 60 µs; the tick takes what remains.
BATCH_MESSAGES_MIN: Final = 512
# Read from the log at a time: bounds memory, and on the tick how long the loop stands still.
_WALK_MESSAGES: Final = 2_048


class IndexMark(NamedTuple):
    """All records below ``indexed_offset`` are in the index files once ``orders`` are done."""

    indexed_offset: int
    entry_count: int
    orders: list[SyncOrder]


class Indexer:
    """See the module's docstring. ``indexed_offset``: all records below are in index files."""

    def __init__(self, config: StoreConfig, files: Files, commit_log: CommitLog) -> None:
        self._access = files
        self._commit_log = commit_log
        self.index = IndexFiles(config, files)
        self.indexed_offset = 0
        self._published_offset = 0  # what is visible: the index may follow up to here
        self._collected_offset = 0  # keys of records from ``indexed_offset`` to here wait
        self._waiting = empty_batch()
        self._damaged: list[Damage] = []  # jumped over where the log is read
        self._is_stalled = False
        self._is_syncing = False
        self.durable = (0, 0)  # indexed_offset and entry_count that a checkpoint may hold
        self._failed_sync: SyncFailed | None = None

    # Following the log ----------------------------------------------------------------------

    def published(self, start_offset: int, end_offset: int, keys: KeyBatch | None) -> None:
        """The log from ``start_offset`` to ``end_offset`` is visible now, and has these keys.

        None: they were not collected, and come from the log.
        """
        self._published_offset = end_offset
        if keys is not None and self._collected_offset == start_offset:
            self._collected_offset = end_offset
            self._waiting.extend(keys)
            if self._waiting.message_count >= BATCH_MESSAGES_MIN:
                self._flush()
        elif keys is not None and not self._is_stalled:
            # Twice as fast as it comes in, so that a backlog ends however much is put.
            self._flush()
            self._catch_up(2 * keys.message_count)

    def flush(self) -> None:
        """Index what waits, and a part of what was left behind; on each tick, before look-ups."""
        self._flush()
        self._catch_up(_WALK_MESSAGES)

    @property
    def is_behind(self) -> bool:
        """True while visible records are missing from the index."""
        return self.indexed_offset < self._published_offset

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, empty_batch()
        if self._put(waiting):
            self.indexed_offset = self._collected_offset
        else:
            self._collected_offset = self.indexed_offset

    def _catch_up(self, messages_max: int, *, is_verified: bool = False) -> None:
        """Index up to that many records that were not collected."""
        if self._collected_offset == self._published_offset:
            return
        assert self.indexed_offset == self._collected_offset
        end = self._published_offset
        start = max(self.indexed_offset, self._commit_log.start_offset)
        segments = self._commit_log.segments()
        records = walk(segments, start, end, self._damaged)
        batch = empty_batch()
        count = 0
        stop = None
        for physical_offset, view, at in islice(records, messages_max):
            if not is_verified and fault_at(view, at, physical_offset - at):
                self._damaged = scan(segments, physical_offset, end, keeps_whole=True).damaged
                stop = physical_offset
                break
            count += 1
            if is_unseen(view, at):
                continue
            _, _, _, stamp, topic, tail, properties_at = parts_of(view, at)
            keys = keys_of(tail, properties_at, len(tail))
            if len(keys) != 1:
                batch.counts.append((batch.message_count, len(keys)))
            batch.topic_hashes.append(topic_hash(topic))
            batch.keys.extend(keys)
            batch.physical_offsets.append(physical_offset)
            batch.stamps.append(stamp)
        if stop is None:
            following = next(records, None)
            stop = end if following is None else following[0]
        if count == 0 or self._put(batch):
            self.indexed_offset = self._collected_offset = stop

    def _put(self, batch: KeyBatch) -> bool:
        """True when the keys are in the files; else none of them is, and the log shows why."""
        if not batch.keys:
            return True
        try:
            self.index.put(_entries(batch))
        except (StoreError, OSError) as exc:
            if not self._is_stalled:
                self._is_stalled = True
                log.warning(
                    "Could not write to the key index; lookups by key miss new "
                    "messages until it recovers",
                    extra={"action": "index_stalled", "reason": str(exc)},
                )
            return False
        if self._is_stalled:
            self._is_stalled = False
            log.info("The key index has recovered", extra={"action": "index_resumed"})
        return True

    def drop_below(self, physical_offset: int) -> int:
        """Delete index files of records that are gone from the log; how many. May put it off."""
        return 0 if self._is_syncing else self.index.drop_below(physical_offset)

    # Durability -----------------------------------------------------------------------------

    def mark(self) -> IndexMark:
        """What a checkpoint that begins now will hold once ``make_durable`` is done."""
        self._flush()
        return IndexMark(self.indexed_offset, self.index.entry_count, self.index.sync_orders())

    async def make_durable(self, mark: IndexMark) -> tuple[int, int]:
        """Make the index durable up to a mark; an msync for each file, on a thread.

        Returns the indexed_offset and entry_count that are durable: those of the mark, but after a
        sync that failed those of the last one that did not, until the engine is started again.
        """
        if self._failed_sync is not None:
            return self.durable
        orders = [order for order in mark.orders if order.file in self.index.files]
        self._is_syncing = True
        try:
            await asyncio.get_running_loop().run_in_executor(None, sync_index, orders)
        except SyncFailed as exc:
            self._failed_sync = exc
            log.error(
                "Could not make the key index durable; it is not saved again until "
                "the engine restarts",
                extra={"action": "index_sync_failed", "reason": str(exc)},
            )
        else:
            self.durable = mark.indexed_offset, mark.entry_count
        finally:
            self._is_syncing = False
        return self.durable

    # Recovery -------------------------------------------------------------------------------

    @property
    def collected_offset(self) -> int:
        """Keys of all records below are in index files or wait."""
        return self._collected_offset

    def begin(
        self,
        mark: Checkpoint,
        save: Callable[[Checkpoint], None] | None,
        *,
        start_offset: int,
        end_offset: int,
        damaged: list[Damage],
    ) -> None:
        """Take over the files that the checkpoint counts, and bring them to ``start_offset``.

        ``published`` is to be told of the records from there to ``end_offset``; then ``complete``
        must follow. ``save`` makes another checkpoint durable, None when there is none.

        Raises ``DiskFull``, ``SyncFailed``: the files cannot be taken over; nothing is lost.
        """
        is_kept = mark.indexed_offset <= end_offset and self.index.load(
            indexed_offset=mark.indexed_offset,
            entry_count=mark.index_entry_count,
            stamp_at=self._stamp_at,
            has_keys=self._has_keys,
        )
        if not is_kept:
            log.warning(
                "The key index does not match the checkpoint; rebuilding it from the log",
                extra={"action": "index_rebuild"},
            )
            # First: files with the same names will stand there that are not durable.
            mark = _without_index(mark)
            if save is not None:
                save(mark)
            self.index.drop_all()
        self.durable = mark.indexed_offset, mark.index_entry_count
        self.indexed_offset = self._collected_offset = mark.indexed_offset
        if mark.indexed_offset < start_offset:
            # Nobody has looked at these records since they were checkpointed.
            start = max(mark.indexed_offset, self._commit_log.start_offset)
            segments = self._commit_log.segments()
            self._damaged = scan(segments, start, start_offset, keeps_whole=True).damaged
            self._catch_up_to(start_offset)
        if self._collected_offset < start_offset:  # no room: what is left there has damage, too
            damaged = [*self._damaged, *damaged]
        self._damaged = damaged

    def complete(self, end_offset: int) -> None:
        """Index what is left, as far as the disk has room: the log ends at ``end_offset``."""
        self._flush()
        self._catch_up_to(end_offset)

    def _catch_up_to(self, end_offset: int) -> None:
        self._published_offset = end_offset
        while self.is_behind and not self._is_stalled:
            self._catch_up(_WALK_MESSAGES, is_verified=True)

    def _stamp_at(self, physical_offset: int) -> int | None:
        for segment in self._commit_log.segments():
            at = physical_offset - segment.base_offset
            if 0 <= at < segment.size_bytes:
                return store_timestamp_of(segment.view, at)
        return None

    def _has_keys(self, above: int, below: int) -> bool:
        """Whether a record of the log between two others has a key; the first one, mostly.

        A damaged one counts, since nobody knows what it had.
        """
        start = max(above, self._commit_log.start_offset)
        for physical_offset, view, at in walk(self._commit_log.segments(), start, below):
            if fault_at(view, at, physical_offset - at):
                return True
            if physical_offset > above and not is_unseen(view, at):
                parts = parts_of(view, at)
                if keys_of(parts.tail, parts.properties_at, len(parts.tail)):
                    return True
        return False

    def close(self) -> None:
        self.index.close()


def sync_index(orders: list[SyncOrder]) -> None:
    """Any thread. Raises ``SyncFailed``."""
    for order in orders:
        order.file.sync(order.next_number)


def _entries(batch: KeyBatch) -> Entries:
    """All keys of a batch, with what belongs to each."""
    hashes = np.array(batch.topic_hashes, np.uint32)
    physical_offsets = np.array(batch.physical_offsets, np.int64)
    stamps = np.array(batch.stamps, np.int64)
    if batch.counts:
        counts = np.ones(batch.message_count, np.int64)
        for index, count in batch.counts:
            counts[index] = count
        hashes = np.repeat(hashes, counts)
        physical_offsets = np.repeat(physical_offsets, counts)
        stamps = np.repeat(stamps, counts)
    return Entries(key_hashes(hashes, batch.keys), physical_offsets, stamps)


def _without_index(mark: Checkpoint) -> Checkpoint:
    return msgspec.structs.replace(mark, indexed_offset=0, index_entry_count=0)
