"""Consumer groups: the list, one group, and the forms that create, change, pause and delete it.

    form ──▶ body of REST ──▶ groups.services, as REST calls it, with the person as ``by`` ──▶ audit
                                 └─ Problem ──▶ the form again, with the fault at its field

A form works without scripts. Deleting asks for the group's name, on its page or in a dialog.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
from django.http import HttpResponse
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.console.charts.series import Span
from mqservice.console.charts.views import span_of
from mqservice.console.clients.queries import group_with_sockets
from mqservice.console.groups.forms import GroupForm
from mqservice.console.groups.group import TopicPart, group_page
from mqservice.console.groups.health import findings_of
from mqservice.console.groups.queries import Order, groups_page
from mqservice.console.shared.columns import columns_of
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.form_views import (
    FORM_METHODS,
    ConfirmForm,
    act,
    delete_by_name,
    form_status,
    number_of,
    save,
)
from mqservice.console.shared.frame import Crumb, Frame, find_or_404, page
from mqservice.console.shared.listing import list_query
from mqservice.console.shared.masking import masks_for, shown_filter
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.queries import get_group
from mqservice.groups.schemas import GroupOut, read_change, shown_settings
from mqservice.groups.services import delete_group, pause_group, put_group
from mqservice.lib.durations import format_duration_ms
from mqservice.protocol.choices import Dispatch


def found_group(frame: Frame, name: str) -> ConsumerGroup:
    """Raises Http404. One query."""
    return find_or_404(get_group, frame.namespace, name)


def group_crumbs(frame: Frame, group: ConsumerGroup, title: str = "") -> list[Crumb]:
    return frame.crumbs_of("group", group.name, title)


def _path(frame: Frame, group: str) -> str:
    return f"{frame.api_root}/groups/{group}"


@page("groups")
def groups(frame: Frame) -> HttpResponse:
    """``?q=&dispatch=&sort=name|lag|age|rate&after=&before=``"""
    question = list_query(frame.request.GET, "dispatch", Order)
    return frame.render(
        "console/groups.html",
        page=groups_page(frame.namespace, question),
        columns=columns_of(frame.user, "groups"),
        kinds=[kind.value for kind in Dispatch],
        curl=curl_of("GET", f"{frame.api_root}/groups"),
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
        delete_form=ConfirmForm(name=row.name, fault=_fault()),
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
        name, body = form.cleaned_data["name"], form.document()
        if ConsumerGroup.objects.filter(namespace=frame.namespace, name=name).exists():
            form.add_error("name", _("A group with this name already exists."))
        elif answer := save(
            frame,
            form,
            lambda: _put(frame, name, body),
            told=_("The group %(name)s was created.") % {"name": name},
            back=frame.url("group", name),
        ):
            return answer
    return frame.render(
        "console/group_form.html",
        status=form_status(form),
        form=form,
        group=None,
        crumbs=frame.crumbs(_("New group")),
        curl=curl_of("PUT", _path(frame, name), body),
    )


@page("groups", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def edit_group(frame: Frame, group: str) -> HttpResponse:
    """A form; POST changes the settings. Who changed them meanwhile is not overwritten."""
    row = found_group(frame, group)
    form = GroupForm(frame.request.POST or None, shown=shown_settings(row))
    body: dict[str, object] = {"lease": format_duration_ms(row.lease_ms)}
    if frame.request.method == "POST" and form.is_valid():
        body = form.document()
        revision = number_of(frame.request.POST.get("revision", ""))
        if answer := save(
            frame,
            form,
            lambda: _put(frame, row.name, body, revision),
            told=_("The settings of %(name)s were saved.") % {"name": group},
            back=frame.url("group", group),
            stale=_(
                "Someone else has changed this group in the meantime. Check its current "
                "settings, then try again."
            ),
        ):
            return answer
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
    return act(
        frame,
        lambda: pause_group(frame.namespace, row.name, is_paused=is_paused, by=frame.principal),
        told=_("The group was paused.") if is_paused else _("The group was resumed."),
        back=frame.url("group", row.name),
    )


@page("groups", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def remove_group(frame: Frame, group: str) -> HttpResponse:
    """A question; POST with the group's name deletes it with its progress and dead letters."""
    row = found_group(frame, group)
    return delete_by_name(
        frame,
        "console/group_delete.html",
        lambda: delete_group(frame.namespace, row.name, by=frame.principal),
        name=row.name,
        fault=_fault(),
        told=_("The group %(name)s was deleted.") % {"name": group},
        back=frame.url("groups"),
        form_name="delete_form",
        group=row,
        crumbs=group_crumbs(frame, row, _("Delete")),
        curl=curl_of("DELETE", _path(frame, row.name)),
    )


def _put(frame: Frame, name: str, body: dict[str, object], revision: int | None = None) -> None:
    change = read_change(msgspec.json.encode(body))
    put_group(frame.namespace, name, change, revision=revision, by=frame.principal)


def _fault() -> str:
    return _("This does not match the name of the group.")
