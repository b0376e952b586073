"""Which run of a schedule is due, and the row after it. Pure, but for the row.

row, now ──▶ due_run ──▶ Run, or None: missed ──▶ sent, suspend or refuse ──▶ row, not saved
                                                   └── the next planned time ◀──┘
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from mqservice.delivery.produce.idempotency import REQUEST_OF_SCHEDULE
from mqservice.lib.problem import Problem
from mqservice.schedules.cron import Cron, CronFault, parse_cron
from mqservice.schedules.limits import (
    ERROR_CHARS_MAX,
    MISSED_MS,
    PAUSE_MS_MAX,
    PAUSE_MS_MIN,
    REMEMBERED_MS,
)
from mqservice.schedules.models import Schedule
from mqservice.schedules.settings import CatchUp
from mqservice.store import PROPERTY_DEDUP, dedup_value

ID_HEAD: Final = "01"  # as of all ids of messages
# A busy engine and a full quota pass; all else that is refused would be refused again.
_PASSING: Final = frozenset({"QUOTA_EXCEEDED"})
RUN_FIELDS: Final = (
    "next_ms", "due_ms", "try_count", "last_ms", "last_message_id", "last_error", "missed_ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One planned time of one schedule. Who sends it a second time sends the same."""

    schedule: Schedule
    planned_ms: int

    @property
    def message_id(self) -> str:
        return f"{ID_HEAD}{_digest(self.schedule, str(self.planned_ms)).hex()}".upper()

    @property
    def mark(self) -> dict[str, str]:
        """See ``mark_of``."""
        return mark_of(self.schedule, str(self.planned_ms))

    def is_remembered(self, now_ms: int) -> bool:
        """Whether the engine is sure to know the mark, if it has ever seen it."""
        return now_ms - self.planned_ms < REMEMBERED_MS


def mark_of(schedule: Schedule, key: str) -> dict[str, str]:
    """The property by which the engine stores a message of a schedule once for each ``key``.

    It stands for the key and not for the content, so that a message that was changed between two
    tries is not sent besides.
    """
    text = f"{REQUEST_OF_SCHEDULE}.{schedule.public_id}.{key}"
    return {PROPERTY_DEDUP: dedup_value(_digest(schedule, key), text)}


def _digest(schedule: Schedule, key: str) -> bytes:
    name = f"{schedule.public_id} {key}"
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


def due_run(schedule: Schedule, now_ms: int) -> Run | None:
    """The run to send; None when it was missed, which the row then says."""
    assert schedule.next_ms is not None, "one that is paused is not due"
    cron = _cron_of(schedule)
    planned_ms = schedule.next_ms
    if cron is not None and now_ms - planned_ms >= MISSED_MS:
        planned_ms = cron.last_ms(now_ms, first_ms=planned_ms)
    if planned_ms != schedule.next_ms:
        schedule.try_count = 0
    if now_ms - planned_ms >= MISSED_MS and schedule.catch_up == CatchUp.NONE:
        schedule.missed_ms = planned_ms
        _advance(schedule, planned_ms, now_ms)
        return None
    return Run(schedule=schedule, planned_ms=planned_ms)


def record_sent(run: Run, message_id: str, now_ms: int) -> None:
    schedule = run.schedule
    schedule.last_ms, schedule.last_message_id, schedule.last_error = (
        run.planned_ms,
        message_id,
        "",
    )
    _advance(schedule, run.planned_ms, now_ms)


def record_rejection(run: Run, problem: Problem, now_ms: int) -> None:
    """It was not sent: it is tried again after a pause, or given up until the next planned time."""
    schedule = run.schedule
    text = f"{problem.code}: {problem.detail or problem.title}"
    schedule.last_ms, schedule.last_message_id = run.planned_ms, ""
    schedule.last_error = text.replace("\0", "?")[:ERROR_CHARS_MAX]
    if not (problem.retryable or problem.code in _PASSING):
        _advance(schedule, run.planned_ms, now_ms)
        return
    pause_ms = min(PAUSE_MS_MAX, PAUSE_MS_MIN << min(schedule.try_count, 10))
    schedule.next_ms = run.planned_ms
    schedule.due_ms = now_ms + max(pause_ms, min(problem.retry_after_ms or 0, PAUSE_MS_MAX))
    schedule.try_count += 1


def plan(schedule: Schedule, now_ms: int) -> None:
    """Plan the first run after now; none of one that is paused. What failed before is forgotten."""
    schedule.last_error = ""
    if schedule.is_enabled:
        _advance(schedule, now_ms, now_ms)
    else:
        schedule.next_ms = schedule.due_ms = None
        schedule.try_count = 0


def _advance(schedule: Schedule, planned_ms: int, now_ms: int) -> None:
    """To the first time after ``planned_ms`` that is not over: what the sweep has looked at it does
    not look at again.
    """
    cron = _cron_of(schedule)
    schedule.try_count = 0
    schedule.next_ms = None if cron is None else cron.next_ms(max(planned_ms, now_ms))
    schedule.due_ms = schedule.next_ms


def _cron_of(schedule: Schedule) -> Cron | None:
    """None when what was right once is wrong by now: a zone that the machine has no more."""
    try:
        return parse_cron(schedule.cron, schedule.time_zone)
    except CronFault as fault:
        schedule.last_error = f"ILLEGAL_SETTING: the cron expression or time zone {fault}"
        return None
