"""The trace of a message as a timeline: produced, stored, each failed delivery, where it is now.

?id= | ?topic=&key= ──▶ messages of that key ──▶ one of them
id, ?topic= ──▶ traces.queries, as REST asks ──▶ steps with the time between them, states
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.accounts.scopes import Kind, Scope
from mqservice.console.shared.bodies import Stored, preview
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.data_plane import call_data_plane
from mqservice.console.shared.frame import Frame, page
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import parse_rfc3339
from mqservice.topics.models import Topic
from mqservice.topics.queries import get_topic
from mqservice.traces.api import ID_CHARS_MAX
from mqservice.traces.events import EventKind
from mqservice.traces.queries import find_trace
from mqservice.traces.schemas import EventOut, GroupStateOut, TraceOut

FOUND_ROWS: Final = 20
TOPICS_OFFERED: Final = 200
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


@page("traces", needs=Permission.CONSUME)
def traces(frame: Frame) -> HttpResponse:
    """``?id=`` leads to its road; ``?topic=&key=`` lists messages of the key, the newest first."""
    given = {name: frame.request.GET.get(name, "").strip() for name in ("id", "topic", "key")}
    if given["id"]:
        url = frame.url("trace", given["id"]) if "/" not in given["id"] else frame.url("traces")
        return redirect(url + (f"?topic={given['topic']}" if _is_name(given["topic"]) else ""))
    topics = Topic.objects.filter(namespace=frame.namespace).order_by("name")
    problem: Problem | None = None
    found: list[Stored] = []
    if given["key"] and _is_name(given["topic"]):
        path = f"{frame.api_root}/topics/{given['topic']}/messages"
        query = {"key": given["key"], "limit": str(FOUND_ROWS)}
        answer = call_data_plane(frame.request, frame.principal, "GET", path, query=query)
        problem = answer.problem
        found = [] if problem else answer.data["messages"]
    elif given["key"]:
        problem = Problem.of("BAD_REQUEST", _("To search by key, also enter the topic."))
    return frame.render(
        "console/traces.html",
        status=422 if problem is not None else 200,
        given=given,
        problem=problem,
        is_asked=bool(given["key"]),
        rows=[(message, preview(message)) for message in found],
        topics=list(topics.values_list("name", flat=True)[:TOPICS_OFFERED]),
        curl=curl_of(
            "GET",
            f"{frame.api_root}/topics/{given['topic'] or 'orders'}/messages?"
            + urlencode({"key": given["key"] or "order-1", "limit": FOUND_ROWS}),
        ),
    )


@page("traces", needs=Permission.CONSUME)
def trace(frame: Frame, message_id: str) -> HttpResponse:
    """``?topic=&group=``: looked for in all topics without one. As ``traces.api.trace_message``."""
    topic = frame.request.GET.get("topic", "")
    group = frame.request.GET.get("group", "")
    if len(message_id) > ID_CHARS_MAX or (topic and not _is_name(topic)):
        raise Http404
    problem: Problem | None = None
    out: TraceOut | None = None
    try:
        frame.principal.require(Scope.CONSUME, Kind.TOPIC if topic else None, topic)
        groups = ConsumerGroup.objects.select_related("namespace")
        road = find_trace(
            frame.namespace,
            message_id,
            topic=get_topic(frame.namespace, topic) if topic else None,
            group=groups.filter(namespace=frame.namespace, name=group).first() if group else None,
        )
        out = TraceOut.of(message_id, road)
    except Problem as refused:
        problem = refused
    path = f"{frame.api_root}/messages/{message_id}/trace"
    return frame.render(
        "console/trace.html",
        status=200 if problem is None else problem.status,
        message_id=message_id,
        topic=topic or _topic_of(out),
        problem=problem,
        steps=steps_of(out) if out else [],
        more_count=max(0, len(out.events) - STEPS_MAX) if out else 0,
        states=[_state(each) for each in out.groups] if out else [],
        is_complete=out is None or out.is_complete,
        crumbs=frame.crumbs(message_id[:40]),
        curl=curl_of("GET", path),
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


def _is_name(text: str) -> bool:
    return bool(text) and len(text) <= NAME_CHARS_MAX and not set(text) & set("/?#%:&")
