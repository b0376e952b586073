"""Deletes messages that have expired, or whose space the disk needs, oldest first.

    every pass ──▶ [Retention] ── raise_min ──▶ consume queues ── forget ──▶ delivery
                        └── min offsets written down, then segments, units, index files deleted

A topic's messages are readable for its ``retention_ms`` after they were stored; past it the queue's
min_offset moves. Disk is freed in whole segments from the head of the log, once nothing in them can
be read any more. Above the size limit, or above 85 % of the disk, the oldest segments go all the
same, and what stands in them becomes unreadable first. Messages under a lease are kept until the
disk is at 85 %. Scheduled messages still to come are appended again before their segment goes.

Segments that a snapshot holds stay, until the disk is at 85 %: then snapshots end first. Segments
that only the bucket has count as the others do, but a full disk deletes none of them, as it would
gain nothing. Where the local disk is bounded it deletes none that has not expired: what the bucket
has leaves the disk (``local_retention.py``), and without the bucket messages are refused at 90 %.

One pass deletes a few segments only. Messages grow old by a clock of their own, so that a wall
clock that jumps ahead expires nothing at once, and what expires by age goes at most a tenth of the
log a minute. Loop thread only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from storage_engine.catalog.catalog import Catalog
from storage_engine.config import SECOND_MS
from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.offset_bits import Run
from storage_engine.delivery.progress import Progress
from storage_engine.delivery.subscription import ProcessQueue, Subscription
from storage_engine.disk.disk_space import DiskState
from storage_engine.disk.mapped_file import MappedFile
from storage_engine.errors import DiskFull
from storage_engine.index.indexer import Indexer
from storage_engine.log.offset_at_time import offset_at_time
from storage_engine.puts.dispatcher import Dispatcher
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.record_parts import store_timestamp_of
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC, SCHEDULE_TOPIC_BYTES
from storage_engine.retention.local_retention import LocalRetention
from storage_engine.retention.retention_clock import RetentionClock
from storage_engine.retention.snapshots import Snapshots
from storage_engine.schedule.forwarder import Forwarder

log = logging.getLogger(__name__)

_QUEUES_A_STEP: Final = 200  # looked at before the loop may do something else
_AGE_INTERVAL_MS: Final = 60 * SECOND_MS
_AGE_PART: Final = 10  # of the segments, may go by age in one interval


class Retention:
    """See the module's docstring."""

    def __init__(
        self,
        parts: EngineParts,
        catalog: Catalog,
        delivery: Delivery,
        dispatcher: Dispatcher,
        indexer: Indexer,
        forwarder: Forwarder,
    ) -> None:
        self._config = parts.config
        self._clock = parts.clock
        self._disk = parts.disk
        self._commit_log = parts.commit_log
        self._queues = parts.queues
        self._min_offsets = parts.min_offsets
        self._quarantine = parts.quarantine
        self._consumer_offsets = parts.consumer_offsets
        self._catalog = catalog
        self._subscriptions = delivery.subscriptions
        self._dispatcher = dispatcher
        self._indexer = indexer
        self._forward = forwarder.forward
        newest_ms = parts.commit_log.store_timestamp_ms
        self.age = RetentionClock(parts.files, parts.config.store_path, parts.clock, newest_ms)
        # An id of an earlier run must not end the lease of this one.
        self.snapshots = Snapshots(parts, first_id=delivery.epoch * 1_000_000)
        self._age_interval_from_ms = self._clock.monotonic_ms()
        self._aged_count = 0  # segments gone by age in this interval
        # queue → (min_offset, physical offset and store time of the message there)
        self._first: dict[ConsumeQueue, tuple[int, int, int]] = {}
        self.local: LocalRetention | None = None  # of a shard whose bucket has old segments
        self.deleted_segment_count = 0
        self.lost_message_count = 0  # expired before a group had settled them

    async def run(self) -> int:
        """One pass; how many segments were deleted.

        Raises ``DiskFull``, ``SyncFailed``: nothing was deleted that is not written down.
        """
        state = self._disk.measure()
        # What is appended again in this pass goes in a later one at the earliest.
        began_offset = self._commit_log.append_offset
        if state >= DiskState.FORCE:
            self.snapshots.drop_all()
        await self.age.save()
        expired = await self._expired(self.age.now_ms())
        forced = self._forced_offset(state)
        is_forced = forced > self._commit_log.start_offset
        if is_forced:
            await self._forward(forced)
        # Without a pause from here to the settling: nobody may lease meanwhile what is to go.
        held = {} if state >= DiskState.FORCE else lowest_leased(self._subscriptions)
        for queue, offset in expired:
            self._raise(queue, offset, held)
        if is_forced:
            for queue in self._queues:
                self._raise(queue, queue.first_at_or_above(forced), held)
        is_settled = self._settle_expired_if_room()
        going = self._segments_to_delete(min(await self._keep_from(), began_offset), forced, state)
        end_offset = going[-1].base_offset + self._config.segment_bytes if going else 0
        # Whoever takes a snapshot from here on is not promised what is about to go.
        self.snapshots.going_to = end_offset
        if end_offset > forced:
            await self._forward(end_offset)
            for queue in self._schedule_queues():
                queue.raise_min(queue.first_at_or_above(end_offset))
        self._min_offsets.save(self._queues, frees_disk=bool(going))
        if going:
            await self._delete(end_offset, len(going))
        elif self._disk.refusal is None:
            self._min_offsets.spare.prepare()
        if not is_settled:
            self._settle_expired()
        for queue in self._queues:
            queue.delete_unreadable_files()
        self._forget_deleted(self._commit_log.start_offset)
        known = self._first.items()
        self._first = {queue: at for queue, at in known if queue.min_offset < queue.max_offset}
        if self.local is not None:
            below = min(self._dispatcher.dispatched_offset, self._indexer.indexed_offset)
            await self.local.run(state, below=below)
        return len(going)

    def _forget_deleted(self, start_offset: int) -> None:
        """Forget what was deleted or purged before the log's first byte was written.

        Raises ``DiskFull``. One replaced file when there is something to forget.
        """
        known = self._min_offsets
        old = [name for name, at in known.deleted.items() if at <= start_offset]
        gone = [name for name in old if name in self._catalog.topics or self._queues.forget(name)]
        purged = {name: at for name, at in known.purged.items() if at > start_offset}
        if gone or purged != known.purged:
            left = {name: at for name, at in known.deleted.items() if name not in gone}
            known.save(self._queues, deleted=left, purged=purged)

    def _schedule_queues(self) -> list[ConsumeQueue]:
        return self._queues.by_topic.get(SCHEDULE_TOPIC_BYTES, [])

    def _settle_expired_if_room(self) -> bool:
        """False if the disk is too full even for that: it is tried again after this pass has freed
        space. Until then readers skip what has expired.
        """
        try:
            self._settle_expired()
        except DiskFull as exc:
            log.warning(
                "The disk is too full to settle expired messages; trying again after "
                "deleting segments",
                extra={"action": "expired_settle_failed", "reason": str(exc)},
            )
            return False
        return True

    def _settle_expired(self) -> None:
        lost_count = self.settle_expired()
        if lost_count:
            log.warning(
                "Messages expired before some groups had settled them",
                extra={"action": "unsettled_expired", "message_count": lost_count},
            )

    def settle_expired(self) -> int:
        """Let the groups pass over what cannot be read; how many messages they had not settled.

        One journal write. Raises ``DiskFull``, with nothing settled.
        """
        settled: list[tuple[Progress, list[Run]]] = []
        behind: list[ProcessQueue] = []
        for subscription in self._subscriptions:
            for process_queue in subscription.sources:
                first = process_queue.progress.consumer_offset
                count = process_queue.queue.min_offset - first
                if count > 0:
                    settled.append((process_queue.progress, [(first, count)]))
                    behind.append(process_queue)
        if not settled:
            return 0
        lost_count = sum([each.progress.unsettled_below(each.queue.min_offset) for each in behind])
        self._consumer_offsets.settle(settled)
        for process_queue in behind:
            process_queue.forget_below_min()
        self.lost_message_count += lost_count
        return lost_count

    def _raise(self, queue: ConsumeQueue, offset: int, held: dict[ConsumeQueue, int]) -> None:
        queue.raise_min(min(offset, held.get(queue, offset)))

    async def _expired(self, now_ms: int) -> list[tuple[ConsumeQueue, int]]:
        """Queues with messages whose time is over, and the first offset behind those."""
        topics = self._catalog.topics
        found: list[tuple[ConsumeQueue, int]] = []
        for step, queue in enumerate(list(self._queues)):
            if step % _QUEUES_A_STEP == _QUEUES_A_STEP - 1:
                await asyncio.sleep(0)
            if queue.topic == SCHEDULE_TOPIC or queue.min_offset >= queue.max_offset:
                continue
            topic = topics.get(queue.topic)
            own_ms = topic.retention_ms if topic is not None else 0
            until_ms = now_ms - min(own_ms or self._config.retention_ms, self._config.retention_ms)
            if self._first_of(queue)[2] < until_ms:
                expired = offset_at_time(self._commit_log, queue, until_ms, is_local=True)
                found.append((queue, expired))
        return found

    def _first_of(self, queue: ConsumeQueue) -> tuple[int, int, int]:
        known = self._first.get(queue)
        if known is None or known[0] != queue.min_offset:
            physical_offset, record_bytes, _ = queue.unit(queue.min_offset)
            in_bucket = self._commit_log.times_in_bucket(physical_offset)
            if in_bucket is not None:
                # Until the segment behind it came: not kept, as that may not be known yet.
                return queue.min_offset, physical_offset, in_bucket[1]
            place = (physical_offset, record_bytes)
            # A damaged message is as old as can be: those behind it decide.
            is_damaged = self._commit_log.damaged([place])
            stamp = 0 if is_damaged else store_timestamp_of(self._commit_log.read_many([place]))
            known = self._first[queue] = (queue.min_offset, physical_offset, stamp)
        return known

    def _forced_offset(self, state: DiskState) -> int:
        """The offset below which the log must be deleted; its start if nothing must be."""
        segments = self._commit_log.segments()
        size_bytes = self._config.segment_bytes
        count = 0
        if self._config.retention_bytes:
            excess = len(segments) * size_bytes - self._config.retention_bytes
            count = max(0, -(-excess // size_bytes))
        is_left = self.local is not None and self.local.is_bounded
        if state >= DiskState.FORCE and not is_left and segments and segments[0].is_local:
            count = max(count, 1)
        count = min(count, self._config.retention_files_max, len(segments) - 1)
        count = min(count, len(self._not_held(segments)))
        return segments[count].base_offset if segments and count > 0 else 0

    async def _keep_from(self) -> int:
        """The lowest physical offset that can still be read, now or later.

        Scheduled messages do not count: they are appended again.
        """
        # Taken before the queues are looked at: what is not visible in them yet lies above it.
        lowest = min(self._dispatcher.dispatched_offset, self._commit_log.flushed_offset)
        for step, queue in enumerate(list(self._queues)):
            if step % _QUEUES_A_STEP == _QUEUES_A_STEP - 1:
                await asyncio.sleep(0)
            if queue.min_offset < queue.max_offset and queue.topic != SCHEDULE_TOPIC:
                lowest = min(lowest, self._first_of(queue)[1])
        return lowest

    def _segments_to_delete(
        self, keep_from: int, forced: int, state: DiskState
    ) -> list[MappedFile]:
        """The segments to delete in this pass, from the first one on."""
        segments = self._commit_log.segments()
        size_bytes = self._config.segment_bytes
        free = self._not_held(segments[:-1])
        free = [file for file in free if file.base_offset + size_bytes <= keep_from]
        free = free[: self._config.retention_files_max]
        if state < DiskState.CLEAN:
            aged = [file for file in free if file.base_offset >= forced]
            may_go = min(len(aged), self._may_age(len(segments)))
            free = free[: len(free) - len(aged) + may_go]
            self._aged_count += may_go
        return free

    def _not_held(self, segments: list[MappedFile]) -> list[MappedFile]:
        """Those of them that no snapshot holds."""
        held_from = self.snapshots.lowest_held_offset()
        if held_from is None:
            return segments
        size_bytes = self._config.segment_bytes
        return [file for file in segments if file.base_offset + size_bytes <= held_from]

    async def _delete(self, offset: int, count: int) -> None:
        await self._commit_log.delete_before(offset)
        self._indexer.drop_below(offset)
        self._quarantine.drop_below(offset)
        self.deleted_segment_count += count
        log.info(
            "Deleted expired segments of the commit log",
            extra={
                "action": "segments_deleted",
                "segment_count": count,
                "start_offset": offset,
            },
        )

    def _may_age(self, segment_count: int) -> int:
        """How many segments may still go by age in this interval."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._age_interval_from_ms >= _AGE_INTERVAL_MS:
            self._age_interval_from_ms = now_ms
            self._aged_count = 0
        return max(0, max(1, segment_count // _AGE_PART) - self._aged_count)


def lowest_leased(subscriptions: Iterable[Subscription]) -> dict[ConsumeQueue, int]:
    """The lowest queue offset under a lease, of every queue that has leases."""
    lowest: dict[ConsumeQueue, int] = {}
    for subscription in subscriptions:
        for process_queue in subscription.sources:
            if process_queue.inflight:
                queue, offset = process_queue.queue, min(process_queue.inflight)
                lowest[queue] = min(offset, lowest.get(queue, offset))
    return lowest
