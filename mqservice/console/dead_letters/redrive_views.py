"""Redriving and purging dead letters in the console: a preview first, then a task.

    chosen letters ──▶ dry run ──▶ form ──▶ tasks.services, as REST calls it ──▶ page of the task
                          └─ nothing to move: no button

The look ahead changes nothing. The task's page asks how far it is each second (htmx; without
scripts a refresh), shows what could not be moved, and can end it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.accounts.scopes import Kind, Scope
from mqservice.console.dead_letters.forms import (
    RedriveForm,
    SelectedLetters,
    offered_topics,
    purge_order,
)
from mqservice.console.dead_letters.views import letters_crumbs
from mqservice.console.groups.views import found_group
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.form_views import FORM_METHODS, ConfirmForm
from mqservice.console.shared.frame import Frame, find_or_404, page
from mqservice.console.shared.masking import masks_for
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import problem_text
from mqservice.tasks.models import Task, TaskFailure, TaskKind
from mqservice.tasks.queries import Count, count_ahead, failures_of, get_task, tasks_of
from mqservice.tasks.schemas import DryRunOut, TaskOut
from mqservice.tasks.services import TaskRequest, cancel_task, create_task

TASKS_ROWS: Final = 50
FAILURES_ROWS: Final = 100


@page("dead-letters", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def redrive(frame: Frame, group: str) -> HttpResponse:
    """What would move where; POST begins, or with ``preview`` looks ahead again."""
    row = found_group(frame, group)
    is_post = frame.request.method == "POST"
    given = frame.request.POST if is_post else frame.request.GET
    chosen = SelectedLetters(given)
    form = RedriveForm(given if is_post else {"rate": RedriveForm().initial["rate"]})
    found: DryRunOut | None = None
    if form.is_valid():
        try:
            order = form.order(row, chosen)
            if is_post and "preview" not in given:
                return _start_task(frame, order)
            found = DryRunOut.of(_count_ahead(frame, order))
        except Problem as problem:
            form.add_problem(problem)
    return frame.render(
        "console/redrive.html",
        status=422 if form.errors else 200,
        group=row,
        form=form,
        chosen=chosen,
        found=found,
        topics=offered_topics(row),
        crumbs=letters_crumbs(frame, row, _("Redrive")),
        curl=_order_curl(frame, row, "redrive", chosen),
    )


@page("dead-letters", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def purge(frame: Frame, group: str) -> HttpResponse:
    """What would be dropped; POST with the group's name begins."""
    row = found_group(frame, group)
    is_post = frame.request.method == "POST"
    given = frame.request.POST if is_post else frame.request.GET
    chosen = SelectedLetters(given)
    form = ConfirmForm(
        given if is_post else None,
        name=row.name,
        fault=_("This does not match the name of the group."),
    )
    found: DryRunOut | None = None
    fault = ""
    try:
        order = purge_order(row, chosen)
        if is_post and form.is_valid():
            return _start_task(frame, order)
        found = DryRunOut.of(_count_ahead(frame, order))
    except Problem as problem:
        fault = problem_text(problem)
    return frame.render(
        "console/purge.html",
        status=422 if fault or form.errors else 200,
        group=row,
        form=form,
        fault=fault,
        chosen=chosen,
        found=found,
        crumbs=letters_crumbs(frame, row, _("Delete")),
        curl=_order_curl(frame, row, "purge", chosen),
    )


@page("dead-letters")
def tasks(frame: Frame) -> HttpResponse:
    """``?before=``: redrives and purges of all groups, the newest first."""
    before = frame.request.GET.get("before", "")
    rows = find_or_404(tasks_of, frame.namespace, before=before, limit=TASKS_ROWS)
    return frame.render(
        "console/tasks.html",
        tasks=rows,
        next_before=rows[-1].public_id if len(rows) == TASKS_ROWS else "",
        crumbs=frame.crumbs(_("Redrives and deletions")),
        curl=curl_of("GET", f"{frame.api_root}/tasks"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of one message that was chosen by its id. ``text``: a ``FailureOutcome``, moved, waits."""

    message_id: str
    text: str


@page("dead-letters")
def task(frame: Frame, task_id: str) -> HttpResponse:
    """How far a task is; for htmx only the part that changes. ``?after=``: of its failures."""
    row = _found_task(frame, task_id)
    after = frame.request.GET.get("after", "")
    is_number = after.isascii() and after.isdigit() and len(after) <= 18
    failures = failures_of(row, after=int(after) if is_number else 0, limit=FAILURES_ROWS)
    is_part = frame.request.headers.get("HX-Request") == "true"
    return frame.render(
        "console/_task.html" if is_part else "console/task.html",
        task=row,
        shown=TaskOut.of(row),
        done_percent=_percent(row),
        failures=failures,
        next_after=failures[-1].pk if len(failures) == FAILURES_ROWS else None,
        unlisted_count=row.failed_count + row.skipped_count - row.listed_count,
        outcomes=outcomes_of(row),
        crumbs=frame.crumbs_of(
            "group-dead-letters",
            row.group_name,
            _("Redrive") if row.kind == TaskKind.REDRIVE else _("Deletion"),
        ),
        curl=curl_of("GET", f"{frame.api_root}/tasks/{row.public_id}"),
    )


@page("dead-letters", needs=Permission.SETTINGS_MANAGE, methods=("POST",))
def cancel(frame: Frame, task_id: str) -> HttpResponse:
    """What was moved stays moved."""
    row = _found_task(frame, task_id)
    try:
        frame.principal.require(Scope.MANAGE, Kind.GROUP, row.group_name)
        cancel_task(frame.principal, frame.namespace, task_id)
    except Problem as problem:
        messages.error(frame.request, problem_text(problem))
    else:
        messages.success(frame.request, _("Cancelled. Messages already moved stay moved."))
    return redirect("console:task", frame.namespace.name, task_id)


def outcomes_of(task: Task) -> list[Outcome]:
    """Of each message of a task that was made for ids, in their order; else none. One query."""
    ids: list[str] = task.selection.get("ids", [])
    if not ids:
        return []
    failed = dict(TaskFailure.objects.filter(task=task).values_list("message_id", "outcome"))
    moved = "moved" if task.kind == TaskKind.REDRIVE else "purged"
    if task.kind == TaskKind.PURGE and task.skipped_count:
        moved = "purged_or_gone"  # which of them the engine does not say
    found = []
    for index, message_id in enumerate(ids):
        text = failed.get(message_id, moved if index < task.looked_count else "waits")
        found.append(Outcome(message_id=message_id, text=text))
    return found


def _start_task(frame: Frame, order: TaskRequest) -> HttpResponse:
    """Raises Problem."""
    _require(frame, order)
    made = create_task(order, frame.principal)
    return redirect("console:task", frame.namespace.name, made.public_id)


def _count_ahead(frame: Frame, order: TaskRequest) -> Count:
    """Raises Problem."""
    _require(frame, order)
    return count_ahead(order)


def _order_curl(frame: Frame, group: ConsumerGroup, verb: str, chosen: SelectedLetters) -> str:
    """Looks ahead only, as the page does before somebody begins."""
    path = f"{frame.api_root}/groups/{group.name}/dlq:{verb}"
    return curl_of("POST", path, {**(chosen.wanted or {"all": True}), "dry_run": True})


def _require(frame: Frame, order: TaskRequest) -> None:
    """As the API asks for it."""
    frame.principal.require(Scope.MANAGE, Kind.GROUP, order.group.name)
    if order.target is not None:
        masks = masks_for(frame.request, frame.principal, frame.namespace.name)
        if masks.shows_more_in(order.target.name):
            detail = _(
                "Masking hides parts of messages from your role that would be visible in "
                "%(name)s. Redrive to the original topics, or ask an admin."
            )
            raise Problem.of("FORBIDDEN", detail % {"name": order.target.name})
        frame.principal.require(Scope.MANAGE, Kind.TOPIC, order.target.name)


def _percent(task: Task) -> float:
    if not task.to_look_count:
        return 100.0
    return min(100.0, 100 * task.looked_count / task.to_look_count)


def _found_task(frame: Frame, task_id: str) -> Task:
    """Raises Http404."""
    return find_or_404(get_task, frame.namespace, task_id)
