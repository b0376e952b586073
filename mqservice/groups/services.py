"""Verbs that change consumer groups; the only writers of their rows, and of groups in the engine.

    put_group ── row (locked, not committed) ──▶ engine GROUP_PUT ──▶ commit

As with topics, the engine is told inside the transaction, and its put is idempotent.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction

from mqservice.accounts.models import Namespace
from mqservice.errors import problem_from_store
from mqservice.groups.models import (
    LEASE_MS_MAX,
    LEASE_MS_MIN,
    RECONSUME_TIMES_MAX,
    ConsumerGroup,
    StartFrom,
)
from mqservice.lib.names import name_fault
from mqservice.lib.problem import Problem, ProblemItem
from mqservice.store import GroupConfig, StoreError, blocking_client
from mqservice.store import StartFrom as EngineStartFrom


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """What to set; None leaves the setting as it is, or at its default on a new group."""

    start_from: StartFrom | None = None
    start_ms: int | None = None
    lease_ms: int | None = None
    max_reconsume_times: int | None = None


@transaction.atomic
def put_group(
    namespace: Namespace, name: str, change: GroupChange, *, revision: int | None = None
) -> tuple[ConsumerGroup, bool]:
    """Create or change a group; the second value says whether it is new. One call to the engine.

    Args:
        revision: refuse with PRECONDITION_FAILED unless the group exists in this revision.

    Raises:
        Problem: ILLEGAL_GROUP, ILLEGAL_SETTING, PRECONDITION_FAILED, or what the engine's failure
            means.
    """
    fault = name_fault(name)
    if fault is not None:
        raise Problem.of("ILLEGAL_GROUP", fault)
    _refuse_bad_change(change)
    Namespace.objects.select_for_update().get(pk=namespace.pk)  # two creators of one name: in turn
    group = ConsumerGroup.objects.filter(namespace=namespace, name=name).first()
    is_new = group is None
    if revision is not None and (group is None or group.revision != revision):
        raise Problem.of("PRECONDITION_FAILED", "the group is not in the revision of If-Match")
    if group is None:
        group = ConsumerGroup(namespace=namespace, name=name)
    is_changed = _apply(change, group)
    if group.start_from == StartFrom.TIMESTAMP and not group.start_ms:
        raise _setting("/start_time", "give the time from which on the group reads")
    if change.start_ms is not None and group.start_from != StartFrom.TIMESTAMP:
        raise _setting("/start_time", "is for start_from: timestamp only")
    if is_new or is_changed:
        group.revision = 1 if is_new else group.revision + 1
        group.save()
    group.namespace = namespace
    put_in_engine(group)
    return group, is_new


def put_in_engine(group: ConsumerGroup) -> None:
    """Make the engine know the group as the row says. Idempotent. Raises Problem."""
    config = GroupConfig(
        group=group.engine_name,
        start_from=EngineStartFrom(group.start_from),
        start_ms=group.start_ms if group.start_from == StartFrom.TIMESTAMP else 0,
        lease_ms=group.lease_ms,
        max_reconsume_times=group.max_reconsume_times,
    )
    try:
        with blocking_client() as client:
            client.group_put(config)
    except StoreError as exc:
        raise problem_from_store(exc) from exc


def _refuse_bad_change(change: GroupChange) -> None:
    """Raises Problem with one item per setting that is out of range."""
    times = change.max_reconsume_times
    attempts = None if times is None else times + 1
    ranges = [
        ("/lease_ms", change.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX),
        ("/max_attempts", attempts, 1, RECONSUME_TIMES_MAX + 1),
    ]
    faults = [
        ProblemItem(pointer, "ILLEGAL_SETTING", f"must be in [{low}, {high}], found {value}")
        for pointer, value, low, high in ranges
        if value is not None and not low <= value <= high
    ]
    if faults:
        raise Problem.of("ILLEGAL_SETTING", "a setting is out of its range", errors=faults)


def _setting(pointer: str, detail: str) -> Problem:
    item = ProblemItem(pointer, "ILLEGAL_SETTING", detail)
    return Problem.of("ILLEGAL_SETTING", f"{pointer}: {detail}", errors=[item])


def _apply(change: GroupChange, group: ConsumerGroup) -> bool:
    """Set what ``change`` gives; whether anything became different."""
    is_changed = False
    for field in ("start_from", "start_ms", "lease_ms", "max_reconsume_times"):
        value = getattr(change, field)
        if value is not None and value != getattr(group, field):
            setattr(group, field, value)
            is_changed = True
    return is_changed
