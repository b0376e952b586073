"""Changes consumer groups; the only writers of their rows, and of groups in the engine.

    put_group, pause_group ── row (locked, not committed) ──▶ engine GROUP_PUT ──▶ commit
                              plan_group, write_group         config_of
    delete_group ──────────── row (gone, not committed) ────▶ engine GROUP_DELETE ──▶ commit

As with topics, the engine is told inside the transaction, and what it is told is idempotent. A
crash between its deletion and the commit leaves a row whose group the engine does not know: the
same call again, or a put, makes both agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec
from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import (
    difference,
    entry_of,
    record,
    record_all,
    settings_of,
)
from mqservice.accounts.locks import lock_namespace
from mqservice.accounts.models import AuditEntry, Namespace
from mqservice.errors import problem_from_store
from mqservice.groups.assignment import assignment_of
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.queries import get_group
from mqservice.groups.settings import SETTINGS, START_TIME
from mqservice.lib.names import name_fault
from mqservice.lib.problem import Problem
from mqservice.lib.rows import insert_all, update_all
from mqservice.lib.settings_table import Change, columns_of
from mqservice.lib.wire import refused
from mqservice.protocol.choices import Dispatch, StartFrom
from mqservice.quotas.services import require_room
from mqservice.store import (
    BadRequest,
    GroupConfig,
    GroupNotFound,
    GroupRef,
    StoreError,
    Strategy,
    blocking_client,
)
from mqservice.topics.models import QUEUE_COUNT_MAX

_COLUMNS: Final = columns_of(SETTINGS)


class GroupChange(Change):
    """What to set, in range."""

    settings = SETTINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """A row as a change makes it, not yet written. ``before``: its settings; None of a new one."""

    group: ConsumerGroup
    before: dict[str, object] | None
    is_different: bool

    @property
    def is_new(self) -> bool:
        return self.before is None


@transaction.atomic
def put_group(
    namespace: Namespace,
    name: str,
    change: GroupChange,
    *,
    revision: int | None = None,
    by: Principal | None = None,
) -> tuple[ConsumerGroup, bool]:
    """Create or change a group; the second value says whether it is new. One call to the engine.

    Args:
        revision: refuse with PRECONDITION_FAILED unless the group exists in this revision.
        by: who asks, for the audit; None: the service itself.

    Raises:
        Problem: ILLEGAL_GROUP, ILLEGAL_SETTING, PRECONDITION_FAILED, QUOTA_EXCEEDED, or what the
            engine's failure means.
    """
    fault = name_fault(name)
    if fault is not None:
        raise Problem.of("ILLEGAL_GROUP", fault)
    lock_namespace(namespace, with_tenant=True)
    group = ConsumerGroup.objects.filter(namespace=namespace, name=name).first()
    _require_revision(group, revision)
    if group is None:
        require_room(namespace.tenant_id, "group_count_max", ConsumerGroup)
    planned = plan_group(namespace, name, group, change)
    write_group(planned, by=by)
    put_in_engine(planned.group)
    return planned.group, planned.is_new


def plan_group(
    namespace: Namespace, name: str, group: ConsumerGroup | None, change: GroupChange
) -> PlannedGroup:
    """What a change makes of a group that there is, or of none. The row is changed in memory.

    Raises Problem ILLEGAL_SETTING.
    """
    before = None if group is None else settings_of(group, _COLUMNS)
    row = ConsumerGroup(namespace=namespace, name=name) if group is None else group
    _lengthen_timeout(change, row)
    is_changed = change.apply(row)
    if row.start_from == StartFrom.TIMESTAMP and not row.start_ms:
        raise _setting("/start_time", "give the time from which the group reads")
    if change.find("start_ms") is not None and row.start_from != StartFrom.TIMESTAMP:
        raise _setting("/start_time", "is only for start_from: timestamp")
    try:
        assignment_of(row.assignment).check(Strategy(row.strategy), QUEUE_COUNT_MAX)
    except BadRequest as exc:
        raise _setting("/assignment", str(exc)) from exc
    if row.lease_ms > row.consume_timeout_ms:
        raise _setting(
            "/consume_timeout", f"must not be less than the lease, which is {row.lease_ms} ms"
        )
    _reject_broadcast_settings(row)
    row.namespace = namespace
    return PlannedGroup(group=row, before=before, is_different=before is None or is_changed)


def write_group(planned: PlannedGroup, *, by: Principal | None) -> None:
    """The row and its audit entry, where they are different. In a transaction; two queries."""
    if not planned.is_different:
        return
    group = planned.group
    if not planned.is_new:
        group.revision += 1
    group.save()
    record_all([_entry(planned, by)])


def write_groups(planned: Iterable[PlannedGroup], *, by: Principal | None) -> None:
    """``write_group`` of each, locked all of them; in a query for some hundreds."""
    different = [each for each in planned if each.is_different]
    changed = [each.group for each in different if not each.is_new]
    for group in changed:
        group.revision += 1
    insert_all([each.group for each in different if each.is_new])
    update_all(changed, (*_COLUMNS, "revision", "updated_at"))
    record_all([_entry(each, by) for each in different])


def _entry(planned: PlannedGroup, by: Principal | None) -> AuditEntry:
    group = planned.group
    old, new = difference(planned.before, settings_of(group, _COLUMNS))
    target = f"groups/{group.name}"
    return entry_of(by, group.namespace, "group.put", target, before=old, after=new)


@transaction.atomic
def pause_group(
    namespace: Namespace,
    name: str,
    *,
    is_paused: bool,
    revision: int | None = None,
    by: Principal | None = None,
) -> ConsumerGroup:
    """Let a group get nothing, or go on. Idempotent. One call to the engine.

    Raises Problem: GROUP_NOT_FOUND, PRECONDITION_FAILED, or what the engine's failure means.
    """
    lock_namespace(namespace)
    get_group(namespace, name)
    change = GroupChange(is_paused=is_paused)
    return put_group(namespace, name, change, revision=revision, by=by)[0]


@transaction.atomic
def delete_group(
    namespace: Namespace, name: str, *, revision: int | None = None, by: Principal | None = None
) -> None:
    """Delete a group with its progress, retries and dead letters. One call to the engine.

    Raises Problem: GROUP_NOT_FOUND, PRECONDITION_FAILED, or what the engine's failure means.
    """
    lock_namespace(namespace)
    group = get_group(namespace, name)
    _require_revision(group, revision)
    engine_name, before = group.engine_name, settings_of(group, _COLUMNS)
    group.delete()
    record(by, namespace, "group.delete", f"groups/{name}", before=before)
    try:
        with blocking_client() as client:
            client.group_delete(GroupRef(group=engine_name))
    except GroupNotFound:
        return  # an earlier call got this far
    except StoreError as exc:
        raise problem_from_store(exc) from exc


def put_in_engine(group: ConsumerGroup) -> None:
    """Make the engine know the group as the row says. Idempotent. Raises Problem."""
    try:
        with blocking_client() as client:
            client.group_put(config_of(group))
    except StoreError as exc:
        raise problem_from_store(exc) from exc


def config_of(group: ConsumerGroup) -> GroupConfig:
    """What the engine is to know of a group."""
    values = {column: getattr(group, column) for column in _COLUMNS}
    if not START_TIME.is_used(group):
        values[START_TIME.column] = START_TIME.default
    return msgspec.convert({"group": group.engine_name, **values}, GroupConfig)


def _require_revision(group: ConsumerGroup | None, revision: int | None) -> None:
    if revision is not None and (group is None or group.revision != revision):
        raise Problem.of(
            "PRECONDITION_FAILED", "the group has changed since the revision in If-Match"
        )


def _setting(pointer: str, detail: str) -> Problem:
    return refused(pointer, detail, "ILLEGAL_SETTING")


def _reject_broadcast_settings(group: ConsumerGroup) -> None:
    """Its clients drop what they cannot consume, and nobody shares queues."""
    if group.dispatch != Dispatch.BROADCAST:
        return
    for setting in SETTINGS:
        why = setting.not_in_broadcast
        if why and getattr(group, setting.column) != setting.stored_default:
            raise _setting(
                f"/{setting.name}", f"is not allowed with dispatch: broadcast, where {why}"
            )


def _lengthen_timeout(change: GroupChange, group: ConsumerGroup) -> None:
    """Where only a lease is given that is longer, it takes the timeout along."""
    lease_ms = change.find("lease_ms")
    if lease_ms is not None and change.find("consume_timeout_ms") is None:
        group.consume_timeout_ms = max(group.consume_timeout_ms, lease_ms)
