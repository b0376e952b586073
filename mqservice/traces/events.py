"""The trace of a message in words: what happened to it, in order of time.

    records as the engine found them (hops) ──▶ [events_of] ──▶ born, stored, delivery failed, …

A failed delivery leaves one record when it is retried at once, and two when it waits in the
schedule first; what retention moves to the end of the log is there once more. Each delivery is told
once. Deliveries that went well leave no record: they show in what the message is to a group now.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mqservice.lib.names import CONSUMER_PREFIX
from mqservice.store import SCHEDULE_TOPIC, TraceHop, dlq_topic_of, retry_topic_of

_RETRY: Final = retry_topic_of("")
_DLQ: Final = dlq_topic_of("")


class EventKind(enum.StrEnum):
    """What happened, in the order of a message that fails."""

    BORN = "born"
    SCHEDULED = "scheduled"
    STORED = "stored"
    DELIVERY_FAILED = "delivery_failed"
    READY_AGAIN = "ready_again"
    DEAD_LETTERED = "dead_lettered"
    REDRIVEN = "redriven"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """``topic`` and ``group`` are full names. Times in ms; 0 and None: it does not say.

    ``attempt`` counts deliveries from 1. ``due_ms``: when it is delivered, or delivered again.
    """

    kind: EventKind
    at_ms: int
    topic: str = ""
    queue_id: int | None = None
    queue_offset: int | None = None
    group: str = ""
    attempt: int | None = None
    consumer: str = ""
    reason: str = ""
    delivered_ms: int = 0
    due_ms: int = 0


def events_of(hops: Iterable[TraceHop]) -> list[Event]:
    """All that is known, in order of time."""
    in_order = sorted(hops, key=lambda hop: hop.physical_offset)
    events: list[Event] = []
    told: set[tuple[str, str, int]] = set()  # group, topic, attempt
    due_ms = 0  # of the message's last place in the schedule
    if in_order:
        events.append(Event(kind=EventKind.BORN, at_ms=in_order[0].born_ms))
    for hop in in_order:
        group = _group_of(hop)
        if not group:
            events += _of_topic(hop, due_ms)
            due_ms = hop.due_ms if hop.topic == SCHEDULE_TOPIC else 0
            told = {each for each in told if each[1] != hop.topic}  # it begins anew
        elif hop.topic.startswith(_DLQ):
            events.append(_failure(hop, EventKind.DEAD_LETTERED, group))
        else:
            attempt = group, hop.origin_topic, hop.reconsume_times
            if attempt not in told:
                told.add(attempt)
                events.append(_failure(hop, EventKind.DELIVERY_FAILED, group))
            if hop.topic != SCHEDULE_TOPIC:
                events.append(_place(hop, EventKind.READY_AGAIN, group))
    return events


def shown_member(member_id: str) -> str:
    """A consumer's own id; of others the name that the service gave the connection or request."""
    return member_id.removeprefix(CONSUMER_PREFIX)


def _group_of(hop: TraceHop) -> str:
    """Whose record it is; empty for one of the topic itself, on its way or there."""
    place = hop.target_topic if hop.topic == SCHEDULE_TOPIC else hop.topic
    for prefix in (_RETRY, _DLQ):
        if place.startswith(prefix):
            return place.removeprefix(prefix)
    return ""


def _of_topic(hop: TraceHop, due_before_ms: int) -> list[Event]:
    if hop.topic == SCHEDULE_TOPIC:
        if hop.from_topic == SCHEDULE_TOPIC and due_before_ms in (0, hop.due_ms):
            return []  # moved to the end of the log, and not to another time
        event = Event(
            kind=EventKind.SCHEDULED, at_ms=hop.stored_ms, topic=hop.target_topic, due_ms=hop.due_ms
        )
        return [event]
    if hop.from_topic.startswith(_DLQ):
        return [_place(hop, EventKind.REDRIVEN, hop.from_topic.removeprefix(_DLQ))]
    return [_place(hop, EventKind.STORED, "")]


def _place(hop: TraceHop, kind: EventKind, group: str) -> Event:
    return Event(
        kind=kind,
        at_ms=hop.stored_ms,
        topic=hop.origin_topic or hop.topic,
        queue_id=None if hop.origin_topic else hop.queue_id,
        queue_offset=None if hop.origin_topic else hop.queue_offset,
        group=group,
    )


def _failure(hop: TraceHop, kind: EventKind, group: str) -> Event:
    return Event(
        kind=kind,
        at_ms=hop.stored_ms,
        topic=hop.origin_topic,
        group=group,
        attempt=hop.reconsume_times,
        consumer=shown_member(hop.member_id),
        reason=hop.reason,
        delivered_ms=hop.delivered_ms,
        due_ms=hop.due_ms or (hop.stored_ms if kind is EventKind.DELIVERY_FAILED else 0),
    )
