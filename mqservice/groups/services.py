"""Changes consumer groups: what a change of one means, and what the engine is to know of it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import msgspec
from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.locks import lock_namespace
from mqservice.accounts.models import Namespace
from mqservice.engine_rows import EngineRows, Planned
from mqservice.groups.assignment import assignment_of, check_assignment
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.queries import get_group
from mqservice.groups.settings import SETTINGS, START_TIME
from mqservice.lib.durations import format_duration_ms
from mqservice.lib.problem import Problem
from mqservice.lib.settings_table import Change, columns_of
from mqservice.lib.wire import refused
from mqservice.protocol.choices import Dispatch, StartFrom
from mqservice.store import BadRequest, GroupConfig, GroupNotFound, GroupRef, StoreClient, Strategy
from mqservice.topics.services import forget_policy
from mqservice.topics.settings import QUEUES


class GroupChange(Change):
    """What to set, in range."""

    settings = SETTINGS


class GroupRows(EngineRows[ConsumerGroup, GroupChange]):
    """See ``engine_rows``."""

    kind = "group"
    model = ConsumerGroup
    settings = SETTINGS

    def find(self, namespace: Namespace, name: str) -> ConsumerGroup | None:
        return ConsumerGroup.objects.filter(namespace=namespace, name=name).first()

    def apply(self, change: GroupChange, row: ConsumerGroup, *, is_new: bool) -> bool:
        _lengthen_timeout(change, row)
        is_changed = bool(change.apply(row))
        if row.start_from == StartFrom.TIMESTAMP and not row.start_ms:
            raise _setting("/start_time", "give the time from which the group reads")
        if change.find("start_ms") is not None and row.start_from != StartFrom.TIMESTAMP:
            raise _setting("/start_time", "is only for start_from: timestamp")
        try:
            check_assignment(assignment_of(row.assignment), Strategy(row.strategy), QUEUES.high)
        except BadRequest as exc:
            raise _setting("/assignment", str(exc)) from exc
        if row.lease_ms > row.consume_timeout_ms:
            lease = format_duration_ms(row.lease_ms)
            raise _setting("/consume_timeout", f"must not be less than the lease, which is {lease}")
        _reject_broadcast_settings(row)
        return is_changed

    def config_of(self, row: ConsumerGroup) -> GroupConfig:
        values = {column: getattr(row, column) for column in columns_of(SETTINGS)}
        if not START_TIME.is_used(row):
            values[START_TIME.key] = START_TIME.default
        return msgspec.convert({"group": row.engine_name, **values}, GroupConfig)

    def list_in_engine(self, client: StoreClient) -> Mapping[str, GroupConfig]:
        return {each.group: each for each in client.group_list().groups}

    def put_in_engine(self, client: StoreClient, row: ConsumerGroup) -> None:
        client.group_put(self.config_of(row))

    def delete_in_engine(self, client: StoreClient, engine_name: str) -> None:
        with contextlib.suppress(GroupNotFound):
            client.group_delete(GroupRef(group=engine_name))

    def deleted(self, namespace: Namespace, name: str) -> None:
        forget_policy(namespace, name)


ROWS = GroupRows()
put_group, delete_group, plan_group, write_groups = ROWS.put, ROWS.delete, ROWS.plan, ROWS.write
PlannedGroup = Planned[ConsumerGroup]


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


def _setting(pointer: str, detail: str) -> Problem:
    return refused(pointer, detail, "ILLEGAL_SETTING")


def _reject_broadcast_settings(group: ConsumerGroup) -> None:
    """Its clients drop what they cannot consume, and nobody shares queues."""
    if group.dispatch != Dispatch.BROADCAST:
        return
    for setting in SETTINGS:
        why = setting.not_in_broadcast
        if why and getattr(group, setting.key) != setting.stored_default:
            raise _setting(
                f"/{setting.name}", f"is not allowed with dispatch: broadcast, where {why}"
            )


def _lengthen_timeout(change: GroupChange, group: ConsumerGroup) -> None:
    """Where only a lease is given that is longer, it takes the timeout along."""
    lease_ms = change.find("lease_ms")
    if lease_ms is not None and change.find("consume_timeout_ms") is None:
        group.consume_timeout_ms = max(group.consume_timeout_ms, lease_ms)
