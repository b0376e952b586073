"""Offsets of groups: reads of their progress, commits, and seeks with their audit.

    seek ── group row locked ──▶ engine OFFSET_RESET ── from → to ──▶ audit entry ──▶ commit

The engine is asked inside the transaction, so no reset is made while nobody could write it down.
The engine knows no shifts: they are made offsets here, of where the group stands when it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import Outcome, record
from mqservice.errors import problem_from_store
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.problem import Problem, ProblemItem
from mqservice.lib.wire import refused
from mqservice.protocol.choices import Dispatch
from mqservice.store import (
    GroupQueueStats,
    GroupStats,
    GroupStatsRequest,
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetOutOfRange,
    OffsetResetReply,
    OffsetResetRequest,
    OutcomeUnknown,
    ResetTo,
    StoreError,
    SyncFailed,
    TopicRef,
    TopicStats,
    blocking_client,
)
from mqservice.topics.models import Topic

SEEK_ACTION: Final = "group.seek"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeekTarget:
    """Where to; ``value`` is a time (epoch ms) or an offset. No queue ids: all queues.

    ``offsets``: (queue id, offset), where each queue has one of its own. ``shift``: so many
    messages ahead, or back where it is negative, as far as there are messages; once ``offsets`` say
    where that is, it only tells why. No client id: the group, or all clients of one that
    broadcasts.
    """

    to: ResetTo
    value: int = 0
    queue_ids: tuple[int, ...] = ()
    client_id: str = ""
    offsets: tuple[tuple[int, int], ...] = ()
    shift: int | None = None


def progress_of(group: ConsumerGroup, client_id: str = "") -> GroupStats:
    """Per queue that the group, or its client, has read, and per queue of its retry topic.

    One call to the engine. Raises Problem when the engine cannot tell, or knows no such client.
    """
    request = GroupStatsRequest(group=group.engine_name, client_id=client_id)
    try:
        with blocking_client(group.namespace.shard) as client:
            return client.group_stats(request)
    except StoreError as exc:
        raise problem_from_store(exc) from exc


def topic_stats(topic: Topic) -> TopicStats:
    """The queues of a topic. One call to the engine. Raises Problem when it cannot tell."""
    try:
        with blocking_client(topic.namespace.shard) as client:
            return client.topic_stats(TopicRef(topic=topic.engine_name))
    except StoreError as exc:
        raise problem_from_store(exc) from exc


def commit(
    group: ConsumerGroup, topic: Topic, queue_id: int, offset: int, *, client_id: str = ""
) -> OffsetCommitReply:
    """Settle all of a queue below ``offset``. One call to the engine.

    Raises Problem: BAD_REQUEST out of range, CONFLICT backwards or beside leases.
    """
    request = OffsetCommitRequest(
        group=group.engine_name,
        topic=topic.engine_name,
        queue_id=queue_id,
        offset=offset,
        client_id=client_id,
    )
    try:
        with blocking_client(group.namespace.shard) as client:
            return client.offset_commit(request)
    except StoreError as exc:
        raise _problem(exc, "/offset") from exc


def preview_seek(group: ConsumerGroup, topic: Topic, target: SeekTarget) -> OffsetResetReply:
    """What a seek would do. One call to the engine, two for a shift. Raises Problem as ``seek``."""
    target = _without_shift(group, topic, target)
    try:
        return _reset(group, topic, target, is_dry_run=True)
    except StoreError as exc:
        raise _problem(exc, "/to/offset") from exc


def seek(
    principal: Principal, group: ConsumerGroup, topic: Topic, target: SeekTarget
) -> OffsetResetReply:
    """Let the group go on from another place. One transaction, one call to the engine, two for a
    shift.

    Raises Problem: BAD_REQUEST out of range, or what the engine's failure means.
    """
    failure: StoreError | None = None
    is_shift = target.shift is not None
    details: dict[str, object] = {
        "topic": topic.name,
        "to": "shift" if is_shift else target.to.value,
        "value": target.shift if is_shift else target.value,
        **({"client_id": target.client_id} if target.client_id else {}),
    }
    reply: OffsetResetReply | None = None
    with transaction.atomic():
        # Seeks of one group in turn; and PostgreSQL is there.
        if not ConsumerGroup.objects.select_for_update().filter(pk=group.pk).exists():
            raise Problem.of("GROUP_NOT_FOUND", f"{group.name} has just been deleted")
        target = _without_shift(group, topic, target)
        try:
            reply = _reset(group, topic, target, is_dry_run=False)
        except (OutcomeUnknown, SyncFailed) as exc:
            failure = exc
            details["queues"] = list(target.queue_ids)
        except StoreError as exc:
            raise _problem(exc, "/to/offset") from exc
        else:
            details["queues"] = [
                {"queue": queue.queue_id, "from": queue.from_offset, "to": queue.to_offset}
                for queue in reply.queues
            ]
        record(
            principal,
            group.namespace,
            SEEK_ACTION,
            f"groups/{group.name}",
            details,
            outcome=Outcome.DONE if failure is None else Outcome.UNKNOWN,
        )
    if reply is None:
        assert failure is not None
        raise problem_from_store(failure) from failure
    return reply


def _without_shift(group: ConsumerGroup, topic: Topic, target: SeekTarget) -> SeekTarget:
    """The same in offsets. Raises Problem BAD_REQUEST where there is nothing to shift from."""
    if target.shift is None or target.offsets:
        return target
    if group.dispatch == Dispatch.BROADCAST and not target.client_id:
        raise refused("/to/shift", "each client has its own offsets: name one in client_id")
    rows = [
        row
        for row in progress_of(group, target.client_id).queues
        if row.topic == topic.engine_name and not row.retry_of
    ]
    known = {row.queue_id for row in rows}
    if not rows or not known.issuperset(target.queue_ids):
        raise refused(
            "/to/shift", f"{group.name} has not read from there yet, so there is no offset to shift"
        )
    offsets = tuple(
        (row.queue_id, _shifted(row, target.shift))
        for row in rows
        if not target.queue_ids or row.queue_id in target.queue_ids
    )
    return replace(
        target, to=ResetTo.OFFSET, offsets=offsets, queue_ids=tuple(at for at, _ in offsets)
    )


def _shifted(row: GroupQueueStats, shift: int) -> int:
    wanted = max(row.consumer_offset, row.min_offset) + shift
    return min(max(wanted, row.min_offset), row.max_offset)


def _reset(
    group: ConsumerGroup, topic: Topic, target: SeekTarget, *, is_dry_run: bool
) -> OffsetResetReply:
    with blocking_client(group.namespace.shard) as client:
        return client.offset_reset(
            OffsetResetRequest(
                group=group.engine_name,
                topic=topic.engine_name,
                to=target.to,
                value=target.value,
                queue_ids=target.queue_ids,
                is_dry_run=is_dry_run,
                client_id=target.client_id,
                offsets=dict(target.offsets),
            )
        )


def _problem(exc: StoreError, offset_pointer: str) -> Problem:
    if isinstance(exc, OffsetOutOfRange):
        item = ProblemItem(offset_pointer, "BAD_REQUEST", str(exc))
        return Problem.of("BAD_REQUEST", str(exc), errors=[item])
    problem = problem_from_store(exc)
    problem.stored = None  # no message was offered
    return problem
