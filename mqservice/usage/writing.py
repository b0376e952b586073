"""Saves what was counted and measured: the only writer of the rows.

    UsageCounts ── every 10 s, each web process ──▶ [write_counts] ──┐
    engine ── bytes of topics, every minute ──▶ [measure_storage] ───┴──▶ rows of the hour

Both add to the hour in which they write. A tenant or namespace that is gone by then is left out.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import islice
from typing import Final

from asgiref.sync import sync_to_async
from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from mqservice.accounts.models import Namespace
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import HOUR_MS
from mqservice.lib.names import ENGINE_SEPARATOR, engine_name
from mqservice.lib.rows import delete_oldest
from mqservice.store import StoreClient, UsageRequest
from mqservice.topics.models import Topic
from mqservice.usage.counts import UsageBatch, UsageCounts, usage_counts
from mqservice.usage.limits import (
    DELETED_ROWS_MAX,
    RETAINED_MS,
    ROWS_MAX,
    STORAGE_TOPICS,
    WRITE_MS,
)
from mqservice.usage.models import UsageHour

log = logging.getLogger(__name__)

_KEYS: Final = "tenant_id, hour_ms, namespace, topic"
_COUNTS: Final = ("messages_in", "bytes_in", "messages_out", "bytes_out", "api_calls")
# In the order of their keys, so that two who write the same rows wait and do not block each other.
_WRITE: Final = (
    f"INSERT INTO usage_usagehour ({_KEYS}, {', '.join(_COUNTS)})"
    " SELECT counted.* FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[],"
    " %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])"
    f" AS counted ({_KEYS}, {', '.join(_COUNTS)})"
    " JOIN accounts_tenant ON accounts_tenant.id = counted.tenant_id"
    f" ORDER BY {_KEYS} ON CONFLICT ({_KEYS}) DO UPDATE SET "
    + ", ".join(f"{name} = usage_usagehour.{name} + excluded.{name}" for name in _COUNTS)
)
_MEASURED: Final = (
    f"INSERT INTO usage_usagehour ({_KEYS}, {', '.join(_COUNTS)}, storage_bytes_max)"
    " SELECT counted.tenant_id, counted.hour_ms, counted.namespace, counted.topic, 0, 0, 0, 0, 0,"
    " counted.bytes FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::bigint[])"
    f" AS counted ({_KEYS}, bytes)"
    " JOIN accounts_tenant ON accounts_tenant.id = counted.tenant_id"
    f" ORDER BY {_KEYS} ON CONFLICT ({_KEYS}) DO UPDATE SET storage_bytes_max ="
    " greatest(usage_usagehour.storage_bytes_max, excluded.storage_bytes_max)"
)


def write_counts(taken: UsageBatch, now_ms: int) -> int:
    """Add what was counted to the rows of this hour; how many. Two queries, none for nothing."""
    names = {topic.partition(ENGINE_SEPARATOR)[0] for topic in taken.topics}
    owners: dict[str, int] = {}
    if names:
        found = Namespace.objects.filter(name__in=names).values_list("name", "tenant_id")
        owners = dict(found)
    rows: list[tuple[int | str, ...]] = []
    hour_ms = _hour_of(now_ms)
    for full_name, numbers in taken.topics.items():
        namespace, _, topic = full_name.partition(ENGINE_SEPARATOR)
        if namespace in owners:
            rows.append((owners[namespace], hour_ms, namespace, topic, *numbers))
    rows += [(one, hour_ms, "", "", 0, 0, 0, 0, count) for one, count in taken.calls.items()]
    if not rows:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_WRITE, [list(column) for column in zip(*rows, strict=True)])
        return int(cursor.rowcount)


async def run(counts: UsageCounts = usage_counts, pause_ms: int = WRITE_MS) -> None:
    """Write what was counted, again and again until cancelled, and a last time then."""
    try:
        while True:
            await asyncio.sleep(pause_ms / 1_000)
            await _write(counts)
    finally:
        await asyncio.shield(_write(counts))


async def _write(counts: UsageCounts) -> None:
    taken = counts.drain()
    try:
        await sync_to_async(_write_on_thread)(taken)
    except (DatabaseError, InterfaceError) as exc:
        counts.put_back(taken)
        log.warning(
            "Could not write usage to the database; trying again",
            extra={"action": "usage_write_failed", "error": str(exc)},
        )


def _write_on_thread(taken: UsageBatch) -> None:
    try:
        write_counts(taken, SystemClock().now_ms())
    finally:
        if not connection.in_atomic_block:  # a test's transaction has to live on
            close_old_connections()


def measure_storage(client: StoreClient, now_ms: int) -> int:
    """Write down how much all topics of a shard hold; how many hold something. A call to the
    engine for each 1,000 topics. Raises ``StoreError`` or ``DatabaseError``.
    """
    hour_ms, measured_count = _hour_of(now_ms), 0
    topics = Topic.objects.filter(namespace__shard=client.shard).order_by("id")
    names_of = topics.values_list("namespace__tenant_id", "namespace__name", "name")
    rest = names_of.iterator(chunk_size=STORAGE_TOPICS)
    while part := list(islice(rest, STORAGE_TOPICS)):
        names = [engine_name(namespace=namespace, name=topic) for _, namespace, topic in part]
        reply = client.use(UsageRequest(topics=names))
        rows = [
            (tenant_id, hour_ms, namespace, topic, byte_count)
            for (tenant_id, namespace, topic), byte_count in zip(
                part, reply.topic_bytes, strict=True
            )
            if byte_count
        ]
        measured_count += len(rows)
        if rows:
            with connection.cursor() as cursor:
                cursor.execute(_MEASURED, [list(column) for column in zip(*rows, strict=True)])
    return measured_count


def clean_up(now_ms: int, *, rows_max: int = ROWS_MAX) -> int:
    """Drop hours that are too old, and the oldest where there are too many rows; how many went."""
    table = UsageHour._meta.db_table
    deleted_count = delete_oldest(
        table, "hour_ms < %s", [now_ms - RETAINED_MS], rows_max=DELETED_ROWS_MAX, by="hour_ms"
    )
    excess = UsageHour.objects.count() - rows_max
    if excess > 0:
        deleted_count += delete_oldest(
            table, "true", [], rows_max=min(excess, DELETED_ROWS_MAX), by="hour_ms"
        )
    return deleted_count


def _hour_of(now_ms: int) -> int:
    return now_ms - now_ms % HOUR_MS
