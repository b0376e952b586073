"""Schedules on the wire of the control plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from ninja import Schema

from mqservice.delivery.decoding import Fault, problem_of
from mqservice.delivery.messages import Offer
from mqservice.lib.json_fields import Fields, read_object, shown
from mqservice.lib.names import name_fault
from mqservice.lib.problem import ProblemItem
from mqservice.lib.timestamps import rfc3339
from mqservice.lib.wire import moment
from mqservice.schedules.limits import DESCRIPTION_CHARS_MAX
from mqservice.schedules.message import bodies_of, read_message
from mqservice.schedules.models import CatchUp, Schedule, ScheduleState
from mqservice.schedules.queries import error_of, state_of
from mqservice.schedules.services import ScheduleChange, SentNow


class _WithMessage(msgspec.Struct):
    message: msgspec.Raw = msgspec.Raw()


_find_message = msgspec.json.Decoder(_WithMessage).decode


def read_change(body: bytes) -> ScheduleChange:
    """What a request wants to set. Raises Problem that names every fault."""
    fields = read_object(body)
    message, fault = _message(fields, body)
    change = ScheduleChange(
        topic=_name(fields, "topic"),
        cron=_text(fields, "cron"),
        time_zone=_text(fields, "time_zone"),
        catch_up=fields.choice("catch_up", CatchUp),
        is_enabled=fields.boolean("enabled"),
        description=_description(fields),
        message=message,
    )
    fields.reject_unknown()
    if fault is not None:
        if not fields.faults:
            raise problem_of(fault)
        fields.faults.append(ProblemItem(fault.pointer, fault.item_code, fault.detail))
    fields.reject()
    return change


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """An expression that is to be tried."""

    cron: str
    time_zone: str


def read_preview(body: bytes) -> Preview:
    """The body of ``:preview``. Raises Problem that names every fault."""
    fields = read_object(body)
    cron, time_zone = _text(fields, "cron"), _text(fields, "time_zone")
    if cron is None and not fields.faults:
        fields.fault("cron", "is missing")
    fields.reject_unknown()
    fields.reject()
    return Preview(cron=cron or "", time_zone=time_zone or "UTC")


def _text(fields: Fields, name: str) -> str | None:
    value = fields.find(name)
    if value is None or isinstance(value, str):
        return value
    fields.fault(name, f"must be a string, found {shown(value)}")
    return None


def _name(fields: Fields, name: str) -> str | None:
    value = _text(fields, name)
    if value is not None and (fault := name_fault(value)) is not None:
        fields.fault(name, fault)
    return value


def _description(fields: Fields) -> str | None:
    value = fields.find("description")
    if value is None:
        return "" if fields.has("description") else None
    if not isinstance(value, str) or len(value) > DESCRIPTION_CHARS_MAX or "\0" in value:
        detail = f"must be a string of at most {DESCRIPTION_CHARS_MAX} characters"
        fields.fault("description", detail)
        return None
    return value


def _message(fields: Fields, body: bytes) -> tuple[Offer | None, Fault | None]:
    """From the body itself: a ``body_json`` stays as it was written."""
    if fields.find("message") is None:
        return None, None
    try:
        return read_message(bytes(_find_message(body).message)), None
    except Fault as fault:
        return None, fault


class ScheduleMessageOut(Schema):
    """The message to send; one of the three bodies."""

    body: str | None
    body_json: Any  # Any: whatever JSON it is
    body_b64: str | None
    tag: str | None
    keys: list[str]
    message_group: str | None
    properties: dict[str, str]
    queue: int | None

    @classmethod
    def of(cls, schedule: Schedule) -> ScheduleMessageOut:
        body, body_json, body_b64 = bodies_of(schedule)
        return cls(
            body=body,
            body_json=body_json,
            body_b64=body_b64,
            tag=schedule.tag,
            keys=schedule.keys,
            message_group=schedule.message_group,
            properties=schedule.properties,
            queue=schedule.queue,
        )


class LastRunOut(Schema):
    """`message_id`: null if it was not sent; then `error` has the reason."""

    planned_at: str
    message_id: str | None
    error: str | None


class ScheduleOut(Schema):
    """`message`: null for keys that may not produce to the topic. `next_runs`: only for a single
    schedule that is not paused. `missed_at`: the last run that `catch_up: none` skipped."""

    id: str
    name: str
    namespace: str
    topic: str
    cron: str
    time_zone: str
    catch_up: CatchUp
    enabled: bool
    description: str
    message: ScheduleMessageOut | None
    state: ScheduleState
    error: str | None
    retrying: bool
    last_run: LastRunOut | None
    missed_at: str | None
    next_run_at: str | None
    next_runs: list[str] | None = None
    created_by: str
    created_at: str
    updated_at: str

    @classmethod
    def of(
        cls,
        schedule: Schedule,
        namespace: str,
        gone: frozenset[str],
        *,
        has_message: bool,
        next_runs: list[int] | None = None,
    ) -> ScheduleOut:
        return cls(
            id=schedule.public_id,
            name=schedule.name,
            namespace=namespace,
            topic=schedule.topic,
            cron=schedule.cron,
            time_zone=schedule.time_zone,
            catch_up=CatchUp(schedule.catch_up),
            enabled=schedule.is_enabled,
            description=schedule.description,
            message=ScheduleMessageOut.of(schedule) if has_message else None,
            state=state_of(schedule, gone),
            error=error_of(schedule, gone) or None,
            retrying=schedule.try_count > 0,
            last_run=_last_run(schedule),
            missed_at=_time(schedule.missed_ms),
            next_run_at=_time(schedule.next_ms),
            next_runs=None if next_runs is None else [rfc3339(at_ms) for at_ms in next_runs],
            created_by=schedule.created_by,
            created_at=moment(schedule.created_at),
            updated_at=moment(schedule.updated_at),
        )


def _last_run(schedule: Schedule) -> LastRunOut | None:
    if schedule.last_ms is None:
        return None
    is_sent = bool(schedule.last_message_id)
    return LastRunOut(
        planned_at=rfc3339(schedule.last_ms),
        message_id=schedule.last_message_id or None,
        error=None if is_sent else schedule.last_error or None,
    )


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else rfc3339(at_ms)


class ScheduleListOut(Schema):
    """``next``: the ``after`` of the following page, null on the last one."""

    schedules: list[ScheduleOut]
    next: str | None


class PreviewOut(Schema):
    """The next times of an expression."""

    next_runs: list[str]


class SentNowOut(Schema):
    """A message that was sent immediately."""

    id: str
    topic: str
    queue: int
    offset: int
    stored_at: str

    @classmethod
    def of(cls, sent: SentNow) -> SentNowOut:
        return cls(
            id=sent.message_id,
            topic=sent.topic,
            queue=sent.queue_id,
            offset=sent.queue_offset,
            stored_at=rfc3339(sent.stored_ms),
        )
