"""Reads of schedules, each within one namespace."""

from __future__ import annotations

from collections.abc import Iterable

from mqservice.accounts.models import Namespace
from mqservice.lib.problem import Problem
from mqservice.schedules.limits import PAGE_MAX
from mqservice.schedules.models import Schedule, ScheduleState
from mqservice.topics.models import Topic


def schedules_of(namespace: Namespace, *, after: str = "", limit: int = PAGE_MAX) -> list[Schedule]:
    """Schedules whose name comes after ``after``, by name, at most ``limit``. One query."""
    rows = Schedule.objects.filter(namespace=namespace, name__gt=after).order_by("name")
    return list(rows[: min(limit, PAGE_MAX)])


def get_schedule(namespace: Namespace, name: str, *, is_locked: bool = False) -> Schedule:
    """``is_locked``: until the end of the transaction. Raises Problem SCHEDULE_NOT_FOUND. One
    query.
    """
    rows = Schedule.objects.filter(namespace=namespace, name=name)
    schedule = (rows.select_for_update() if is_locked else rows).first()
    if schedule is None:
        raise Problem.of("SCHEDULE_NOT_FOUND", f"{name} does not exist in {namespace.name}")
    return schedule


def missing_topics(namespace: Namespace, schedules: Iterable[Schedule]) -> frozenset[str]:
    """Those topics of the schedules that there are no more. One query."""
    wanted = {schedule.topic for schedule in schedules}
    there = Topic.objects.filter(namespace=namespace, name__in=wanted)
    return frozenset(wanted.difference(there.values_list("name", flat=True)))


def state_of(schedule: Schedule, gone: frozenset[str]) -> ScheduleState:
    """``gone``: of ``missing_topics``."""
    if not schedule.is_enabled:
        return ScheduleState.PAUSED
    is_failing = schedule.last_error or schedule.topic in gone
    return ScheduleState.FAILING if is_failing else ScheduleState.ACTIVE


def error_of(schedule: Schedule, gone: frozenset[str]) -> str:
    """Why the last run was not sent, or the next one will not be; empty when all is well."""
    if schedule.topic in gone:
        return f"TOPIC_NOT_FOUND: {schedule.topic} does not exist"
    return schedule.last_error
