"""Changes consumer offsets on request: commits and resets.

    server ── commit ──▶ [OffsetChanges] ── settled up to there ──▶ consumer_offsets (journal)
    server ── reset ───▶ [OffsetChanges] ── from → to, durable ──▶ consumer_offsets
                              └── what was in flight is so no more ──▶ process queues, retries

A commit goes forward only, where nothing is in flight. A reset goes anywhere and wins over all that
began before it: receipts, failures that wait, moves whose record is not durable yet. What waits for
a retry already is not touched. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from storage_engine.delivery.clients import split_reader
from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.subscription import ProcessQueue, Subscription
from storage_engine.errors import BadRequest, CommitRefused, OffsetOutOfRange, QueueNotFound
from storage_engine.log.offset_at_time import offset_at_time
from storage_engine.moves.retries import Retries
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.schedule.scheduled_retries import ScheduledRetries
from storage_engine.wire.groups import GroupConfig
from storage_engine.wire.notices import Notice, NoticeKind
from storage_engine.wire.offsets import (
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetResetReply,
    OffsetResetRequest,
    QueueReset,
    ResetTo,
)


class OffsetChanges:
    """See the module's docstring."""

    def __init__(
        self,
        parts: EngineParts,
        delivery: Delivery,
        retries: Retries,
        scheduled_retries: ScheduledRetries,
    ) -> None:
        self._commit_log = parts.commit_log
        self._consumer_offsets = parts.consumer_offsets
        self._notify = parts.notices.notify
        self._delivery = delivery
        self._subscriptions = delivery.subscriptions
        self._retries = retries
        self._scheduled_retries = scheduled_retries

    def commit(
        self, group: GroupConfig, queues: list[ConsumeQueue], request: OffsetCommitRequest
    ) -> OffsetCommitReply:
        """Settle what is below an offset; journaled like an ack (one write, no sync).

        The first commit to a topic is its first subscribe: the group begins at the offset, and at
        its start position on the topic's other queues.

        Raises:
            QueueNotFound, OffsetOutOfRange.
            CommitRefused: the offset is below the group's, or messages of the queue are in flight.
            DiskFull: nothing has changed.
        """
        (queue,) = _chosen(queues, request.topic, [request.queue_id])
        offset = _in_range(queue, request.offset)
        subscription = self._delivery.subscribe(
            group, request.topic, queues, {queue.queue_id: offset}
        )
        process_queue = subscription.queues[queue.queue_id]
        progress = process_queue.progress
        before = progress.consumer_offset
        if offset < before:
            raise CommitRefused(
                f"queue {queue.queue_id} is committed up to {before}; "
                "only a reset moves an offset back"
            )
        if process_queue.inflight:
            raise CommitRefused(
                f"{len(process_queue.inflight)} messages of queue {queue.queue_id} are in flight; "
                "settle them instead"
            )
        if offset > before:
            self._consumer_offsets.settle([(progress, [(before, offset - before)])])
            process_queue.forget_below(progress.consumer_offset)
            subscription.serve()
        return OffsetCommitReply(
            from_offset=before, min_offset=queue.min_offset, max_offset=queue.max_offset
        )

    def reset(
        self, readers: list[GroupConfig], queues: list[ConsumeQueue], request: OffsetResetRequest
    ) -> OffsetResetReply:
        """Let a group, or clients of a broadcast group, go on from other places; all or none.

        Durable on return (one fdatasync).

        A dry run changes nothing and answers the same. A time takes some ten reads of the log for
        each queue.

        Raises:
            QueueNotFound, OffsetOutOfRange, BadRequest: nothing has changed.
            DiskFull: nothing has changed.
            SyncFailed: it is done, but a power cut may undo it.
        """
        chosen = _chosen(queues, request.topic, request.queue_ids)
        targets = {queue.queue_id: self._target(queue, request) for queue in chosen}
        subscriptions = [self._subscriptions.find(each.group, request.topic) for each in readers]
        known = [each.queues if each is not None else [] for each in subscriptions]
        started = self._consumer_offsets.has_started
        reply = OffsetResetReply(
            queues=[
                _together(
                    [
                        _change(own[queue.queue_id], targets[queue.queue_id])
                        if queue.queue_id < len(own)
                        else _beginning(
                            queue,
                            targets[queue.queue_id],
                            has_started=started(reader.group, request.topic),
                        )
                        for reader, own in zip(readers, known, strict=True)
                    ]
                    or [_beginning(queue, targets[queue.queue_id], has_started=False)]
                )
                for queue in chosen
            ],
            retry_count=sum(map(_retry_count, subscriptions)),
            scheduled_count=_sum_known(map(self._scheduled_count, subscriptions)),
            client_count=sum(bool(split_reader(each.group)[1]) for each in readers),
        )
        if not request.is_dry_run:
            counts = [len(own) for own in known]  # before they are subscribed to more
            positions: list[tuple[ProcessQueue, int]] = []
            for reader, count in zip(readers, counts, strict=True):
                subscription = self._delivery.subscribe(reader, request.topic, queues, targets)
                old = [queue.queue_id for queue in chosen if queue.queue_id < count]
                positions += [(subscription.queues[at], targets[at]) for at in old]
            self.apply(positions)
        return reply

    def apply(self, positions: list[tuple[ProcessQueue, int]]) -> None:
        """Let groups go on from there, and make void what they were given before; all or none.

        Durable on return (one fdatasync). Raises ``DiskFull``: nothing has changed; ``SyncFailed``.
        """
        if not positions:
            return
        lease_floor = self._subscriptions.next_generation()
        try:
            self._consumer_offsets.reset(
                [(process_queue.progress, offset) for process_queue, offset in positions],
                lease_floor=lease_floor,
            )
        finally:
            # After a sync that failed too: what this run delivers follows its own table.
            moved = {queue for queue, _ in positions if queue.progress.lease_floor == lease_floor}
            for process_queue in moved:
                process_queue.restart()
            self._retries.forget(moved)
            by_owner: dict[Subscription, list[ProcessQueue]] = {}
            for process_queue in moved:
                by_owner.setdefault(process_queue.owner, []).append(process_queue)
            for owner, its in by_owner.items():
                queue_ids = [each.queue.queue_id for each in its if each is not owner.retry]
                self._notify(
                    Notice(
                        kind=NoticeKind.RESET,
                        group=owner.group,
                        topic=owner.topic,
                        queue_ids=tuple(sorted(queue_ids)),
                        lease_floor=lease_floor,
                        has_retries=owner.retry in its,
                    )
                )
            for owner in {process_queue.owner for process_queue, _ in positions}:
                owner.serve()

    def _target(self, queue: ConsumeQueue, request: OffsetResetRequest) -> int:
        match request.to:
            case ResetTo.EARLIEST:
                return queue.min_offset
            case ResetTo.LATEST:
                return queue.max_offset
            case ResetTo.TIMESTAMP:
                if request.value < 0:
                    raise BadRequest(f"the time is {request.value}, it must be 0 or more")
                return offset_at_time(self._commit_log, queue, request.value)
            case ResetTo.OFFSET:
                return _in_range(queue, request.offsets.get(queue.queue_id, request.value))

    def _scheduled_count(self, subscription: Subscription | None) -> int | None:
        if subscription is None or subscription.retry is None:
            return 0
        queue = subscription.retry.queue
        waiting = self._scheduled_retries.of(queue.topic, queue.queue_id)
        return None if waiting is None else waiting.count


def _chosen(queues: list[ConsumeQueue], topic: str, queue_ids: Sequence[int]) -> list[ConsumeQueue]:
    for queue_id in queue_ids:
        if not 0 <= queue_id < len(queues):
            raise QueueNotFound(
                f"the topic has queues 0 to {len(queues) - 1}, but the request names {queue_id}"
            )
    return [queues[queue_id] for queue_id in sorted(set(queue_ids))] or queues


def _in_range(queue: ConsumeQueue, offset: int) -> int:
    if not queue.min_offset <= offset <= queue.max_offset:
        raise OffsetOutOfRange(
            f"offset {offset} of queue {queue.queue_id} is not in "
            f"[{queue.min_offset}, {queue.max_offset}]"
        )
    return offset


def _change(process_queue: ProcessQueue, to_offset: int) -> QueueReset:
    queue, progress = process_queue.queue, process_queue.progress
    before = max(progress.consumer_offset, queue.min_offset)
    passed_below = progress.skipped.count_below(to_offset)  # by a filter
    settled = progress.settled
    settled_above = settled.count_in(to_offset, queue.max_offset)
    settled_above += progress.skipped.count - passed_below
    if to_offset > before:
        settled_below = settled.count_in(before, to_offset)
        settled_below += passed_below - progress.skipped.count_below(before)
        skipped_count = to_offset - before - settled_below
        replayed_count = settled_above
    else:
        skipped_count = 0
        replayed_count = before - to_offset + settled_above
    return QueueReset(
        queue_id=queue.queue_id,
        min_offset=queue.min_offset,
        max_offset=queue.max_offset,
        from_offset=progress.consumer_offset,
        to_offset=to_offset,
        skipped_count=skipped_count,
        replayed_count=replayed_count,
        inflight_count=len(process_queue.inflight),
    )


def _beginning(queue: ConsumeQueue, to_offset: int, *, has_started: bool) -> QueueReset:
    """On a queue that the group has never read; one added since it began is its own from the
    start.
    """
    return QueueReset(
        queue_id=queue.queue_id,
        min_offset=queue.min_offset,
        max_offset=queue.max_offset,
        from_offset=queue.min_offset if has_started else None,
        to_offset=to_offset,
        skipped_count=to_offset - queue.min_offset if has_started else None,
        replayed_count=0 if has_started else None,
        inflight_count=0,
    )


def _together(changes: list[QueueReset]) -> QueueReset:
    """The same queue for several readers; a count that one of them has not is unknown."""
    if len(changes) == 1:
        return changes[0]
    return replace(
        changes[0],
        from_offset=_known_min([each.from_offset for each in changes]),
        skipped_count=_sum_known([each.skipped_count for each in changes]),
        replayed_count=_sum_known([each.replayed_count for each in changes]),
        inflight_count=sum([each.inflight_count for each in changes]),
    )


def _known_min(offsets: list[int | None]) -> int | None:
    return min((offset for offset in offsets if offset is not None), default=None)


def _sum_known(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _retry_count(subscription: Subscription | None) -> int:
    if subscription is None or subscription.retry is None:
        return 0
    return subscription.retry.unsettled_count()
