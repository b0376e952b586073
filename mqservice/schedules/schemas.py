"""Schedules on the wire of the control plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from ninja import Schema
from pydantic import create_model

from mqservice.delivery.decoding import Fault, problem_of
from mqservice.delivery.messages import Offer
from mqservice.lib.json_fields import Fields, read_object
from mqservice.lib.problem import ProblemItem
from mqservice.lib.settings_table import answer_fields, read_body, read_values, shown_values
from mqservice.lib.timestamps import rfc3339
from mqservice.lib.wire import moment
from mqservice.schedules.message import bodies_of, read_message
from mqservice.schedules.models import Schedule, ScheduleState
from mqservice.schedules.queries import error_of, state_of
from mqservice.schedules.services import ScheduleChange, SentNow
from mqservice.schedules.settings import BODY, MESSAGE, PREVIEW, SETTINGS, TIME_ZONE


class _WithMessage(msgspec.Struct):
    message: msgspec.Raw = msgspec.Raw()


_find_message = msgspec.json.Decoder(_WithMessage).decode


def read_change(body: bytes) -> ScheduleChange:
    """What a request wants to set. Raises Problem that names every fault."""
    fields = read_object(body)
    faults: list[Fault] = []

    def read_offer(_: Fields) -> Offer | None:
        """From the body itself: a ``body_json`` stays as it was written."""
        try:
            given = fields.find(MESSAGE.name)
            return None if given is None else read_message(bytes(_find_message(body).message))
        except Fault as fault:
            faults.append(fault)
            return None

    values = read_values(BODY, fields, {MESSAGE.name: read_offer})
    fields.reject_unknown()
    for fault in faults:
        if not fields.faults:
            raise problem_of(fault)
        fields.faults.append(ProblemItem(fault.pointer, fault.item_code, fault.detail))
    fields.reject()
    return ScheduleChange(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """An expression that is to be tried."""

    cron: str
    time_zone: str


def read_preview(body: bytes) -> Preview:
    """The body of ``:preview``. Raises Problem that names every fault."""
    values = read_body(PREVIEW, body)
    return Preview(cron=values["cron"], time_zone=values["time_zone"] or TIME_ZONE.default)


def shown_settings(schedule: Schedule) -> dict[str, Any]:
    """As the API writes them, but for the message."""
    return shown_values(SETTINGS, schedule)


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


_HEAD: dict[str, Any] = dict.fromkeys(("id", "name", "namespace"), (str, ...))  # Any: a type
_Settings = create_model("_Settings", **_HEAD, **answer_fields(SETTINGS))


class ScheduleOut(_Settings):  # type: ignore[valid-type, misc]  # reason: made of the table
    """`message`: null for keys that may not produce to the topic. `next_runs`: only for a single
    schedule that is not paused. `missed_at`: the last run that `catch_up: none` skipped."""

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
            **shown_settings(schedule),
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
