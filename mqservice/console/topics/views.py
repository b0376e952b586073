"""Topics: the list, one topic, and the forms that create, change and delete it.

    form ──▶ read ──▶ topics.services, as REST calls it, with the person as ``by`` ──▶ audit
                         └─ Problem ──▶ the form again, with the fault at its field

A form works without scripts. Deleting asks for the topic's name, on its page or in a dialog.
"""

from __future__ import annotations

import msgspec
from django.http import HttpResponse
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.console.charts.series import Span
from mqservice.console.charts.views import span_of
from mqservice.console.shared.bodies import encoding_of
from mqservice.console.shared.columns import columns_of
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.form_views import (
    FORM_METHODS,
    ConfirmForm,
    delete_by_name,
    form_status,
    number_of,
    save,
)
from mqservice.console.shared.frame import Crumb, Frame, find_or_404, page
from mqservice.console.shared.listing import list_query
from mqservice.console.topics.forms import TopicForm
from mqservice.console.topics.queries import Order, topics_page
from mqservice.console.topics.topic import topic_page
from mqservice.topic_schemas.queries import find_schema
from mqservice.topics.models import Topic
from mqservice.topics.queries import get_topic
from mqservice.topics.schemas import read_change, shown_settings
from mqservice.topics.services import delete_topic, put_topic
from mqservice.topics.settings import SETTINGS, MessageType


def found_topic(frame: Frame, name: str) -> Topic:
    """Raises Http404. One query."""
    return find_or_404(get_topic, frame.namespace, name)


def topic_crumbs(frame: Frame, topic: Topic, title: str = "") -> list[Crumb]:
    return frame.crumbs_of("topic", topic.name, title, here="topics")


@page("topics")
def topics(frame: Frame) -> HttpResponse:
    """``?q=&type=&sort=name|messages|rate|lag&after=&before=``"""
    question = list_query(frame.request.GET, "type", Order)
    return frame.render(
        "console/topics.html",
        page=topics_page(frame.namespace, question),
        columns=columns_of(frame.user, "topics"),
        curl=curl_of("GET", f"{frame.api_root}/topics"),
        kinds=[kind.value for kind in MessageType],
    )


@page("topics")
def topic(frame: Frame, topic: str) -> HttpResponse:
    """Numbers, queues, groups and settings of one topic."""
    row = found_topic(frame, topic)
    return frame.render(
        "console/topic.html",
        page=topic_page(frame.namespace, row),
        encoding=encoding_of(find_schema(frame.namespace, row.name)),
        curl=curl_of("GET", _path(frame, row.name)),
        topic=row,
        tab="overview",
        crumbs=topic_crumbs(frame, row),
        spans=list(Span),
        span=span_of(frame.request.GET.get("span", "")),
        delete_form=ConfirmForm(name=row.name, fault=_fault()),
    )


@page("topics", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def new_topic(frame: Frame) -> HttpResponse:
    """A form; POST creates the topic, unless there is one of the name already."""
    form = TopicForm(frame.request.POST or None)
    if frame.request.method == "POST" and form.is_valid():
        name = form.cleaned_data["name"]
        if Topic.objects.filter(namespace=frame.namespace, name=name).exists():
            form.add_error("name", _("A topic with this name already exists."))
        elif answer := save(
            frame,
            form,
            lambda: _put(frame, name, form),
            told=_("The topic %(name)s was created.") % {"name": name},
            back=frame.url("topic", name),
        ):
            return answer
    return frame.render(
        "console/topic_form.html",
        status=form_status(form),
        form=form,
        crumbs=frame.crumbs(_("New topic")),
        topic=None,
        curl=curl_of("PUT", _path(frame, "orders"), {"queues": 8, "retention": "3d"}),
    )


@page("topics", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def edit_topic(frame: Frame, topic: str) -> HttpResponse:
    """A form; POST changes the settings. Who changed them meanwhile is not overwritten."""
    row = found_topic(frame, topic)
    shown = shown_settings(row)
    form = TopicForm(frame.request.POST or None, shown=shown)
    if frame.request.method == "POST" and form.is_valid():
        revision = number_of(frame.request.POST.get("revision", ""))
        if answer := save(
            frame,
            form,
            lambda: _put(frame, row.name, form, revision),
            told=_("The settings of %(name)s were saved.") % {"name": topic},
            back=frame.url("topic", topic),
            stale=_(
                "Someone else has changed this topic in the meantime. Check its current "
                "settings, then try again."
            ),
        ):
            return answer
    return frame.render(
        "console/topic_form.html",
        status=form_status(form),
        form=form,
        topic=row,
        revision=frame.request.POST.get("revision", row.revision),
        crumbs=topic_crumbs(frame, row, _("Edit")),
        curl=curl_of(
            "PUT", _path(frame, row.name), {each.name: shown[each.name] for each in SETTINGS}
        ),
    )


@page("topics", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def remove_topic(frame: Frame, topic: str) -> HttpResponse:
    """A question; POST with the topic's name deletes it with its messages."""
    row = found_topic(frame, topic)
    return delete_by_name(
        frame,
        "console/topic_delete.html",
        lambda: delete_topic(frame.namespace, row.name, by=frame.principal),
        name=row.name,
        fault=_fault(),
        told=_("The topic %(name)s was deleted.") % {"name": topic},
        back=frame.url("topics"),
        form_name="delete_form",
        topic=row,
        crumbs=topic_crumbs(frame, row, _("Delete")),
        curl=curl_of("DELETE", _path(frame, row.name)),
    )


def _put(frame: Frame, name: str, form: TopicForm, revision: int | None = None) -> None:
    change = read_change(msgspec.json.encode(form.document()))
    put_topic(frame.namespace, name, change, revision=revision, by=frame.principal)


def _path(frame: Frame, topic: str) -> str:
    return f"{frame.api_root}/topics/{topic}"


def _fault() -> str:
    return _("This does not match the name of the topic.")
