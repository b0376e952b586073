"""The trace of a message on the wire of the control plane."""

from __future__ import annotations

from ninja import Schema

from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.lib.timestamps import rfc3339
from mqservice.store import TracedGroup, TraceState
from mqservice.traces.events import Event, EventKind, events_of, shown_member
from mqservice.traces.queries import MessageTrace, was_redriven


class EventOut(Schema):
    """Null fields do not belong to the event, or are unknown."""

    event: EventKind
    at: str
    topic: str | None
    queue: int | None
    offset: int | None
    group: str | None
    attempt: int | None
    consumer: str | None
    reason: str | None
    delivered_at: str | None
    due_at: str | None

    @classmethod
    def of(cls, event: Event) -> EventOut:
        return cls(
            event=event.kind,
            at=rfc3339(event.at_ms),
            topic=_name(event.topic),
            queue=event.queue_id,
            offset=event.queue_offset,
            group=_name(event.group),
            attempt=event.attempt,
            consumer=event.consumer or None,
            reason=event.reason or None,
            delivered_at=_moment(event.delivered_ms),
            due_at=_moment(event.due_ms),
        )


class GroupStateOut(Schema):
    """The current state of the message for a group."""

    group: str
    topic: str
    state: str
    attempts: int
    consumer: str | None
    lease_until: str | None
    due_at: str | None
    client_id: str | None

    @classmethod
    def of(cls, road: MessageTrace, group: TracedGroup) -> GroupStateOut:
        state: str = group.state
        if group.state is TraceState.GONE:
            state = "redriven" if was_redriven(road, group) else "purged"
        is_leased = group.state is TraceState.IN_FLIGHT
        until = _moment(group.until_ms)
        return cls(
            group=_name(group.group) or "",
            topic=_name(group.topic) or "",
            state=state,
            attempts=group.attempts,
            consumer=shown_member(group.member_id) or None,
            lease_until=until if is_leased else None,
            due_at=None if is_leased else until,
            client_id=group.client_id or None,
        )


class TraceOut(Schema):
    """``is_complete`` is false when events or groups may be missing: there were too many, or the
    key index lacks the newest messages.
    """

    id: str
    events: list[EventOut]
    groups: list[GroupStateOut]
    is_complete: bool

    @classmethod
    def of(cls, message_id: str, road: MessageTrace) -> TraceOut:
        return cls(
            id=message_id,
            events=[EventOut.of(event) for event in events_of(road.hops)],
            groups=[GroupStateOut.of(road, group) for group in road.groups],
            is_complete=road.is_complete,
        )


def _name(engine_name: str) -> str | None:
    return engine_name.partition(ENGINE_SEPARATOR)[2] or None


def _moment(ms: int) -> str | None:
    return rfc3339(ms) if ms else None
