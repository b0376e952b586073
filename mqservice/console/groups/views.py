"""Consumer groups: the list, one group, and the forms that create, change, pause and delete it.

    form ──▶ body of REST ──▶ groups.services, as REST calls it, with the person as ``by`` ──▶ audit
                                 └─ Problem ──▶ the form again, with the fault at its field

A form works without scripts. Deleting asks for the group's name, on its page or in a dialog.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.console.charts.series import Span
from mqservice.console.charts.views import span_of
from mqservice.console.clients.queries import group_with_sockets
from mqservice.console.groups.forms import GroupForm
from mqservice.console.groups.group import TopicPart, group_page
from mqservice.console.groups.health import findings_of
from mqservice.console.groups.queries import GroupListQuery, Order, groups_page
from mqservice.console.shared.columns import columns_of
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.form_views import FORM_METHODS, ConfirmForm, form_status, number_of
from mqservice.console.shared.frame import Crumb, Frame, page
from mqservice.console.shared.masking import masks_for, shown_filter
from mqservice.groups.models import (
    ConsumerGroup,
)
from mqservice.groups.queries import get_group
from mqservice.groups.schemas import GroupOut, read_change
from mqservice.groups.services import delete_group, pause_group, put_group
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.problem import Problem
from mqservice.protocol.choices import Dispatch


def found_group(frame: Frame, name: str) -> ConsumerGroup:
    """Raises Http404. One query."""
    try:
        return get_group(frame.namespace, name)
    except Problem:
        raise Http404 from None


def group_crumbs(frame: Frame, group: ConsumerGroup, title: str = "") -> list[Crumb]:
    crumbs = [Crumb(title=_("Groups"), url=frame.url("groups"))]
    if not title:
        return [*crumbs, Crumb(title=group.name)]
    return [
        *crumbs,
        Crumb(title=group.name, url=frame.url("group", group.name)),
        Crumb(title=title),
    ]


def _path(frame: Frame, group: str) -> str:
    return f"/v1/ns/{frame.namespace.name}/groups/{group}"


@page("groups")
def groups(frame: Frame) -> HttpResponse:
    """``?q=&dispatch=&sort=name|lag|age|rate&after=&before=``"""
    given = frame.request.GET
    order = given.get("sort", "")
    question = GroupListQuery(
        text=given.get("q", "").strip()[:NAME_CHARS_MAX],
        dispatch=given.get("dispatch", ""),
        order=Order(order) if order in set(Order) else Order.NAME,
        after=given.get("after", ""),
        before=given.get("before", ""),
    )
    return frame.render(
        "console/groups.html",
        page=groups_page(frame.namespace, question),
        columns=columns_of(frame.user, "groups"),
        crumbs=[Crumb(title=_("Groups"))],
        kinds=[kind.value for kind in Dispatch],
        curl=curl_of("GET", f"/v1/ns/{frame.namespace.name}/groups"),
        new_curl=curl_of("PUT", _path(frame, "billing"), {"dispatch": Dispatch.SHARED.value}),
    )


@page("groups")
def group(frame: Frame, group: str) -> HttpResponse:
    """Why it gets nothing, its members, its progress on each queue, its settings."""
    row = found_group(frame, group)
    found = group_with_sockets(group_page(frame.namespace, row), frame.namespace)
    shown = replace(found, parts=[_without_hidden(frame, part) for part in found.parts])
    return frame.render(
        "console/group.html",
        page=shown,
        group=row,
        settings=GroupOut.of(row),
        findings=findings_of(shown),
        crumbs=group_crumbs(frame, row),
        spans=list(Span),
        span=span_of(frame.request.GET.get("span", "")),
        delete_form=_delete_form(row),
        curl=curl_of("GET", _path(frame, row.name) + "/lag")
        + "\n"
        + curl_of("GET", _path(frame, row.name) + "/clients"),
    )


def _without_hidden(frame: Frame, part: TopicPart) -> TopicPart:
    masks = masks_for(frame.request, frame.principal, frame.namespace.name)
    return replace(part, filter=shown_filter(masks, part.name, part.filter))


@page("groups", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def new_group(frame: Frame) -> HttpResponse:
    """A form; POST creates the group, unless there is one of the name already."""
    form = GroupForm(frame.request.POST or None)
    name = "billing"
    body: dict[str, object] = {"dispatch": Dispatch.SHARED.value}
    if frame.request.method == "POST" and form.is_valid():
        name, body = form.cleaned_data["name"], form.body()
        if ConsumerGroup.objects.filter(namespace=frame.namespace, name=name).exists():
            form.add_error("name", _("A group with this name already exists."))
        else:
            try:
                change = read_change(msgspec.json.encode(body))
                put_group(frame.namespace, name, change, by=frame.principal)
            except Problem as problem:
                form.add_problem(problem)
            else:
                messages.success(
                    frame.request, _("The group %(name)s was created.") % {"name": name}
                )
                return redirect("console:group", frame.namespace.name, name)
    return frame.render(
        "console/group_form.html",
        status=form_status(form),
        form=form,
        group=None,
        crumbs=[Crumb(title=_("Groups"), url=frame.url("groups")), Crumb(title=_("New group"))],
        curl=curl_of("PUT", _path(frame, name), body),
    )


@page("groups", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def edit_group(frame: Frame, group: str) -> HttpResponse:
    """A form; POST changes the settings. Who changed them meanwhile is not overwritten."""
    row = found_group(frame, group)
    form = GroupForm(frame.request.POST or None, group=row)
    body: dict[str, object] = {"lease": GroupOut.of(row).lease}
    if frame.request.method == "POST" and form.is_valid():
        body = form.body()
        revision = frame.request.POST.get("revision", "")
        try:
            put_group(
                frame.namespace,
                row.name,
                read_change(msgspec.json.encode(body)),
                revision=number_of(revision),
                by=frame.principal,
            )
        except Problem as problem:
            if problem.code == "PRECONDITION_FAILED":
                form.add_error(
                    None,
                    _(
                        "Someone else has changed this group in the meantime. Check its current "
                        "settings, then try again."
                    ),
                )
            else:
                form.add_problem(problem)
        else:
            messages.success(
                frame.request, _("The settings of %(name)s were saved.") % {"name": group}
            )
            return redirect("console:group", frame.namespace.name, group)
    return frame.render(
        "console/group_form.html",
        status=form_status(form),
        form=form,
        group=row,
        revision=frame.request.POST.get("revision", row.revision),
        crumbs=group_crumbs(frame, row, _("Edit")),
        curl=curl_of("PUT", _path(frame, row.name), body),
    )


@page("groups", needs=Permission.SETTINGS_MANAGE, methods=("POST",))
def pause(frame: Frame, group: str) -> HttpResponse:
    """``paused=1`` lets it get nothing, ``paused=0`` lets it go on."""
    row = found_group(frame, group)
    is_paused = frame.request.POST.get("paused") == "1"
    try:
        pause_group(frame.namespace, row.name, is_paused=is_paused, by=frame.principal)
    except Problem as problem:
        messages.error(frame.request, problem.detail or problem.title)
    else:
        text = _("The group was paused.") if is_paused else _("The group was resumed.")
        messages.success(frame.request, text)
    return redirect("console:group", frame.namespace.name, row.name)


@page("groups", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def remove_group(frame: Frame, group: str) -> HttpResponse:
    """A question; POST with the group's name deletes it with its progress and dead letters."""
    row = found_group(frame, group)
    form = _delete_form(row, frame.request.POST or None)
    if frame.request.method == "POST" and form.is_valid():
        try:
            delete_group(frame.namespace, row.name, by=frame.principal)
        except Problem as problem:
            form.add_error(None, problem.detail or problem.title)
        else:
            messages.success(frame.request, _("The group %(name)s was deleted.") % {"name": group})
            return redirect("console:groups", frame.namespace.name)
    return frame.render(
        "console/group_delete.html",
        status=form_status(form),
        group=row,
        delete_form=form,
        crumbs=group_crumbs(frame, row, _("Delete")),
        curl=curl_of("DELETE", _path(frame, row.name)),
    )


def _delete_form(row: ConsumerGroup, data: QueryDict | None = None) -> ConfirmForm:
    return ConfirmForm(data, name=row.name, fault=_("This does not match the name of the group."))
