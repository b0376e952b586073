"""Changes schedules; the only writers of their settings. One transaction each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import difference, record, settings_of
from mqservice.accounts.locks import lock_namespace
from mqservice.accounts.models import Namespace
from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.decoding import Fault, problem_of
from mqservice.delivery.messages import Offer
from mqservice.delivery.produce.idempotency import result_of
from mqservice.errors import problem_from_store
from mqservice.lib.clock import Clock
from mqservice.lib.etags import require_revision
from mqservice.lib.names import name_fault
from mqservice.lib.problem import Problem
from mqservice.lib.settings_table import Change, columns_of
from mqservice.lib.wire import refused
from mqservice.schedules.cron import Cron, CronFault, find_zone, parse_cron
from mqservice.schedules.limits import SCHEDULES_MAX
from mqservice.schedules.message import check_message, offer_of, set_message
from mqservice.schedules.models import Schedule
from mqservice.schedules.queries import get_schedule
from mqservice.schedules.quota_charges import charges
from mqservice.schedules.runs import plan
from mqservice.schedules.sending import count_stored, find_route, prepare
from mqservice.schedules.settings import SETTINGS
from mqservice.store import StoreError, blocking_client

_COLUMNS: Final = columns_of(SETTINGS)
_TIMING: Final = {"cron", "time_zone", "is_enabled"}
_SENT: Final = {"topic", "message"}
_OF_REQUEST: Final = "r"
_MESSAGE: Final = "message"  # the audit tells that it became different, never what is in it


class ScheduleChange(Change):
    """What to set. ``message``: None leaves it as it is."""

    settings = SETTINGS

    def __init__(self, *, message: Offer | None = None, **values: object) -> None:
        super().__init__(**values)
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class SentNow:
    """Where a message is that was sent at once."""

    message_id: str
    topic: str
    queue_id: int
    queue_offset: int
    stored_ms: int


@transaction.atomic
def put_schedule(
    principal: Principal,
    namespace: Namespace,
    name: str,
    change: ScheduleChange,
    clock: Clock,
    *,
    revision: int | None = None,
) -> tuple[Schedule, bool]:
    """Create or change a schedule; the row, and whether it is new.

    Another expression or time zone plans anew from now on. What is checked of a message is what a
    produce checks, against the topic as it is.

    Args:
        revision: refuse with PRECONDITION_FAILED unless the schedule exists in this revision.

    Raises Problem: ILLEGAL_SCHEDULE, ILLEGAL_SETTING, FORBIDDEN without the scope to produce to the
    topic, TOPIC_NOT_FOUND, QUOTA_EXCEEDED, PRECONDITION_FAILED, or what a produce is refused with.
    """
    if fault := name_fault(name):
        raise Problem.of("ILLEGAL_SCHEDULE", fault)
    lock_namespace(namespace)  # two creators of one name: in turn
    rows = Schedule.objects.select_for_update().filter(namespace=namespace, name=name)
    schedule = rows.first()
    require_revision(schedule, revision, "schedule")
    is_new = schedule is None
    if schedule is None:
        _require_fields(change)
        if Schedule.objects.filter(namespace=namespace).count() >= SCHEDULES_MAX:
            raise Problem.of(
                "QUOTA_EXCEEDED",
                f"a namespace has at most {SCHEDULES_MAX} schedules; delete one first",
            )
        schedule = Schedule(namespace=namespace, name=name, created_by=principal.actor)
        schedule.body = b""
    schedule.namespace = namespace
    before = None if is_new else settings_of(schedule, _COLUMNS)
    changed = _apply(change, schedule)
    principal.require(Scope.PRODUCE, Kind.TOPIC, schedule.topic)
    _check(schedule, changed)
    if not (is_new or changed):
        return schedule, False
    if is_new or changed & (_TIMING | _SENT):
        plan(schedule, clock.now_ms())
    schedule.revision = 1 if is_new else schedule.revision + 1
    schedule.save()
    old, new = difference(before, settings_of(schedule, _COLUMNS))
    details = {"changed": sorted(changed)}
    record(principal, namespace, "schedule.put", _target(name), details, before=old, after=new)
    return schedule, is_new


@transaction.atomic
def delete_schedule(
    principal: Principal, namespace: Namespace, name: str, *, revision: int | None = None
) -> None:
    """What it has sent stays. Raises Problem: SCHEDULE_NOT_FOUND or PRECONDITION_FAILED."""
    schedule = get_schedule(namespace, name, is_locked=True)
    require_revision(schedule, revision, "schedule")
    before = settings_of(schedule, _COLUMNS)
    schedule.delete()
    record(principal, namespace, "schedule.delete", _target(name), before=before)


@transaction.atomic
def switch_schedule(
    principal: Principal, namespace: Namespace, name: str, clock: Clock, *, is_enabled: bool
) -> Schedule:
    """Pause a schedule or resume it; what was missed while it was paused is not sent. Does nothing
    to one that is so already. Raises Problem SCHEDULE_NOT_FOUND.
    """
    schedule = get_schedule(namespace, name, is_locked=True)
    if schedule.is_enabled != is_enabled:
        schedule.is_enabled = is_enabled
        schedule.revision += 1
        plan(schedule, clock.now_ms())
        schedule.save()
        action = "schedule.resume" if is_enabled else "schedule.pause"
        record(principal, namespace, action, _target(name))
    return schedule


def send_now(
    principal: Principal,
    namespace: Namespace,
    name: str,
    clock: Clock,
    *,
    request_key: str | None = None,
) -> SentNow:
    """Send the message of a schedule once, besides its runs, which go on as planned.

    Args:
        request_key: of a request that may come again, and sends one message all the same.

    Raises Problem: SCHEDULE_NOT_FOUND, FORBIDDEN without the scope to produce to the topic, or what
    a produce is refused with.
    """
    schedule = get_schedule(namespace, name)
    principal.require(Scope.PRODUCE, Kind.TOPIC, schedule.topic)
    schedule.namespace = namespace
    route = find_route(schedule)
    # With its letter it is no planned time, by which runs are known.
    key = None if request_key is None else f"{_OF_REQUEST}.{request_key}"
    ready = prepare(schedule, route, clock.now_ms(), request_key=key)
    try:
        with blocking_client(namespace.shard) as client:
            charges.charge(namespace, len(ready.record))
            (place,) = client.put_once([ready.record])
    except StoreError as exc:
        raise problem_from_store(exc) from exc
    result = result_of(place)
    if result.error is not None:
        raise problem_from_store(result.error)
    if not place.is_duplicate:
        count_stored([ready], clock.now_ms())
    sent = SentNow(
        message_id=place.message_id if place.is_duplicate else ready.message_id,
        topic=schedule.topic,
        queue_id=place.queue_id,
        queue_offset=result.queue_offset,
        stored_ms=result.store_timestamp_ms,
    )
    details = {"message": sent.message_id, "topic": schedule.topic}
    record(principal, namespace, "schedule.send", _target(name), details)
    return sent


def next_runs(cron: str, time_zone: str, now_ms: int, count: int) -> list[int]:
    """The next times of an expression, in ms. Raises Problem ILLEGAL_SETTING."""
    times = []
    for at_ms in _parsed(cron, time_zone).times_from(now_ms):
        times.append(at_ms)
        if len(times) == count:
            break
    return times


def _parsed(cron: str, time_zone: str) -> Cron:
    try:
        find_zone(time_zone)
    except CronFault as fault:
        raise refused("/time_zone", str(fault), "ILLEGAL_SETTING") from None
    try:
        return parse_cron(cron, time_zone)
    except CronFault as fault:
        raise refused("/cron", str(fault), "ILLEGAL_SETTING") from None


def _apply(change: ScheduleChange, schedule: Schedule) -> set[str]:
    """Set what ``change`` gives; the fields that became different."""
    changed = change.apply(schedule)
    if change.message is not None and set_message(schedule, change.message):
        changed.add(_MESSAGE)
    return changed


def _check(schedule: Schedule, changed: set[str]) -> None:
    """Raises Problem for what became different and is not right."""
    if changed & _TIMING:
        _parsed(schedule.cron, schedule.time_zone)
    if changed & _SENT:
        route = find_route(schedule)
        try:
            check_message(offer_of(schedule), route)
        except Fault as fault:
            raise problem_of(fault) from None


def _require_fields(change: ScheduleChange) -> None:
    for name in ("topic", "cron"):
        if change.find(name) is None:
            raise refused(f"/{name}", "is missing")
    if change.message is None:
        raise refused("/message", "is missing")


def _target(name: str) -> str:
    return f"schedules/{name}"
