"""The trace of a message as a timeline: produced, stored, each failed delivery, where it is now.

id, topic ──▶ traces.queries, as REST asks ──▶ steps with the time between them, states
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mqservice.console.shared.frame import Frame
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import parse_rfc3339
from mqservice.topics.queries import get_topic
from mqservice.traces.api import ID_CHARS_MAX as TRACED_ID_CHARS_MAX
from mqservice.traces.events import EventKind
from mqservice.traces.queries import find_trace
from mqservice.traces.schemas import EventOut, GroupStateOut, TraceOut

__all__ = ["TRACED_ID_CHARS_MAX", "ShownTrace", "shown_trace"]

STEPS_MAX: Final = 500
_GOOD_STATES: Final = {"settled", "redriven"}
_BAD_STATES: Final = {"dead", "purged", "expired", "unknown"}
_KINDS: Final = {
    EventKind.DELIVERY_FAILED: "unsure",
    EventKind.DEAD_LETTERED: "bad",
    EventKind.REDRIVEN: "accent",
    EventKind.STORED: "good",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One event. ``after_ms``: since the one before, None for the first. ``tone``: how it is
    coloured.
    """

    event: EventOut
    at_ms: int
    delivered_ms: int | None
    due_ms: int | None
    after_ms: int | None
    tone: str

    @property
    def held_ms(self) -> int | None:
        """How long the delivery lasted that failed."""
        return None if self.delivered_ms is None else max(0, self.at_ms - self.delivered_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the message is to a group now."""

    group: GroupStateOut
    until_ms: int | None
    tone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTrace:
    """``topic``: where the message is stored as it was produced; empty where it is no more."""

    problem: Problem | None
    topic: str
    context: dict[str, object]


def shown_trace(frame: Frame, message_id: str, topic: str, group: str) -> ShownTrace:
    """What happened to a message, for ``_message.html``; in all topics without one. Up to three
    queries, and a call to the engine.
    """
    problem: Problem | None = None
    out: TraceOut | None = None
    groups = ConsumerGroup.objects.select_related("namespace")
    try:
        road = find_trace(
            frame.namespace,
            message_id,
            topic=get_topic(frame.namespace, topic) if topic else None,
            group=groups.filter(namespace=frame.namespace, name=group).first() if group else None,
        )
        out = TraceOut.of(message_id, road)
    except Problem as refused:
        problem = refused
    return ShownTrace(
        problem=problem,
        topic=_topic_of(out),
        context={
            "trace_problem": problem,
            "steps": steps_of(out) if out else [],
            "more_count": max(0, len(out.events) - STEPS_MAX) if out else 0,
            "states": [_state(each) for each in out.groups] if out else [],
            "is_complete": out is None or out.is_complete,
        },
    )


def steps_of(out: TraceOut) -> list[Step]:
    """In order of time, at most ``STEPS_MAX``."""
    steps: list[Step] = []
    before_ms: int | None = None
    for event in out.events[:STEPS_MAX]:
        at_ms = parse_rfc3339(event.at)
        steps.append(
            Step(
                event=event,
                at_ms=at_ms,
                delivered_ms=_ms(event.delivered_at),
                due_ms=_ms(event.due_at),
                after_ms=None if before_ms is None else max(0, at_ms - before_ms),
                tone=_KINDS.get(event.event, "plain"),
            )
        )
        before_ms = at_ms
    return steps


def _state(group: GroupStateOut) -> State:
    tone = "plain"
    if group.state in _GOOD_STATES:
        tone = "good"
    elif group.state in _BAD_STATES:
        tone = "bad"
    elif group.state in ("scheduled", "waiting", "moving", "in_flight"):
        tone = "unsure"
    return State(group=group, until_ms=_ms(group.lease_until or group.due_at), tone=tone)


def _topic_of(out: TraceOut | None) -> str:
    """Where it was produced to, as the road says."""
    if out is None:
        return ""
    return next((event.topic for event in out.events if event.topic and not event.group), "") or ""


def _ms(text: str | None) -> int | None:
    return None if text is None else parse_rfc3339(text)
