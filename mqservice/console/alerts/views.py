"""Alert rules: the list, one rule with its history, and the forms that create, change, mute,
test and delete one.

    form ──▶ alerts.services, as REST calls it ──▶ audit

A webhook's secret is in the answer to the POST that makes it, and nowhere else.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.alerts.models import AlertRule, Delivery, EventState
from mqservice.alerts.mutes import mute_rule, unmute_rule
from mqservice.alerts.prometheus import RULES_TYPE, rules_file
from mqservice.alerts.queries import events_of, get_rule, rules_of
from mqservice.alerts.schemas import shown_settings
from mqservice.alerts.services import RuleChange, delete_rule, put_rule
from mqservice.alerts.settings import KIND, WEBHOOK_FORMAT, AlertKind, WebhookFormat
from mqservice.alerts.testing import send_test
from mqservice.console.alerts.forms import AlertForm, MuteForm
from mqservice.console.charts.series import Span
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.form_views import (
    FORM_METHODS,
    act,
    delete_by_name,
    form_status,
    number_of,
    save,
)
from mqservice.console.shared.frame import Frame, find_or_404, page
from mqservice.lib.clock import SystemClock
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.problem import Problem

EVENT_ROWS: Final = 50
NAMES_OFFERED_MAX: Final = 200  # of groups, and of topics; with more of them they are typed
_CHARTS: Final = {
    AlertKind.LAG: "lag",
    AlertKind.OLDEST_AGE: "age",
    AlertKind.DLQ_GROWTH: "dead",
}


@page("alerts")
def alerts(frame: Frame) -> HttpResponse:
    """All rules of the namespace, those that fire first. One query."""
    rules = rules_of(frame.namespace)
    rules.sort(key=lambda rule: (rule.state != "firing", rule.name))
    return frame.render(
        "console/alerts.html",
        rules=[(rule, gettext(KIND.texts[AlertKind(rule.kind)])) for rule in rules],
        firing_count=sum(rule.state == "firing" for rule in rules),
        curl=curl_of("GET", f"{frame.api_root}/alerts.yaml"),
    )


@page("alerts")
def alerts_yaml(frame: Frame) -> HttpResponse:
    """All rules as a file for Prometheus. One query."""
    text = rules_file(frame.namespace.name, rules_of(frame.namespace))
    response = HttpResponse(text, content_type=RULES_TYPE)
    name = f"{frame.namespace.name}-alerts.yaml"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "no-store"
    return response


@page("alerts")
def alert(frame: Frame, alert: str) -> HttpResponse:
    """``?before=``: how a rule stands, and when it changed, the newest first. Three queries."""
    return _rule_page(frame, _found(frame, alert))


@page("alerts", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def new_alert(frame: Frame) -> HttpResponse:
    """``?kind=&group=&topic=``: a form; POST makes the rule, unless there is one of the name
    already. Without a kind, the choice of one.
    """
    kind = _kind_of(frame)
    asked = {name: frame.request.GET.get(name, "")[:NAME_CHARS_MAX] for name in ("group", "topic")}
    given = {name: value for name, value in asked.items() if value}
    if kind is None:
        return _kinds_page(frame, given)
    if given:
        suggested = f"{given.get('group') or given['topic']}-{kind}".replace("_", "-")
        given["name"] = suggested[:NAME_CHARS_MAX]
    form = _form(frame, kind, initial=given)
    if frame.request.method == "POST" and form.is_valid():
        name = form.cleaned_data["name"]
        if AlertRule.objects.filter(namespace=frame.namespace, name=name).exists():
            form.add_error("name", _("An alert with this name already exists."))
        elif (answer := _put(frame, name, form, None)) is not None:
            return answer
    return _form_page(frame, form, None)


@page("alerts", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def edit_alert(frame: Frame, alert: str) -> HttpResponse:
    """A form; POST changes the rule, but not its kind. What somebody else has changed meanwhile is
    not overwritten.
    """
    rule = _found(frame, alert)
    form = _form(frame, AlertKind(rule.kind), shown=shown_settings(rule))
    if frame.request.method == "POST" and form.is_valid():
        text = frame.request.POST.get("revision", "")
        revision = number_of(text)
        if (answer := _put(frame, rule.name, form, revision)) is not None:
            return answer
    return _form_page(frame, form, rule)


@page("alerts", needs=Permission.SETTINGS_MANAGE, methods=("POST",))
def test(frame: Frame, alert: str) -> HttpResponse:
    """Sends a test to whom the rule would notify; its history shows what became of it."""
    rule = _found(frame, alert)
    return act(
        frame,
        lambda: send_test(frame.principal, frame.namespace, rule.name, SystemClock()),
        told=_("A test is on the way. The history below shows whether it arrives."),
        back=frame.url("alert", rule.name),
    )


@page("alerts", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def mute(frame: Frame, alert: str) -> HttpResponse:
    """A form; POST mutes the rule for a time or until one, ``unmute`` in it ends that."""
    rule = _found(frame, alert)
    form = MuteForm(frame.request.POST or None)
    back = redirect("console:alert", frame.namespace.name, rule.name)
    told = {"name": rule.name}
    if "unmute" in frame.request.POST:
        unmute_rule(frame.principal, frame.namespace, rule.name)
        messages.success(frame.request, _("%(name)s is no longer muted.") % told)
        return back
    if frame.request.method == "POST" and form.is_valid():
        try:
            mute = form.mute()
            mute_rule(
                frame.principal,
                frame.namespace,
                rule.name,
                SystemClock(),
                for_ms=mute.for_ms,
                until_ms=mute.until_ms,
                reason=mute.reason or "",
            )
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(frame.request, _("%(name)s is muted.") % told)
            return back
    return frame.render(
        "console/alert_mute.html",
        status=form_status(form),
        rule=rule,
        form=form,
        crumbs=frame.crumbs_of("alert", rule.name, _("Mute")),
        curl=curl_of("POST", f"{frame.api_root}/alerts/{rule.name}:mute", {"for": "1h"}),
    )


@page("alerts", needs=Permission.SETTINGS_MANAGE, methods=("POST",))
def switch(frame: Frame, alert: str) -> HttpResponse:
    """``is_enabled=1`` or ``0``: a rule that is off is not looked at, and tells nobody."""
    rule = _found(frame, alert)
    is_enabled = frame.request.POST.get("is_enabled") == "1"
    change = RuleChange(is_enabled=is_enabled)
    said = _("%(name)s was turned on.") if is_enabled else _("%(name)s was turned off.")
    return act(
        frame,
        lambda: put_rule(frame.principal, frame.namespace, rule.name, change, SystemClock()),
        told=said % {"name": rule.name},
        back=frame.url("alert", rule.name),
    )


@page("alerts", needs=Permission.SETTINGS_MANAGE, methods=FORM_METHODS)
def remove_alert(frame: Frame, alert: str) -> HttpResponse:
    """POST with the rule's name deletes it with its history."""
    rule = _found(frame, alert)
    return delete_by_name(
        frame,
        "console/alert_delete.html",
        lambda: delete_rule(frame.principal, frame.namespace, rule.name),
        name=rule.name,
        fault=_("This does not match the name of the alert."),
        told=_("The alert %(name)s was deleted.") % {"name": rule.name},
        back=frame.url("alerts"),
        rule=rule,
        crumbs=frame.crumbs_of("alert", rule.name, _("Delete")),
        curl=curl_of("DELETE", f"{frame.api_root}/alerts/{rule.name}"),
    )


def _put(frame: Frame, name: str, form: AlertForm, revision: int | None) -> HttpResponse | None:
    """The answer, or None with the refusal in the form."""

    def write() -> HttpResponse | None:
        put = put_rule(
            frame.principal, frame.namespace, name, form.change(), SystemClock(), revision=revision
        )
        if put.secret is None:
            return None
        return _rule_page(frame, put.rule, secret=put.secret, status=201)

    return save(
        frame,
        form,
        write,
        told=_("The alert %(name)s was saved.") % {"name": name},
        back=frame.url("alert", name),
        stale=_(
            "Someone else has changed this alert in the meantime. Check its current "
            "settings, then try again."
        ),
    )


def _rule_page(
    frame: Frame, rule: AlertRule, *, secret: str = "", status: int = 200
) -> HttpResponse:
    text = frame.request.GET.get("before", "")
    before = number_of(text)
    events = events_of(rule, before=before, limit=EVENT_ROWS + 1)
    path = f"{frame.api_root}/alerts/{rule.name}"
    return frame.render(
        "console/alert.html",
        status=status,
        rule=rule,
        kind=gettext(KIND.texts[AlertKind(rule.kind)]),
        webhook_format=gettext(WEBHOOK_FORMAT.texts[WebhookFormat(rule.webhook_format)]),
        chart_url=_chart_url(frame, rule),
        secret=secret,
        events=events[:EVENT_ROWS],
        # While somebody waits for the result of a test, htmx asks for the page anew.
        is_test_pending=any(
            each.state == Delivery.PENDING
            for event in events
            if event.state == EventState.TEST
            for each in event.notifications.all()
        ),
        next_before=events[EVENT_ROWS - 1].number if len(events) > EVENT_ROWS else None,
        crumbs=frame.crumbs_of("alert", rule.name),
        curl=f"{curl_of('GET', f'{path}/history')}\n\n{curl_of('POST', f'{path}:test')}",
    )


def _chart_url(frame: Frame, rule: AlertRule) -> str:
    """Of what the rule watches; empty where no chart shows it."""
    name = _CHARTS.get(AlertKind(rule.kind))
    if name is None:
        return ""
    asked = urlencode({"group": rule.group_name, "topic": rule.topic, "span": Span.HOUR})
    return f"{frame.url('chart', name)}?{asked}"


def _kind_of(frame: Frame) -> AlertKind | None:
    """The kind that is asked for. The disk is for operators."""
    given = frame.request.POST.get("kind") or frame.request.GET.get("kind", "")
    if given not in set(AlertKind):
        return None
    kind = AlertKind(given)
    return None if kind is AlertKind.DISK and not frame.user.is_superuser else kind


def _kinds_page(frame: Frame, given: dict[str, str]) -> HttpResponse:
    kinds = [
        (f"{frame.url('new-alert')}?{urlencode({'kind': kind, **given})}", gettext(text))
        for kind, text in KIND.texts.items()
        if kind != AlertKind.DISK or frame.user.is_superuser
    ]
    return frame.render(
        "console/alert_kinds.html",
        status=422 if frame.request.method == "POST" else 200,
        kinds=kinds,
        crumbs=frame.crumbs(_("New alert")),
        curl=_curl(frame, "billing-behind"),
    )


def _form(frame: Frame, kind: AlertKind, **given: Any) -> AlertForm:  # Any: what a form takes
    names = [
        list(rows.order_by("name").values_list("name", flat=True)[: NAMES_OFFERED_MAX + 1])
        for rows in (frame.namespace.groups, frame.namespace.topics)
    ]
    groups, topics = (found if len(found) <= NAMES_OFFERED_MAX else [] for found in names)
    return AlertForm(frame.request.POST or None, kind=kind, groups=groups, topics=topics, **given)


def _form_page(frame: Frame, form: AlertForm, rule: AlertRule | None) -> HttpResponse:
    return frame.render(
        "console/alert_form.html",
        status=form_status(form),
        form=form,
        rule=rule,
        kind=form.kind,
        kind_text=gettext(KIND.texts[form.kind]),
        revision=None if rule is None else frame.request.POST.get("revision", rule.revision),
        curl=_curl(frame, rule.name if rule else "billing-behind"),
        crumbs=frame.crumbs(_("New alert"))
        if rule is None
        else frame.crumbs_of("alert", rule.name, _("Edit")),
    )


def _curl(frame: Frame, name: str) -> str:
    body: dict[str, object] = {"kind": "lag", "group": "billing", "threshold": 1_000}
    return curl_of("PUT", f"{frame.api_root}/alerts/{name}", body)


def _found(frame: Frame, name: str) -> AlertRule:
    """Raises Http404. One query."""
    return find_or_404(get_rule, frame.namespace, name)
