"""Quick start: commands to paste, a key in them at one click, and the first message as it arrives.

    page ── button ──▶ key, topic, group ──▶ the page with the key in every command, this once
      └── [arrived], every second ──▶ the newest message since the page was opened

The page waits for fifteen minutes; each look is one browse of one message. The commands are those
of docs/quickstart.md: ``python -m tests.docs`` writes them into ``snippets.json``.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec
from django.conf import settings
from django.db.models import Q
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from mqservice.accounts.key_services import NewKey, issue_key
from mqservice.accounts.models import Role
from mqservice.accounts.roles import Permission
from mqservice.accounts.scopes import Grant, Scope
from mqservice.console.shared.bodies import previews
from mqservice.console.shared.data_plane import call_data_plane
from mqservice.console.shared.form_views import FORM_METHODS
from mqservice.console.shared.frame import Frame, page
from mqservice.groups.services import GroupChange, put_group
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import MINUTE_MS
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import rfc3339
from mqservice.protocol.choices import Dispatch
from mqservice.topics.services import TopicChange, put_topic

TOPIC: Final = "orders"  # that is made where there is none
GROUP: Final = "billing"
KEY_NAME: Final = "quick start"
KEY_LIFE: Final = timedelta(days=30)
WAIT_MS_MAX: Final = 15 * MINUTE_MS
_TIME_CHARS_MAX: Final = 15
# By step, then by language.
_SNIPPETS: Final = msgspec.json.decode(
    Path(__file__).with_name("snippets.json").read_bytes(), type=dict[str, dict[str, str]]
)
_PLACES: Final = re.compile(
    r"\b(?:orders|billing)\b|(?<=/ns/)-(?=/)|\$MQ_BASE_URL\b|\$MQ_API_KEY\b|(?:new )?Client\(\)"
)


@page("quick-start")
def quick_start(frame: Frame) -> HttpResponse:
    """Commands to paste, with a placeholder for the key: no secret is kept anywhere."""
    return _render(frame)


@page("quick-start", needs=Permission.KEYS_MANAGE, methods=FORM_METHODS)
def quick_start_key(frame: Frame) -> HttpResponse:
    """POST makes a key for this namespace, and a topic and a group where there is none."""
    if frame.request.method != "POST":  # its answer was loaded again, or its language changed
        return redirect("console:quick-start", frame.namespace.name)
    order = NewKey(
        name=KEY_NAME,
        grants=(Grant(scope=Scope.CONSUME), Grant(scope=Scope.PRODUCE)),
        role=Role.DEVELOPER,
        namespace=frame.namespace.name,
        expires_at=timezone.now() + KEY_LIFE,
    )
    try:
        if _first_topic(frame) is None:
            put_topic(frame.namespace, TOPIC, TopicChange(), by=frame.principal)
        if _first_group(frame) is None:
            put_group(frame.namespace, GROUP, GroupChange(), by=frame.principal)
        _row, text = issue_key(frame.principal, order)
    except Problem as problem:
        return _render(frame, problem=problem, status=problem.status)
    return _render(frame, key=text, status=201)


@page("quick-start", needs=Permission.CONSUME)
def arrived(frame: Frame) -> HttpResponse:
    """``?topic=&since=``, epoch ms: the part of the page that waits, or shows what has arrived."""
    topic = frame.request.GET.get("topic", "")
    since = frame.request.GET.get("since", "")
    if not (since.isascii() and since.isdecimal() and len(since) <= _TIME_CHARS_MAX):
        raise Http404
    if not frame.namespace.topics.filter(name=topic).exists():
        raise Http404
    since_ms = int(since)
    path = f"{frame.api_root}/topics/{topic}/messages"
    query = {"from": rfc3339(since_ms), "limit": "1"}
    answer = call_data_plane(frame.request, frame.principal, "GET", path, query=query)
    found = [] if answer.problem is not None else answer.data["messages"]
    return frame.render_part(
        "console/_arrived.html",
        topic=topic,
        since_ms=since_ms,
        message=found[0] if found else None,
        text=previews(frame.namespace, found, topic)[0] if found else "",
        is_over=SystemClock().now_ms() - since_ms > WAIT_MS_MAX,
    )


def _render(
    frame: Frame, *, key: str = "", problem: Problem | None = None, status: int = 200
) -> HttpResponse:
    """``key``: a new one's text, empty: none was made."""
    topic, group = _first_topic(frame), _first_group(frame)
    keys = frame.namespace.tenant.api_keys.filter(revoked_at=None).order_by("-created_at")
    return frame.render(
        "console/quick_start.html",
        status=status,
        base_url=settings.MQ_BASE_URL,
        **{step: _snippets(frame, step, topic, group, key) for step in _SNIPPETS},
        topic=topic or TOPIC,
        group=group or GROUP,
        has_topic=topic is not None,
        has_group=group is not None,
        key=key,
        key_days=KEY_LIFE.days,
        problem=problem,
        may_make=frame.principal.permits(Permission.KEYS_MANAGE),
        since_ms=SystemClock().now_ms(),
        keys=list(keys[:10]) if frame.principal.permits(Permission.KEYS_READ) else [],
    )


def _snippets(
    frame: Frame, step: str, topic: str | None, group: str | None, key: str
) -> list[tuple[str, str]]:
    """(language, code) with the names of this namespace, and with a new key also that."""
    url = settings.MQ_BASE_URL
    places = {"orders": topic or TOPIC, "billing": group or GROUP, "-": frame.namespace.name}
    if key:
        places |= {
            "$MQ_BASE_URL": url,
            "$MQ_API_KEY": key,
            "Client()": f'Client("{url}", "{key}")',
            "new Client()": f'new Client({{ baseUrl: "{url}", apiKey: "{key}" }})',
        }
    return [
        (language, _PLACES.sub(lambda found: places.get(found[0], found[0]), code))
        for language, code in _SNIPPETS[step].items()
    ]


def _first_topic(frame: Frame) -> str | None:
    """That of the documentation, else the first by name; None while there is none. One query."""
    topics = frame.namespace.topics.annotate(is_other=~Q(name=TOPIC))
    return topics.order_by("is_other", "name").values_list("name", flat=True).first()


def _first_group(frame: Frame) -> str | None:
    """As ``_first_topic``, among those whose members need no id of their own."""
    groups = frame.namespace.groups.exclude(dispatch=Dispatch.BROADCAST)
    groups = groups.annotate(is_other=~Q(name=GROUP))
    return groups.order_by("is_other", "name").values_list("name", flat=True).first()
