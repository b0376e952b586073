"""Schedules: the list, one with its next runs, and the forms that create, change, pause, send and
delete one.

    form ──▶ schedules.services, as REST calls it ──▶ audit
    cron, time zone ──▶ next_runs ──▶ a part of the form, as it is typed
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.console.audit.sentences import actor_of, key_names
from mqservice.console.messages.publish_views import BadForm
from mqservice.console.schedules.cron_words import describe_cron
from mqservice.console.schedules.forms import ScheduleForm
from mqservice.console.shared.bodies import Stored, shown_body
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.form_views import (
    FORM_METHODS,
    delete_by_name,
    form_status,
    number_of,
    save,
)
from mqservice.console.shared.frame import Frame, find_or_404, page
from mqservice.console.shared.masking import audit_unmasked, mask_response, masks_for
from mqservice.console.shared.time_zones import zone_name, zone_names, zone_of
from mqservice.lib.clock import SystemClock
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import problem_text
from mqservice.schedules.limits import CRON_CHARS_MAX, NEXT_RUNS
from mqservice.schedules.models import Schedule, ScheduleState
from mqservice.schedules.queries import (
    error_of,
    get_schedule,
    missing_topics,
    schedules_of,
    state_of,
)
from mqservice.schedules.services import (
    delete_schedule,
    next_runs,
    put_schedule,
    send_now,
    switch_schedule,
)
from mqservice.topic_schemas.queries import find_schema
from mqservice.topics.queries import topic_names_of

TOPICS_OFFERED_MAX: Final = 200
_EXAMPLE: Final[dict[str, object]] = {
    "topic": "reports",
    "cron": "0 3 * * *",
    "time_zone": "Europe/Berlin",
    "message": {"body": "begin"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A schedule as the pages show it."""

    schedule: Schedule
    state: ScheduleState
    error: str
    words: str
    is_topic_gone: bool


@page("schedules")
def schedules(frame: Frame) -> HttpResponse:
    """All schedules of the namespace, those that fail first. Two queries."""
    found = schedules_of(frame.namespace)
    gone = missing_topics(frame.namespace, found)
    rows = [_row(each, gone) for each in found]
    rows.sort(key=lambda row: (row.state is not ScheduleState.FAILING, row.schedule.name))
    return frame.render(
        "console/schedules.html",
        rows=rows,
        failing_count=sum(row.state is ScheduleState.FAILING for row in rows),
        curl=curl_of("GET", f"{frame.api_root}/schedules"),
    )


@page("schedules")
def schedule(frame: Frame, schedule: str) -> HttpResponse:
    """One schedule with its next runs. Three queries."""
    found = _found(frame, schedule)
    keys = key_names(frame.namespace.tenant_id, [found.created_by])
    message = _message(frame, found) if frame.can_produce else None
    return frame.render(
        "console/schedule.html",
        row=_row(found, missing_topics(frame.namespace, [found])),
        schedule=found,
        created_by=actor_of(found.created_by, keys),
        runs=_runs(found.cron, found.time_zone, found.next_ms),
        message=message,
        body=None
        if message is None
        else shown_body(message, find_schema(frame.namespace, found.topic)),
        schema_topic=found.topic,
        crumbs=frame.crumbs_of("schedule", found.name),
        curl=curl_of("GET", _path(frame, found)),
    )


@page("schedules", needs=Permission.SETTINGS_MANAGE)
def preview_runs(frame: Frame) -> HttpResponse:
    """``?cron=&time_zone=``: when an expression fires next, or why not; a part of a page."""
    given = frame.request.GET
    cron = given.get("cron", "").strip()[: CRON_CHARS_MAX + 1]
    tried = _tried(cron, given.get("time_zone", ""))
    return frame.render_part("console/_runs.html", status=200, **tried)


@page("schedules", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def new_schedule(frame: Frame) -> HttpResponse:
    """``?topic=``: a form; POST makes the schedule, unless there is one of the name already. With
    ``look`` in it it only shows the next runs.
    """
    _refuse_non_producer(frame)
    given: dict[str, object] = {
        "topic": frame.request.GET.get("topic", "")[:NAME_CHARS_MAX],
        "time_zone": str(zone_of(frame.request)),
    }
    form = _form(frame, given)
    if _is_order(frame) and form.is_valid():
        name = form.cleaned_data["name"]
        if Schedule.objects.filter(namespace=frame.namespace, name=name).exists():
            form.add_error("name", _("A schedule with this name already exists."))
        elif (answer := _put(frame, name, form, None)) is not None:
            return answer
    return _form_page(frame, form, None)


@page("schedules", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def edit_schedule(frame: Frame, schedule: str) -> HttpResponse:
    """A form; POST changes the schedule. Who changed it meanwhile is not overwritten."""
    _refuse_non_producer(frame)
    found = _found(frame, schedule)
    form = _form(frame, {}, found)
    if "masked" in (message := _message(frame, found)) or "masked_properties" in message:
        form.leave_message()
    if _is_order(frame) and form.is_valid():
        revision = number_of(frame.request.POST.get("revision", ""))
        if (answer := _put(frame, found.name, form, revision)) is not None:
            return answer
    return _form_page(frame, form, found)


@page("schedules", needs=Permission.SETTINGS_MANAGE, methods=("POST",))
def switch(frame: Frame, schedule: str) -> HttpResponse:
    """``is_enabled=1`` or ``0``: resumes or pauses."""
    found = _found(frame, schedule)
    is_enabled = frame.request.POST.get("is_enabled") == "1"
    switch_schedule(
        frame.principal, frame.namespace, found.name, SystemClock(), is_enabled=is_enabled
    )
    said = _("%(name)s was resumed.") if is_enabled else _("%(name)s was paused.")
    messages.success(frame.request, said % {"name": found.name})
    return _back(frame, found)


@page("schedules", needs=Permission.SETTINGS_MANAGE, methods=("POST",))
def send(frame: Frame, schedule: str) -> HttpResponse:
    """Its message now, besides its runs."""
    _refuse_non_producer(frame)
    found = _found(frame, schedule)
    try:
        sent = send_now(frame.principal, frame.namespace, found.name, SystemClock())
    except Problem as problem:
        messages.error(frame.request, problem_text(problem))
    else:
        told = {"id": sent.message_id, "queue": sent.queue_id}
        messages.success(frame.request, _("Stored in queue %(queue)s as %(id)s.") % told)
    return _back(frame, found)


@page("schedules", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def remove_schedule(frame: Frame, schedule: str) -> HttpResponse:
    """POST with the schedule's name deletes it."""
    found = _found(frame, schedule)
    return delete_by_name(
        frame,
        "console/schedule_delete.html",
        lambda: delete_schedule(frame.principal, frame.namespace, found.name),
        name=found.name,
        fault=_("This does not match the name of the schedule."),
        told=_("The schedule %(name)s was deleted.") % {"name": found.name},
        back=frame.url("schedules"),
        schedule=found,
        crumbs=frame.crumbs_of("schedule", found.name, _("Delete")),
        curl=curl_of("DELETE", _path(frame, found)),
    )


def _form(
    frame: Frame, initial: dict[str, object], schedule: Schedule | None = None
) -> ScheduleForm:
    """What was written so far is not held against who only looks at the next runs."""
    given = frame.request.POST
    if _is_order(frame):
        return ScheduleForm(given, schedule=schedule)
    if given:
        initial = {**given.dict(), "is_json": "is_json" in given}
    return ScheduleForm(None, initial=initial, schedule=schedule)


def _message(frame: Frame, found: Schedule) -> Stored:
    """Its message as it may be shown to who looks, as of any other."""
    stored: Stored = {
        "id": found.public_id,
        "body_b64": base64.b64encode(bytes(found.body)),
        "properties": found.properties,
    }
    namespace, topic = frame.namespace.name, found.topic
    masks = masks_for(frame.request, frame.principal, namespace)
    audit_unmasked(frame.request, frame.principal, namespace, stored, masks, topic)
    shown: Stored = mask_response(stored, masks, topic)
    return shown


def _put(frame: Frame, name: str, form: ScheduleForm, revision: int | None) -> HttpResponse | None:
    """The answer, or None with the refusal in the form."""
    try:
        return save(
            frame,
            form,
            lambda: put_schedule(
                frame.principal,
                frame.namespace,
                name,
                form.change(),
                SystemClock(),
                revision=revision,
            ),
            told=_("The schedule %(name)s was saved.") % {"name": name},
            back=frame.url("schedule", name),
            stale=_(
                "Someone else has changed this schedule in the meantime. Check its current "
                "settings, then try again."
            ),
        )
    except BadForm as bad:
        form.add_error(bad.field, bad.text)
        return None


def _form_page(frame: Frame, form: ScheduleForm, found: Schedule | None) -> HttpResponse:
    path = _path(frame, found) if found else f"{frame.api_root}/schedules/nightly"
    cron, time_zone = (str(form[name].value() or "") for name in ("cron", "time_zone"))
    return frame.render(
        "console/schedule_form.html",
        status=form_status(form),
        form=form,
        schedule=found,
        revision=None if found is None else frame.request.POST.get("revision", found.revision),
        topics=topic_names_of(frame.namespace, limit=TOPICS_OFFERED_MAX),
        zones=zone_names(),
        curl=curl_of("PUT", path, _EXAMPLE),
        crumbs=frame.crumbs(_("New schedule"))
        if found is None
        else frame.crumbs_of("schedule", found.name, _("Edit")),
        **_tried(cron, time_zone),
    )


def _tried(cron: str, time_zone: str) -> dict[str, object]:
    """What an expression that is being written comes to, for the template."""
    if not cron:
        return {"runs": [], "fault": "", "words": ""}
    try:
        runs = _runs(cron, time_zone or "UTC", SystemClock().now_ms() + 1)
    except Problem as problem:
        return {"runs": [], "fault": problem_text(problem), "words": ""}
    return {"runs": runs, "fault": "", "words": describe_cron(cron)}


def _runs(cron: str, time_zone: str, first_ms: int | None) -> list[tuple[int, str]]:
    """The next times from the one at or after ``first_ms`` on, and what the clock shows there;
    nothing of it where the reader's shows the same.
    """
    if first_ms is None:
        return []
    times = next_runs(cron, time_zone, first_ms - 1, NEXT_RUNS)
    if time_zone == zone_name():
        return [(at_ms, "") for at_ms in times]
    zone = ZoneInfo(time_zone)  # there is one of the name
    return [
        (at_ms, datetime.fromtimestamp(at_ms / 1_000, zone).strftime("%Y-%m-%d %H:%M %z"))
        for at_ms in times
    ]


def _row(schedule: Schedule, gone: frozenset[str]) -> Row:
    return Row(
        schedule=schedule,
        state=state_of(schedule, gone),
        error=error_of(schedule, gone),
        words=describe_cron(schedule.cron),
        is_topic_gone=schedule.topic in gone,
    )


def _is_order(frame: Frame) -> bool:
    """Whether something is to be saved, not only looked at."""
    return frame.request.method == "POST" and "look" not in frame.request.POST


def _refuse_non_producer(frame: Frame) -> None:
    if not frame.can_produce:
        raise PermissionDenied(f"this needs the permission {Permission.PRODUCE.value}")


def _found(frame: Frame, name: str) -> Schedule:
    """Raises Http404. One query."""
    return find_or_404(get_schedule, frame.namespace, name)


def _back(frame: Frame, found: Schedule) -> HttpResponse:
    return redirect("console:schedule", frame.namespace.name, found.name)


def _path(frame: Frame, found: Schedule) -> str:
    return f"{frame.api_root}/schedules/{found.name}"
