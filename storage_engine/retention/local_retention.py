"""Bounds what a shard's log takes of the local disk: its oldest segments are left to the bucket.

    published snapshot ── its segments ──▶ [LocalRetention] ── every piece is there ──▶ BucketLog
    scheduled messages in them ── forwarded ──▶ the end of the log

Nothing expires by it: messages, offsets and the bytes that retention counts stay. A segment goes
when the log takes more than ``local_retention_bytes``, or the disk is at 85 %; and then only what
the newest snapshot has whole, whose pieces have their SHA-256 for a name and were seen in the
bucket a moment ago. What delivery by time, the index or a reader of the files still needs stays
here. Scheduled messages to come are appended again first; where they are more than half of what
would go, all stays, as it would come back. Loop thread only.
"""

from __future__ import annotations

import logging

from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.disk.disk_space import DiskState
from storage_engine.log.bucket_files import BucketFile
from storage_engine.log.bucket_log import BucketLog
from storage_engine.replicated_log.errors import LogError
from storage_engine.replication.snapshotter import Snapshotter
from storage_engine.retention.snapshots import Snapshots
from storage_engine.schedule.forwarder import Forwarder
from storage_engine.schedule.schedule import Schedule

log = logging.getLogger(__name__)


class LocalRetention:
    """See the module's docstring."""

    def __init__(
        self,
        parts: EngineParts,
        commit_log: BucketLog,
        snapshotter: Snapshotter,
        snapshots: Snapshots,
        forwarder: Forwarder,
        schedule: Schedule,
    ) -> None:
        self._config = parts.config
        self._commit_log = commit_log
        self._queues = parts.queues
        self._min_offsets = parts.min_offsets
        self._snapshotter = snapshotter
        self._snapshots = snapshots
        self._forward = forwarder.forward
        self._schedule = schedule
        self._is_full_of_scheduled = False
        self.left_segment_count = 0  # to the bucket, since the start

    @property
    def is_bounded(self) -> bool:
        return self._config.local_retention_bytes > 0

    async def run(self, state: DiskState, *, below: int) -> int:
        """One pass; how many segments went. ``below``: above it everything is still needed here.

        Raises ``DiskFull``, ``SyncFailed``: nothing went that is not in the bucket.
        """
        left = self._chosen(state, below)
        end_offset = left[-1].end_offset if left else 0
        if not left or self._is_mostly_scheduled(end_offset):
            return 0
        try:
            await self._snapshotter.confirm([piece for each in left for piece in each.pieces])
        except LogError as exc:
            log.warning(
                "Could not see in the bucket what would be left to it; the segments stay on the "
                "local disk for now",
                extra={"action": "local_retention_failed", "reason": str(exc)},
            )
            return 0
        await self._forward(end_offset)
        for source in self._schedule.sources:
            source.queue.raise_min(source.queue.first_at_or_above(end_offset))
        self._min_offsets.save(self._queues, frees_disk=True)
        if self._held_below(end_offset):
            return 0  # a reader has come meanwhile
        # Who reads the files from here on is not promised what is about to go.
        self._snapshots.going_to = max(self._snapshots.going_to, end_offset)
        await self._commit_log.leave_to_bucket(left)
        self.left_segment_count += len(left)
        log.info(
            "Left the oldest segments of the commit log to the bucket",
            extra={
                "action": "segments_left_to_bucket",
                "segment_count": len(left),
                "local_start_offset": end_offset,
            },
        )
        return len(left)

    def _chosen(self, state: DiskState, below: int) -> list[BucketFile]:
        """The oldest local segments that may go, as the bucket has them."""
        config = self._config
        if not self.is_bounded:
            return []
        size_bytes = config.segment_bytes
        local = [each for each in self._commit_log.segments() if each.is_local]
        excess = len(local) - max(config.local_retention_bytes // size_bytes, 1)
        if state >= DiskState.FORCE:
            excess = len(local) - 1
        below = min(below, self._commit_log.flushed_offset)
        published = self._snapshotter.sealed_segments
        found: list[BucketFile] = []
        for segment in local[: min(max(excess, 0), config.retention_files_max, len(local) - 1)]:
            file = published.get(segment.base_offset)
            end_offset = segment.base_offset + size_bytes
            if file is None or end_offset > below or self._held_below(end_offset):
                break
            found.append(file)
        return found

    def _held_below(self, offset: int) -> bool:
        held_from = self._snapshots.lowest_held_offset()
        return held_from is not None and held_from < offset

    def _is_mostly_scheduled(self, end_offset: int) -> bool:
        """Whether so much of what would go is still to come that it would soon be here again."""
        self._schedule.follow()
        scheduled_bytes = sum(
            int(sizes.sum())
            for source in self._schedule.sources
            for _, sizes in source.queue.size_fields(
                source.start, source.queue.first_at_or_above(end_offset)
            )
        )
        size_bytes = end_offset - self._commit_log.local_start_offset
        was_full, self._is_full_of_scheduled = (
            self._is_full_of_scheduled,
            2 * scheduled_bytes > size_bytes,
        )
        if self._is_full_of_scheduled and not was_full:
            log.warning(
                "The oldest segments are mostly scheduled messages that are still to come; they "
                "stay on the local disk, which may take more than local_retention_bytes",
                extra={"action": "local_retention_scheduled", "scheduled_bytes": scheduled_bytes},
            )
        return self._is_full_of_scheduled
