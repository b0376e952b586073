"""Schedules over REST: ``/v1/ns/{ns}/schedules``, ``schedules/{name}`` with ``:pause``,
``:resume`` and ``:send``, and ``schedules:preview``.
"""

from __future__ import annotations

from typing import Annotated

from django.http import HttpResponse
from ninja import Router, Status
from pydantic import Field

from mqservice.accounts.models import Namespace
from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.scopes import Kind, Scope
from mqservice.lib.clock import SystemClock
from mqservice.lib.etags import etag, revision_of
from mqservice.lib.timestamps import rfc3339
from mqservice.schedules.limits import NEXT_RUNS, PAGE_MAX
from mqservice.schedules.models import Schedule
from mqservice.schedules.queries import get_schedule, missing_topics, schedules_of
from mqservice.schedules.schemas import (
    PreviewOut,
    ScheduleListOut,
    ScheduleOut,
    SentNowOut,
    read_change,
    read_preview,
)
from mqservice.schedules.services import (
    delete_schedule,
    next_runs,
    put_schedule,
    send_now,
    switch_schedule,
)

router = Router(tags=["schedules"])


@router.get("/ns/{ns}/schedules", response=ScheduleListOut)
def list_schedules(
    request: AuthedRequest,
    ns: str,
    after: str = "",
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = PAGE_MAX,
) -> ScheduleListOut:
    """List schedules, by name, with the results of their last runs. Three queries."""
    namespace = get_namespace(request.auth, ns)
    schedules = schedules_of(namespace, after=after, limit=limit)
    gone = missing_topics(namespace, schedules)
    return ScheduleListOut(
        schedules=[
            ScheduleOut.of(each, namespace.name, gone, has_message=_may_see(request, each))
            for each in schedules
        ],
        next=schedules[-1].name if len(schedules) == limit else None,
    )


@router.post("/ns/{ns}/schedules:preview", response=PreviewOut, operation_id="previewSchedule")
def preview(request: AuthedRequest, ns: str) -> PreviewOut:
    """Preview the next ten times of an expression in a time zone, without a schedule. One query."""
    get_namespace(request.auth, ns)
    wanted = read_preview(request.body)
    times = next_runs(wanted.cron, wanted.time_zone, SystemClock().now_ms(), NEXT_RUNS)
    return PreviewOut(next_runs=[rfc3339(at_ms) for at_ms in times])


@router.post("/ns/{ns}/schedules/{name}:pause", response=ScheduleOut, operation_id="pauseSchedule")
def pause(request: AuthedRequest, ns: str, name: str) -> ScheduleOut:
    """Pause a schedule until ``:resume``. Has no effect on a paused one."""
    return _switch(request, ns, name, is_enabled=False)


@router.post(
    "/ns/{ns}/schedules/{name}:resume", response=ScheduleOut, operation_id="resumeSchedule"
)
def resume(request: AuthedRequest, ns: str, name: str) -> ScheduleOut:
    """Resume a schedule from now; runs missed while it was paused are not sent."""
    return _switch(request, ns, name, is_enabled=True)


@router.post("/ns/{ns}/schedules/{name}:send", response=SentNowOut, operation_id="sendSchedule")
def send(request: AuthedRequest, ns: str, name: str) -> SentNowOut:
    """Send its message once now, in addition to its planned runs, also while it is paused. Each
    request sends one: use an ``Idempotency-Key`` to be able to repeat it."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    key = request.headers.get("Idempotency-Key")  # which the middleware has checked
    sent = send_now(request.auth, namespace, name, SystemClock(), request_key=key)
    return SentNowOut.of(sent)


@router.get("/ns/{ns}/schedules/{name}", response=ScheduleOut)
def read_schedule(
    request: AuthedRequest, response: HttpResponse, ns: str, name: str
) -> ScheduleOut:
    """Read one schedule with its next ten runs. Three queries."""
    namespace = get_namespace(request.auth, ns)
    return _shown(request, response, namespace, get_schedule(namespace, name))


@router.put("/ns/{ns}/schedules/{name}", response={200: ScheduleOut, 201: ScheduleOut})
def write_schedule(
    request: AuthedRequest, response: HttpResponse, ns: str, name: str
) -> Status[ScheduleOut]:
    """Create or change a schedule: 201 when it is new. Omitted fields are left unchanged;
    ``message`` is replaced as a whole. ``If-Match`` guards against a lost update.

    The body is read here, not by the framework, so that one answer names all its faults.
    """
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    change = read_change(request.body)
    revision = revision_of(request.headers.get("If-Match"))
    schedule, is_new = put_schedule(
        request.auth, namespace, name, change, SystemClock(), revision=revision
    )
    return Status(201 if is_new else 200, _shown(request, response, namespace, schedule))


@router.delete("/ns/{ns}/schedules/{name}", response={204: None})
def remove_schedule(request: AuthedRequest, ns: str, name: str) -> Status[None]:
    """Delete a schedule; messages already sent remain."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    revision = revision_of(request.headers.get("If-Match"))
    delete_schedule(request.auth, namespace, name, revision=revision)
    return Status(204, None)


def _switch(request: AuthedRequest, ns: str, name: str, *, is_enabled: bool) -> ScheduleOut:
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    schedule = switch_schedule(request.auth, namespace, name, SystemClock(), is_enabled=is_enabled)
    gone = missing_topics(namespace, [schedule])
    return ScheduleOut.of(schedule, namespace.name, gone, has_message=_may_see(request, schedule))


def _shown(
    request: AuthedRequest, response: HttpResponse, namespace: Namespace, schedule: Schedule
) -> ScheduleOut:
    response["ETag"] = etag(schedule.revision)
    times: list[int] = []
    if schedule.next_ms is not None:
        zone, before_ms = schedule.time_zone, schedule.next_ms - 1
        times = next_runs(schedule.cron, zone, before_ms, NEXT_RUNS)
    return ScheduleOut.of(
        schedule,
        namespace.name,
        missing_topics(namespace, [schedule]),
        has_message=_may_see(request, schedule),
        next_runs=times,
    )


def _may_see(request: AuthedRequest, schedule: Schedule) -> bool:
    return request.auth.allows(Scope.PRODUCE, Kind.TOPIC, schedule.topic)
