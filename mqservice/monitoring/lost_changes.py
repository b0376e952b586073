"""Tells an engine that has taken a shard over which topics and groups the database has.

    shards_shard: checked_epoch < served_epoch ──▶ [restore_all] ── what differs ──▶ engine

A change of a topic or group is confirmed when the disk has it, and is in the replicated log within
250 ms. If the machine is lost before, the next owner does not know of it, while the database does:
the change is sent again. What was deleted in that time, as the audit says, is deleted again.
Anything else that the engine has and the database has not is left alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from django.db import transaction
from django.db.models import F

from mqservice.accounts.locks import lock_namespace
from mqservice.accounts.models import AuditEntry, Namespace
from mqservice.engine_rows import EngineRows
from mqservice.groups.services import ROWS as GROUPS
from mqservice.lib.names import ENGINE_SEPARATOR, engine_name
from mqservice.lib.problem import Problem
from mqservice.lib.shard_liveness import SILENT_MS
from mqservice.shards.models import Shard
from mqservice.shards.queries import heard
from mqservice.store import BadRequest, NoReplicatedLog, StoreClient, StoreError, blocking_client
from mqservice.topics.services import ROWS as TOPICS

log = logging.getLogger(__name__)

# Whether ``restore_all`` would find something, for one look at the database each second.
ANY_DUE: Final = f"""EXISTS (
    SELECT FROM shards_shard WHERE checked_epoch < served_epoch
    AND heartbeat_at >= now() - interval '{SILENT_MS} ms'
)"""

_Rows = EngineRows[Any, Any]  # of topics or of groups


def restore_all() -> None:
    """Of each shard whose engine was not looked at yet."""
    due = Shard.objects.filter(checked_epoch__lt=F("served_epoch")).order_by("name")
    for shard in heard(due):
        if not shard.is_heard:
            continue
        try:
            _restore(shard)
        except StoreError as exc:
            log.warning(
                "Could not compare topics and groups with the engine of a shard that was taken "
                "over; trying again soon",
                extra={
                    "action": "lost_changes_not_restored",
                    "shard": shard.name,
                    "error": type(exc).__name__,
                },
            )


def _restore(shard: Shard) -> None:
    """Raises ``StoreError``: the engine is away."""
    with blocking_client(shard.name) as client:
        client.close()  # it may be connected to the engine that had the shard before
        for rows in (TOPICS, GROUPS):
            put, deleted = _restore_rows(client, shard.name, rows)
            if put or deleted:
                log.warning(
                    "A machine was lost before the replicated log had all changes of topics and "
                    "groups; made them again in the engine that has taken over",
                    extra={
                        "action": "lost_changes_restored",
                        "shard": shard.name,
                        "kind": rows.kind,
                        "put": put,
                        "deleted": deleted,
                    },
                )
    Shard.objects.filter(pk=shard.pk, served_epoch=shard.served_epoch).update(
        checked_epoch=shard.served_epoch
    )


def _restore_rows(client: StoreClient, shard: str, rows: _Rows) -> tuple[int, int]:
    """How many were put and deleted."""
    known = dict(rows.list_in_engine(client))
    put: list[tuple[Namespace, str]] = []
    for row in rows.model.objects.filter(namespace__shard=shard).select_related("namespace"):
        if known.pop(row.engine_name, None) != rows.config_of(row):
            put.append((row.namespace, row.name))
    namespaces = {each.name: each for each in Namespace.objects.filter(shard=shard)}
    gone = [
        (namespaces[namespace], name)
        for namespace, _, name in (each.partition(ENGINE_SEPARATOR) for each in known)
        if namespace in namespaces
    ]
    return (
        sum(_is_done(_put, client, shard, rows, *each) for each in put),
        sum(_is_done(_delete, client, shard, rows, *each) for each in gone),
    )


def _is_done(
    change: Callable[[StoreClient, _Rows, Namespace, str], bool],
    client: StoreClient,
    shard: str,
    rows: _Rows,
    namespace: Namespace,
    name: str,
) -> bool:
    """Whether it was still to be done, while nobody else changes the namespace."""
    try:
        with transaction.atomic():
            lock_namespace(namespace)
            if not Namespace.objects.filter(pk=namespace.pk, shard=shard).exists():
                return False
            return change(client, rows, namespace, name)
    except Problem:  # the namespace was deleted
        return False
    except (BadRequest, NoReplicatedLog) as exc:
        log.error(
            "The engine that has taken a shard over rejects a topic or group that is in the "
            "database; change it, so that the engine accepts it",
            extra={
                "action": "lost_change_refused",
                "shard": shard,
                "kind": rows.kind,
                "name_in_engine": engine_name(namespace=namespace.name, name=name),
                "error": str(exc),
            },
        )
        return False


def _put(client: StoreClient, rows: _Rows, namespace: Namespace, name: str) -> bool:
    row = rows.find(namespace, name)
    if row is None:
        return False
    row.namespace = namespace
    rows.put_in_engine(client, row)
    return True


def _delete(client: StoreClient, rows: _Rows, namespace: Namespace, name: str) -> bool:
    """Only what somebody deleted, as far as the audit knows."""
    if rows.find(namespace, name) is not None:
        return False
    entries = AuditEntry.objects.filter(
        tenant=namespace.tenant_id, namespace=namespace.name, target=f"{rows.kind}s/{name}"
    )
    last = entries.order_by("-pk").first()
    if last is None or last.action != f"{rows.kind}.delete":
        return False
    rows.delete_in_engine(client, engine_name(namespace=namespace.name, name=name))
    return True
