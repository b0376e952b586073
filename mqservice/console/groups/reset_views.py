"""The page that resets a group's offsets. Only what was previewed is applied.

GET ──▶ form, where the group stands
POST ──▶ preview: from → to, replayed, skipped, lag afterwards, with a signed copy of it
POST with the signed copy ──▶ the same again? ──▶ applied, else the preview as it is by now
"""

from __future__ import annotations

from typing import Final

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.console.groups.offset_reset import (
    Projection,
    ResetForm,
    applied_target,
    find_preview,
    project,
)
from mqservice.console.groups.views import found_group, group_crumbs
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.frame import Frame, page
from mqservice.console.shared.signed_previews import EXPIRED
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.offsets import preview_seek, progress_of, seek
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import problem_text
from mqservice.lib.units import count
from mqservice.store import GroupQueueStats
from mqservice.topics.models import Topic

TOPICS_MAX: Final = 1_000  # to choose from


@page("groups", needs=Permission.SETTINGS_MANAGE, methods=("GET", "HEAD", "POST"))
def reset(frame: Frame, group: str) -> HttpResponse:
    """``?topic=``, and to fill the form: ``&place=&queue=&offset=``."""
    row = found_group(frame, group)
    rows = _progress(row)
    names = _topic_names(frame, rows)
    given = frame.request.POST or frame.request.GET
    name = given.get("topic", "") or (names[0] if names else "")
    topic = Topic.objects.filter(namespace=frame.namespace, name=name).first()
    if topic is None:
        if name:
            raise Http404
        return _page(frame, row, None, names, rows)
    topic.namespace = frame.namespace
    if frame.request.method == "POST" and "token" in frame.request.POST:
        return _apply(frame, row, topic, names, rows)
    if frame.request.method != "POST":
        form = ResetForm(group=row, topic=topic, initial=_initial(frame, topic, rows))
        return _page(frame, row, topic, names, rows, form=form)
    form = ResetForm(frame.request.POST, group=row, topic=topic)
    projection = None
    if form.is_valid():
        try:
            projection = project(row, topic, form.body(), frame.user.pk)
        except Problem as problem:
            form.add_problem(problem)
    status = 422 if projection is None else 200
    return _page(frame, row, topic, names, rows, form=form, projection=projection, status=status)


def _apply(
    frame: Frame,
    row: ConsumerGroup,
    topic: Topic,
    names: list[str],
    rows: list[GroupQueueStats] | None,
) -> HttpResponse:
    preview = find_preview(frame.request.POST["token"], frame.user.pk, row)
    form = ResetForm(group=row, topic=topic, initial=_initial(frame, topic, rows))
    if preview is None or preview.body.get("topic") != topic.name:
        return _page(frame, row, topic, names, rows, form=form, fault=str(EXPIRED), status=422)
    try:
        target = applied_target(row, topic, preview)
        is_sure = "anyway" in frame.request.POST
        if not is_sure and not preview.is_unchanged(preview_seek(row, topic, target)):
            projection = project(row, topic, preview.body, frame.user.pk)
            return _page(
                frame, row, topic, names, _progress(row), form=form, projection=projection,
                has_moved=True, status=409,
            )  # fmt: skip
        done = seek(frame.principal, row, topic, target)
    except Problem as problem:
        text = problem_text(problem)
        return _page(frame, row, topic, names, rows, form=form, fault=text, status=422)
    made = Projection(reply=done, body=preview.body, token="")
    told = {"replayed": count(made.replayed), "skipped": count(made.skipped)}
    text = _("Offsets were reset: %(replayed)s messages replayed, %(skipped)s skipped.") % told
    messages.success(frame.request, text)
    return redirect("console:group", frame.namespace.name, row.name)


def _page(
    frame: Frame,
    row: ConsumerGroup,
    topic: Topic | None,
    names: list[str],
    rows: list[GroupQueueStats] | None,
    *,
    form: ResetForm | None = None,
    projection: Projection | None = None,
    fault: str = "",
    has_moved: bool = False,
    status: int = 200,
) -> HttpResponse:
    body: dict[str, object] = {"topic": topic.name if topic else "orders", "to": "earliest"}
    body = body if projection is None else projection.body
    own = [] if rows is None or topic is None else [
        each for each in rows if each.topic == topic.engine_name and not each.retry_of
    ]  # fmt: skip
    return frame.render(
        "console/group_reset.html",
        status=status,
        group=row,
        topic=topic,
        names=names,
        queues=own,
        is_known=rows is not None,
        form=form,
        projection=projection,
        fault=fault,
        has_moved=has_moved,
        curl=curl_of(
            "POST",
            f"{frame.api_root}/groups/{row.name}:seek",
            {**body, "dry_run": True},
        ),
        crumbs=group_crumbs(frame, row, _("Reset offsets")),
    )


def _progress(group: ConsumerGroup) -> list[GroupQueueStats] | None:
    """Where it stands; None when nobody can tell."""
    try:
        return progress_of(group).queues
    except Problem:
        return None


def _topic_names(frame: Frame, rows: list[GroupQueueStats] | None) -> list[str]:
    """Those that it has read come first."""
    read = {each.topic.partition("%")[2] for each in rows or [] if not each.retry_of}
    found = Topic.objects.filter(namespace=frame.namespace).order_by("name")
    names = list(found.values_list("name", flat=True)[:TOPICS_MAX])
    return [
        *(name for name in names if name in read),
        *(each for each in names if each not in read),
    ]


def _initial(frame: Frame, topic: Topic, rows: list[GroupQueueStats] | None) -> dict[str, object]:
    """What a link has chosen; the offset of the one queue is where the group stands there."""
    given = frame.request.GET
    queue_id = given.get("queue", "0" if topic.queue_count == 1 else "")
    stands = {
        str(each.queue_id): each.consumer_offset
        for each in rows or []
        if each.topic == topic.engine_name and not each.retry_of
    }
    return {
        "place": given.get("place", "earliest"),
        "queue": queue_id,
        "offset": given.get("offset", stands.get(queue_id, "")),
    }
