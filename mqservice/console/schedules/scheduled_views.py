"""Scheduled messages: by topic and time, and the actions to cancel, send or reschedule them.

    topics of a page ──▶ engine, a few calls each ──▶ how many wait, as far as was counted
    one topic, or all ──▶ the data plane's list, up to LISTED_MAX ──▶ in order of time
    form ──▶ cancel, send or reschedule of the data plane, one by one ──▶ how many won

The store keeps what waits by kind of delay. A topic with no more than ``LISTED_MAX`` is shown by
time, and so are all of a namespace; of more, pages come in the order of the store, and the page
says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from mqservice.accounts.roles import Permission
from mqservice.console.shared.bodies import Stored, previews
from mqservice.console.shared.columns import columns_of
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.data_plane import call_data_plane
from mqservice.console.shared.form_times import utc_of
from mqservice.console.shared.form_views import FORM_METHODS
from mqservice.console.shared.frame import Frame, page
from mqservice.console.shared.time_zones import zone_given
from mqservice.console.topics.views import found_topic
from mqservice.delivery.delivery_time import CODE as TIME_CODE
from mqservice.delivery.limits import BROWSE_COUNT_MAX
from mqservice.lib.durations import parse_duration_ms
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import in_words
from mqservice.lib.timestamps import parse_rfc3339
from mqservice.store import (
    ScheduledListRequest,
    StoreClient,
    StoreError,
    blocking_client,
)
from mqservice.topics.models import Topic
from mqservice.topics.queries import topics_of

TOPIC_ROWS: Final = 25
COUNTED_MAX: Final = 256  # of a topic in the list of topics
COUNTED_BYTES_MAX: Final = 256 * 1024
COUNT_CALLS_MAX: Final = 4  # of some 4,000 messages of all topics each
ROWS: Final = 50
LISTED_MAX: Final = 1_000  # put in order of time
LIST_CALLS_MAX: Final = 8
CHOSEN_MAX: Final = 50
PAGE_DIGITS_MAX: Final = 3
_HANDLE: Final = re.compile(r"rc_[A-Za-z0-9_-]{1,509}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """``count`` is a lower bound unless ``is_whole``; None: nobody knows."""

    name: str
    count: int | None
    is_whole: bool = True
    next_ms: int | None = None  # only where all were seen


@page("scheduled", needs=Permission.CONSUME)
def scheduled(frame: Frame) -> HttpResponse:
    """``?q=&after=``: topics by name. Two queries, and a few calls to the engine for each row."""
    given = frame.request.GET
    text = given.get("q", "").strip()[:NAME_CHARS_MAX]
    rows = Topic.objects.filter(namespace=frame.namespace, name__gt=given.get("after", ""))
    if text:
        rows = rows.filter(name__icontains=text)
    topics = list(rows.select_related("namespace").order_by("name")[: TOPIC_ROWS + 1])
    shown = topics[:TOPIC_ROWS]
    with blocking_client(frame.namespace.shard) as client:
        counted = [_counted(client, topic) for topic in shown]
    return frame.render(
        "console/scheduled.html",
        rows=counted,
        text=text,
        has_topics=bool(topics) or bool(topics_of(frame.namespace, limit=1)),
        next_after=shown[-1].name if len(topics) > TOPIC_ROWS else "",
        curl=curl_of("GET", f"{frame.api_root}/scheduled"),
    )


@page("scheduled", needs=Permission.CONSUME, methods=FORM_METHODS)
def topic_scheduled(frame: Frame, topic: str) -> HttpResponse:
    """``?from=&to=&page=&cursor=``; POST with handles cancels, sends or moves those."""
    return _list_page(frame, found_topic(frame, topic).name)


@page("scheduled", needs=Permission.CONSUME, methods=FORM_METHODS)
def all_scheduled(frame: Frame) -> HttpResponse:
    """The same over all topics of the namespace."""
    return _list_page(frame, "")


def _list_page(frame: Frame, topic: str) -> HttpResponse:
    if frame.request.method == "POST":
        if not frame.can_produce:
            raise PermissionDenied(f"this needs the permission {Permission.PRODUCE.value}")
        _settle(frame, frame.request.POST)
        return redirect(frame.request.get_full_path())
    path = f"{frame.api_root}" + (f"/topics/{topic}" if topic else "") + "/scheduled"
    zone = zone_given(frame.request.GET)
    texts = {name: frame.request.GET.get(name, "").strip() for name in ("from", "to")}
    given = {name: utc_of(text, zone) for name, text in texts.items()}
    cursor = frame.request.GET.get("cursor", "")
    problem: Problem | None = None
    found: list[Stored] = []
    next_cursor: str | None = None
    try:
        found, next_cursor = _listed(frame, path, cursor)
        is_by_time = not cursor and next_cursor is None
        if not is_by_time:
            found, next_cursor = _fetch_page(frame, path, cursor, ROWS)
        found = _between(found, given)
    except Problem as refused:
        problem, is_by_time = refused, True
    number = _page_number(frame.request.GET.get("page", ""))
    first = (number - 1) * ROWS if is_by_time else 0
    shown = found[first : first + ROWS]
    title = topic or _("By time")
    return frame.render(
        "console/topic_scheduled.html",
        status=422 if problem is not None else 200,
        topic=topic,
        given=given,
        is_filtered=any(given.values()),
        problem=problem,
        rows=list(zip(shown, previews(frame.namespace, shown, topic), strict=True)),
        columns=columns_of(frame.user, "topic_scheduled"),
        is_by_time=is_by_time,
        listed_max=LISTED_MAX,
        count=len(found),
        first=first + 1,
        last=first + len(shown),
        previous_page=number - 1 if is_by_time and number > 1 else None,
        next_page=number + 1 if is_by_time and first + ROWS < len(found) else None,
        next_cursor=next_cursor,
        crumbs=frame.crumbs(title),
        curl=curl_of("GET", path),
    )


def _listed(frame: Frame, path: str, cursor: str) -> tuple[list[Stored], str | None]:
    """All of a list in order of time, unless there are more than ``LISTED_MAX``."""
    found: list[Stored] = []
    if cursor:
        return found, cursor
    for _call in range(LIST_CALLS_MAX):
        some, following = _fetch_page(frame, path, cursor, BROWSE_COUNT_MAX)
        found += some
        if following is None:
            found.sort(key=lambda message: (message["deliver_at"], message["id"]))
            return found, None
        if len(found) > LISTED_MAX:
            break
        cursor = following
    return found, cursor


def _fetch_page(
    frame: Frame, path: str, cursor: str, limit: int
) -> tuple[list[Stored], str | None]:
    """A page in the order of the store; it may be short before the last one. Raises Problem."""
    query = {"limit": str(limit), "cursor": cursor}
    answer = call_data_plane(frame.request, frame.principal, "GET", path, query=query)
    if answer.problem is not None:
        raise answer.problem
    data: dict[str, Any] = answer.data  # Any: see ScheduledResponse
    return data["messages"], data["next_cursor"]


def _between(found: list[Stored], given: dict[str, str]) -> list[Stored]:
    """Those that come within the times of the form. Raises Problem."""
    low = _moment_ms(given["from"])
    high = _moment_ms(given["to"])
    if low is None and high is None:
        return found
    return [
        message
        for message in found
        if (low is None or parse_rfc3339(message["deliver_at"]) >= low)
        and (high is None or parse_rfc3339(message["deliver_at"]) <= high)
    ]


def _moment_ms(text: str) -> int | None:
    if not text:
        return None
    try:
        return parse_rfc3339(text)
    except ValueError:
        raise Problem.of(
            "BAD_REQUEST", _("%(text)s is not a valid time.") % {"text": text}
        ) from None


def _settle(frame: Frame, given: QueryDict) -> None:
    """Cancel, send or move what was chosen, one by one: each may be delivered meanwhile."""
    handles = given.getlist("handle")[:CHOSEN_MAX]
    if not handles:
        messages.error(frame.request, _("No messages selected. Select some in the list."))
        return
    method, verb, body = "DELETE", "", b""
    if "send" in given:
        method, verb = "POST", ":send"
    elif "move" in given:
        method, verb, body = "POST", ":reschedule", _new_time(given)
    done = 0
    refusals: dict[str, int] = {}
    for handle in handles:
        if _HANDLE.fullmatch(handle) is None:
            continue  # nobody was given such a one
        path = f"{frame.api_root}/scheduled/{handle}{verb}"
        problem = call_data_plane(frame.request, frame.principal, method, path, body=body).problem
        if problem is None:
            done += 1
        else:
            text = in_words(problem.detail if problem.code == TIME_CODE else problem.title)
            refusals[text] = refusals.get(text, 0) + 1
    if done:
        messages.success(frame.request, _outcome_message(verb, done) % {"n": done})
    for text, count in refusals.items():
        messages.error(frame.request, f"{count} × {text}")


def _new_time(given: QueryDict) -> bytes:
    """The body that says so: a duration from now, or a time in the zone of the form."""
    text = given.get("when", "").strip()
    try:
        parse_duration_ms(text)
    except ValueError:
        return msgspec.json.encode({"deliver_at": utc_of(text, zone_given(given))})
    return msgspec.json.encode({"delay": text})


def _outcome_message(verb: str, done: int) -> str:
    if verb == ":send":
        return ngettext("%(n)s message was sent.", "%(n)s messages were sent.", done)
    if verb == ":reschedule":
        return ngettext(
            "%(n)s message was rescheduled.",
            "%(n)s messages were rescheduled.",
            done,
        )
    return ngettext(
        "%(n)s message was cancelled and will not be delivered.",
        "%(n)s messages were cancelled and will not be delivered.",
        done,
    )


def _counted(client: StoreClient, topic: Topic) -> TopicRow:
    """A few calls to the engine; each looks at a bounded number of messages of all topics."""
    queue_id = queue_offset = count = 0
    next_ms: int | None = None
    try:
        for _call in range(COUNT_CALLS_MAX):
            head, _records = client.scheduled_list(
                ScheduledListRequest(
                    topic=topic.engine_name,
                    queue_id=queue_id,
                    queue_offset=queue_offset,
                    messages_max=COUNTED_MAX,
                    bytes_max=COUNTED_BYTES_MAX,
                )
            )
            count += len(head.due_ms)
            next_ms = min([*head.due_ms, *([] if next_ms is None else [next_ms])], default=None)
            if head.is_end:
                return TopicRow(name=topic.name, count=count, next_ms=next_ms)
            if count >= COUNTED_MAX:
                break
            queue_id, queue_offset = head.queue_id, head.queue_offset
    except StoreError:
        return TopicRow(name=topic.name, count=None)
    return TopicRow(name=topic.name, count=count, is_whole=False)


def _page_number(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= PAGE_DIGITS_MAX
    return max(1, int(text)) if is_number else 1
