"""Alerts over REST: ``/v1/ns/{ns}/alerts``, ``alerts/{name}``, its ``:mute``, ``:test`` and
``/history``; all of them for Prometheus as ``alerts.yaml``.
"""

from __future__ import annotations

from typing import Annotated

from django.http import HttpResponse
from ninja import Router, Status
from pydantic import Field

from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.scopes import Scope
from mqservice.alerts.limits import PAGE_MAX
from mqservice.alerts.mutes import mute_rule, unmute_rule
from mqservice.alerts.prometheus import RULES_TYPE, rules_file
from mqservice.alerts.queries import events_of, get_rule, rules_of
from mqservice.alerts.schemas import (
    AlertEventOut,
    AlertHistoryOut,
    AlertListOut,
    AlertOut,
    read_change,
    read_mute,
)
from mqservice.alerts.services import delete_rule, put_rule
from mqservice.alerts.testing import send_test
from mqservice.lib.clock import SystemClock
from mqservice.lib.etags import etag, revision_of

router = Router(tags=["alerts"])


@router.get("/ns/{ns}/alerts", response=AlertListOut)
def list_alerts(request: AuthedRequest, ns: str) -> AlertListOut:
    """List alerts, by name; at most a hundred. Two queries."""
    namespace = get_namespace(request.auth, ns)
    return AlertListOut(alerts=[AlertOut.of(rule, namespace.name) for rule in rules_of(namespace)])


@router.get("/ns/{ns}/alerts.yaml")
def export_alerts(request: AuthedRequest, ns: str) -> HttpResponse:
    """Export the alerts as Prometheus alerting rules, over the metrics of the namespace and of the
    storage engine. Comments in the file list what Prometheus does differently. Two queries."""
    namespace = get_namespace(request.auth, ns)
    answer = HttpResponse(rules_file(namespace.name, rules_of(namespace)), content_type=RULES_TYPE)
    answer["Content-Disposition"] = f'attachment; filename="{namespace.name}-alerts.yaml"'
    return answer


@router.post("/ns/{ns}/alerts/{name}:mute", response=AlertOut)
def mute_alert(request: AuthedRequest, ns: str, name: str) -> AlertOut:
    """Mute an alert for a duration (``for``) or until a time (``until``); replaces an earlier mute.
    The rule is still evaluated; notifications that were missed are sent at the end."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    mute = read_mute(request.body)
    rule = mute_rule(
        request.auth,
        namespace,
        name,
        SystemClock(),
        for_ms=mute.for_ms,
        until_ms=mute.until_ms,
        reason=mute.reason or "",
    )
    return AlertOut.of(rule, namespace.name)


@router.post("/ns/{ns}/alerts/{name}:unmute", response=AlertOut)
def unmute_alert(request: AuthedRequest, ns: str, name: str) -> AlertOut:
    """Unmute an alert; missed notifications are sent with the next evaluation."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    return AlertOut.of(unmute_rule(request.auth, namespace, name), namespace.name)


@router.post("/ns/{ns}/alerts/{name}:test", response={202: AlertEventOut})
def test_alert(request: AuthedRequest, ns: str, name: str) -> Status[AlertEventOut]:
    """Send a test notification to the emails and the webhook of an alert, muted or not. It is sent
    once, in the background; the history shows whether it arrived. At most one in ten seconds."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    event = send_test(request.auth, namespace, name, SystemClock())
    return Status(202, AlertEventOut.of(event))


@router.get("/ns/{ns}/alerts/{name}", response=AlertOut)
def read_alert(request: AuthedRequest, response: HttpResponse, ns: str, name: str) -> AlertOut:
    """Read one alert with its state. Two queries."""
    namespace = get_namespace(request.auth, ns)
    rule = get_rule(namespace, name)
    response["ETag"] = etag(rule.revision)
    return AlertOut.of(rule, namespace.name)


@router.put("/ns/{ns}/alerts/{name}", response={200: AlertOut, 201: AlertOut})
def write_alert(
    request: AuthedRequest, response: HttpResponse, ns: str, name: str
) -> Status[AlertOut]:
    """Create or change an alert: 201 when it is new. ``If-Match`` guards against a lost update.

    The body is read here, not by the framework, so that one answer names all its faults.
    """
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    change = read_change(request.body)
    revision = revision_of(request.headers.get("If-Match"))
    put = put_rule(request.auth, namespace, name, change, SystemClock(), revision=revision)
    response["ETag"] = etag(put.rule.revision)
    return Status(201 if put.is_new else 200, AlertOut.of(put.rule, namespace.name, put.secret))


@router.delete("/ns/{ns}/alerts/{name}", response={204: None})
def remove_alert(request: AuthedRequest, ns: str, name: str) -> Status[None]:
    """Delete an alert with its history."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    revision = revision_of(request.headers.get("If-Match"))
    delete_rule(request.auth, namespace, name, revision=revision)
    return Status(204, None)


@router.get("/ns/{ns}/alerts/{name}/history", response=AlertHistoryOut)
def alert_history(
    request: AuthedRequest,
    ns: str,
    name: str,
    before: Annotated[int, Field(ge=1, lt=1 << 31)] | None = None,
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = PAGE_MAX,
) -> AlertHistoryOut:
    """Read the history of an alert, with its notifications. Four queries."""
    rule = get_rule(get_namespace(request.auth, ns), name)
    events = events_of(rule, before=before, limit=limit)
    return AlertHistoryOut(
        events=[AlertEventOut.of(event) for event in events],
        next=events[-1].number if len(events) == limit else None,
    )
