"""The message explorer: one search bar over topics and dead letters, newest first.

    ?q=topic:orders key:order-42&order=&cursor= ──▶ the API's search ──▶ rows, cursors both ways
                                                ──▶ its histogram    ──▶ bars, each narrows it

Without ``topic:`` or ``group:`` a key or an ID is looked for in all topics; for anything else it
shows what there is to look at. Works without scripts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import redirect

from mqservice.accounts.roles import Permission
from mqservice.console.dead_letters.queries import letters_of
from mqservice.console.messages.exports import Export
from mqservice.console.messages.saved_filters import filters_of
from mqservice.console.shared.bodies import Stored, previews
from mqservice.console.shared.columns import columns_of
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.data_plane import DataPlaneResponse, call_data_plane
from mqservice.console.shared.form_times import utc_of
from mqservice.console.shared.frame import Frame, page
from mqservice.console.shared.time_zones import zone_given
from mqservice.delivery.decoding import Fault
from mqservice.delivery.reading.message_query import (
    MessageQuery,
    parse_query,
    replaced,
    tokens_of,
    written,
)
from mqservice.delivery.reading.same_cause import NO_REASON
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import SECOND_MS
from mqservice.lib.timestamps import parse_rfc3339, rfc3339
from mqservice.searches.queries import searches_of
from mqservice.tasks.models import Task
from mqservice.topics.models import Topic

PAGE_ROWS: Final = 50
TASKS_SHOWN: Final = 5
NAMES_MAX: Final = 200  # of topics and groups that are offered
QUERY_CHARS_MAX: Final = 12_000  # 256 ids, and what fits into an address
BAR_HEIGHT: Final = 100
SETTLED_MS: Final = 5 * SECOND_MS  # after which nothing more is stored in a millisecond
TIMES: Final = ("last", "from", "to")
SPANS: Final = ("5m", "1h", "24h", "7d")
# Parameters of a browse, each of which is a token.
_PARAMETERS: Final = ("key", "tag", "reason", "from", "to", "queue", "contains")
_REDRIVABLE: Final = {"key", "tag", "reason", "from", "to"}  # what a redrive selects by


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Messages stored from ``at`` to ``last``. ``q``: the same search in this time."""

    at: str
    last: str
    count: int
    height: float
    q: str

    @property
    def top(self) -> float:
        return BAR_HEIGHT - self.height


@page("messages", needs=Permission.CONSUME)
def explorer(frame: Frame) -> HttpResponse:
    """``?q=&order=&cursor=``. Two calls of the data plane; for a group, calls and queries of its
    dead letters; without a place to look, three queries. For its live switch the table alone, of
    what came ``since`` the newest row: one call.
    """
    given = frame.request.GET
    q = given.get("q", "").strip()[:QUERY_CHARS_MAX]
    order = "oldest" if given.get("order") == "oldest" else "newest"
    wanted = parsed(q)
    topic, group = (wanted.topic, wanted.group) if wanted else ("", "")
    is_of_all = bool(wanted and wanted.is_of_all_topics)
    is_placed = bool(q) and (wanted is None or is_of_all or bool(topic or group))
    path = f"{frame.api_root}/messages"
    asked = {"q": q} | ({"order": order} if order == "oldest" else {})
    columns = columns_of(frame.user, "group_dead_letters" if group else "messages")
    if is_of_all:
        columns = replace(columns, shown=columns.shown | {"topic"})
    shown: dict[str, object] = {}
    status = 200
    if is_placed:
        is_part = frame.request.headers.get("HX-Request") == "true"
        if is_part:
            asked["q"] = _newer(q, given.get("since", ""))
        query = {**asked, "limit": str(PAGE_ROWS), "cursor": given.get("cursor", "")}
        begun_ms = SystemClock().monotonic_ms()
        answer = call_data_plane(frame.request, frame.principal, "GET", path, query=query)
        took_ms = SystemClock().monotonic_ms() - begun_ms
        status = answer.status
        shown = _page_of(frame, answer, took_ms, q)
        if is_part:
            return frame.render_part(
                "console/_explorer_table.html", status, group=group, columns=columns, **shown
            )
        if answer.problem is None and not is_of_all:
            shown |= _histogram(frame, path, q)
            if wanted and group:
                shown |= _letters(frame, wanted)
    return frame.render(
        "console/explorer.html",
        status=status,
        q=q,
        order=order,
        topic=topic,
        group=group,
        where=written("group", group) if group else written("topic", topic) if topic else "",
        is_placed=is_placed,
        is_of_all=is_of_all,
        is_filtered=_is_filtered(q),
        is_by_index=bool(wanted and (wanted.ids or "key" in wanted.values)),
        spans=[(span, replaced(q, TIMES, f"last:{span}")) for span in SPANS],
        base=replaced(q, TIMES),
        names=None if is_placed and (not is_of_all or shown.get("rows")) else _names(frame, q),
        columns=columns,
        can_be_live=bool(
            wanted
            and order == "newest"
            and not given.get("cursor")
            and not wanted.ids
            and "to" not in wanted.values
            and not is_of_all
        ),
        page_rows=PAGE_ROWS,
        saved=filters_of(frame.user, frame.namespace, topic) if topic else [],
        shared=searches_of(frame.namespace),
        exports=[kind.value for kind in Export],
        given={"q": q},
        curl=curl_of("GET", f"{path}?{urlencode(asked)}"),
        **shown,
    )


def _newer(q: str, since: str) -> str:
    """The search of what was stored since then; the same one for what is no time. While more may be
    stored in that millisecond, what is already there is found again.
    """
    try:
        since_ms = parse_rfc3339(since)
    except ValueError:
        return q
    if SystemClock().now_ms() - since_ms > SETTLED_MS:
        since_ms += 1
    return replaced(q, TIMES, f"from:{rfc3339(since_ms)}")


def to_explorer(frame: Frame, q: str) -> HttpResponse:
    return redirect(explorer_url(frame, q))


def explorer_url(frame: Frame, q: str) -> str:
    """Of the explorer with a search."""
    return f"{frame.url('messages')}?{urlencode({'q': q})}"


def old_search(frame: Frame, where: str) -> str:
    """The search that an address of before meant by its fields; ``where``: its first token."""
    fields = frame.request.GET
    zone = zone_given(fields)
    times = {name: utc_of(fields.get(name, "").strip(), zone) for name in ("from", "to")}
    return fields.get("q", "").strip() or q_of(where, {**fields.dict(), **times})


def q_of(where: str, fields: Mapping[str, str]) -> str:
    """The search with the parameters of a browse, each of them a token."""
    tokens = [
        written("body" if name == "contains" else name, value)
        for name in _PARAMETERS
        if (value := fields.get(name, "").strip())
    ]
    if condition := fields.get("sql", "").strip() or fields.get("filter", "").strip():
        tokens.append(written("sql", condition))
    return " ".join([where, *tokens])


def parsed(q: str) -> MessageQuery | None:
    """None for what is no query; the API says why."""
    try:
        return parse_query(q)
    except Fault:
        return None


def _is_filtered(q: str) -> bool:
    try:
        return any(
            token.is_comparison or token.name not in ("topic", "group") for token in tokens_of(q)
        )
    except Fault:
        return True


def _page_of(frame: Frame, answer: DataPlaneResponse, took_ms: int, q: str) -> dict[str, object]:
    if answer.problem is not None:
        return {"problem": answer.problem}
    scanned = answer.data.get("scanned")
    found = answer.data["messages"]
    texts = previews(frame.namespace, found)
    rows = [(each, text, _url_of(frame, each)) for each, text in zip(found, texts, strict=True)]
    return {
        "rows": rows,
        "next_cursor": answer.data["next_cursor"],
        "previous_cursor": answer.data["previous_cursor"],
        "is_incomplete": not answer.data["is_complete"],
        "scanned_count": scanned,
        "scanned_per_s": None if not scanned else scanned * SECOND_MS // max(1, took_ms),
        "topics_searched": answer.data.get("topics_searched"),
        "topics_left": answer.data.get("topics_left"),
        "more_in": [
            (name, f"{written('topic', name)} {q}") for name in answer.data.get("more_in", ())
        ],
    }


def _url_of(frame: Frame, message: Stored) -> str:
    if "group" in message:
        return frame.url("dead-letter", message["group"], message["id"])
    return frame.url("message", message["topic"], message["id"])


def _histogram(frame: Frame, path: str, q: str) -> dict[str, object]:
    answer = call_data_plane(
        frame.request, frame.principal, "GET", f"{path}:histogram", query={"q": q}
    )
    if answer.problem is not None or not answer.data["total"]:
        return {}
    found, bar_ms = answer.data["bars"], answer.data["bar_ms"]
    most = max(each["count"] for each in found)
    begins_ms = [parse_rfc3339(each["at"]) for each in found]
    begins_ms.append(begins_ms[-1] + bar_ms)
    bars = []
    for at, each in enumerate(found):
        last = rfc3339(begins_ms[at + 1] - 1)
        bars.append(
            Bar(
                at=each["at"],
                last=last,
                count=each["count"],
                # What is there is seen, however little beside the most.
                height=max(3.0, BAR_HEIGHT * each["count"] / most) if each["count"] else 0.0,
                q=replaced(q, TIMES, f"from:{each['at']}", f"to:{last}"),
            )
        )
    return {"bars": bars, "bars_total": answer.data["total"], "bars_end": begins_ms[-1]}


def _letters(frame: Frame, wanted: MessageQuery) -> dict[str, object]:
    """How many dead letters the group has, why, and what a redrive of these would select."""
    letters = letters_of(frame.namespace, wanted.group)
    tasks = Task.objects.filter(namespace=frame.namespace, group_name=wanted.group)
    where = written("group", wanted.group)
    top = letters.reasons.top if letters.reasons else []
    values = dict(wanted.values)
    if wanted.last_ms is not None:
        values["from"] = rfc3339(max(0, SystemClock().now_ms() - wanted.last_ms))
    is_redrivable = not wanted.ids and not wanted.fields and values.keys() <= _REDRIVABLE
    return {
        "letters": letters,
        "reasons": [
            (reason, count, f"{where} {written('reason', reason or NO_REASON)}")
            for reason, count in top
        ],
        "tasks": list(tasks.order_by("-id")[:TASKS_SHOWN]),
        "chosen": urlencode(values) if is_redrivable else None,
    }


def _names(frame: Frame, q: str) -> dict[str, list[tuple[str, str]]]:
    """Where one can look, with the search that looks there."""
    topics = Topic.objects.filter(namespace=frame.namespace).order_by("name")
    groups = ConsumerGroup.objects.filter(namespace=frame.namespace).order_by("name")
    return {
        kind: [
            (name, f"{written(kind, name)} {q}".strip())
            for name in rows.values_list("name", flat=True)[:NAMES_MAX]
        ]
        for kind, rows in (("topic", topics), ("group", groups))
    }
