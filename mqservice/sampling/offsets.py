"""Copies consumer offsets from the engine to PostgreSQL, with steps of their history.

    engine ── what changed since ──▶ pages ──▶ [persist] ──▶ rows and ``since``, one transaction

The engine's offsets are the truth and survive by themselves; the rows are for people. What could
not be written is asked for again with the same ``since``: an outage of PostgreSQL delays and loses
nothing, and what is written twice changes nothing. Two workers at once wait for each other.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from django.db import connection, transaction

from mqservice.accounts.models import Namespace
from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.lib.rows import delete_oldest
from mqservice.sampling.limits import (
    BATCH_PAGES,
    BATCHES_MAX,
    DELETED_ROWS_MAX,
    OFFSET_STEP_MS,
    OFFSET_STEP_ROWS_MAX,
    OFFSET_STEPS_RETAINED_MS,
    OFFSETS_PAGE_ROWS,
)
from mqservice.sampling.models import RETRY_TOPIC, ConsumerOffsetStep, OffsetFeedPlace
from mqservice.store import ChangedOffset, OffsetsChangedRequest, StoreClient

log = logging.getLogger(__name__)

_ANALYZED_ROWS = 1_000  # with fewer the planner's guess is good enough
# COPY and two joins take a quarter of the time that INSERT … ON CONFLICT takes for 100,000 rows.
_STAGE = """
CREATE TEMPORARY TABLE IF NOT EXISTS sampling_staged (
    namespace_id bigint, group_name text, topic text, queue_id integer, consumer_offset bigint,
    reset_count bigint
) ON COMMIT DELETE ROWS
"""
_COPY = "COPY sampling_staged FROM STDIN"
_MEMORY = "SET LOCAL work_mem = '32MB'"  # so that the joins need no temporary files
_UPDATE = """
UPDATE sampling_consumeroffset AS known SET
    consumer_offset = staged.consumer_offset, reset_count = staged.reset_count, changed_ms = %s
FROM sampling_staged AS staged
WHERE (known.namespace_id, known.group_name, known.topic, known.queue_id)
        = (staged.namespace_id, staged.group_name, staged.topic, staged.queue_id)
    AND (known.consumer_offset, known.reset_count)
        IS DISTINCT FROM (staged.consumer_offset, staged.reset_count)
"""
_INSERT = """
INSERT INTO sampling_consumeroffset
    (namespace_id, group_name, topic, queue_id, consumer_offset, reset_count, changed_ms)
SELECT staged.*, %s FROM sampling_staged AS staged
WHERE NOT EXISTS (
    SELECT FROM sampling_consumeroffset AS known
    WHERE (known.namespace_id, known.group_name, known.topic, known.queue_id)
        = (staged.namespace_id, staged.group_name, staged.topic, staged.queue_id)
)
"""

_STEP = """
INSERT INTO sampling_consumeroffsetstep
    (namespace_id, group_name, topic, queue_id, at_ms, consumer_offset, reset_count)
SELECT namespace_id, group_name, topic, queue_id, %(at_ms)s, consumer_offset, reset_count
FROM sampling_consumeroffset
WHERE changed_ms >= coalesce((SELECT max(at_ms) FROM sampling_consumeroffsetstep), 0)
ORDER BY changed_ms DESC
LIMIT %(rows_max)s
ON CONFLICT DO NOTHING
"""

_FORGET = """
DELETE FROM {table} WHERE id IN (
    SELECT known.id FROM {table} AS known
    WHERE NOT EXISTS (
        SELECT FROM groups_consumergroup AS real
        WHERE real.namespace_id = known.namespace_id
            AND real.name = split_part(known.group_name, '@', 1)
    )
    LIMIT %s
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Persisted:
    """``is_complete``: False when the engine has more to tell."""

    row_count: int
    is_complete: bool


def persist_offsets(
    client: StoreClient,
    now_ms: int,
    *,
    page_rows: int = OFFSETS_PAGE_ROWS,
    batch_pages: int = BATCH_PAGES,
) -> Persisted:
    """Write what has changed since the last time. One transaction for ``batch_pages`` pages.

    Raises ``StoreError`` or ``django.db.DatabaseError``; then the batches before it are kept.
    """
    row_count = 0
    for _ in range(BATCHES_MAX):
        batch_count, is_complete = _persist_batch(client, now_ms, page_rows, batch_pages)
        row_count += batch_count
        if is_complete:
            return Persisted(row_count=row_count, is_complete=True)
    return Persisted(row_count=row_count, is_complete=False)


def save_offset_step(now_ms: int) -> int:
    """Keep where the groups stand that have moved since the step before; the number of rows.

    Once in ``OFFSET_STEP_MS``: made again for the same step it adds nothing.
    """
    at_ms = now_ms - now_ms % OFFSET_STEP_MS
    with connection.cursor() as cursor:
        cursor.execute(_STEP, {"at_ms": at_ms, "rows_max": OFFSET_STEP_ROWS_MAX // 4})
        row_count: int = cursor.rowcount
        return row_count


def delete_old_offsets(now_ms: int, *, rows_max: int = OFFSET_STEP_ROWS_MAX) -> int:
    """Drop old steps, the oldest of too many, and what is left of deleted groups.

    The number of rows that went, at most a few times ``DELETED_ROWS_MAX``: what is left is for
    the next time.
    """
    steps = ConsumerOffsetStep._meta.db_table
    old = [now_ms - OFFSET_STEPS_RETAINED_MS]
    deleted_count = delete_oldest(steps, "at_ms < %s", old, rows_max=DELETED_ROWS_MAX)
    excess = ConsumerOffsetStep.objects.count() - rows_max
    if excess > 0:
        deleted_count += delete_oldest(steps, "true", [], rows_max=excess)
        log.warning(
            "Deleted old steps of consumer offsets early: there are more than the limit",
            extra={"action": "offset_steps_dropped", "count": excess},
        )
    with connection.cursor() as cursor:
        for table in ("sampling_consumeroffset", steps):
            cursor.execute(_FORGET.format(table=table), (DELETED_ROWS_MAX,))
            deleted_count += cursor.rowcount
    return deleted_count


@transaction.atomic
def _persist_batch(
    client: StoreClient, now_ms: int, page_rows: int, batch_pages: int
) -> tuple[int, bool]:
    broker = _broker_of(client)
    OffsetFeedPlace.objects.get_or_create(broker=broker)
    place = OffsetFeedPlace.objects.select_for_update().get(broker=broker)
    before = place.epoch, place.since
    rows: dict[tuple[str, str, int], ChangedOffset] = {}  # what changed meanwhile comes again
    is_complete = False
    for _ in range(batch_pages):
        page = client.offsets_changed(
            OffsetsChangedRequest(epoch=place.epoch, since=place.since, rows_max=page_rows)
        )
        rows.update({(row.group, row.topic, row.queue_id): row for row in page.rows})
        place.epoch, place.since = page.epoch, page.next
        is_complete = page.is_complete
        if is_complete:
            break
    if rows:
        _upsert(rows.values(), now_ms)
    if (place.epoch, place.since) != before:
        place.save(update_fields=["epoch", "since"])
    return len(rows), is_complete


def _broker_of(client: StoreClient) -> str:
    if client.hello is None:
        client.ping()
    assert client.hello is not None, "an answered call begins with a greeting"
    return client.hello.broker


def _upsert(rows: Collection[ChangedOffset], now_ms: int) -> None:
    parted = [row.group.partition(ENGINE_SEPARATOR) for row in rows]
    names = {namespace for namespace, _, _ in parted}
    ids = dict(Namespace.objects.filter(name__in=names).values_list("name", "id"))
    lines = [
        f"{ids[namespace]}\t{_escaped(group)}\t{_escaped(_topic_of(row.topic))}\t{row.queue_id}"
        f"\t{row.consumer_offset}\t{row.reset_count}\n"
        for row, (namespace, _, group) in zip(rows, parted, strict=True)
        if namespace in ids and group
    ]
    if not lines:
        return
    with connection.cursor() as cursor:
        cursor.execute(_STAGE)
        with cursor.copy(_COPY) as copy:
            copy.write("".join(lines))
        if len(lines) >= _ANALYZED_ROWS:
            cursor.execute("ANALYZE sampling_staged")
            cursor.execute(_MEMORY)
        cursor.execute(_UPDATE, (now_ms,))
        if cursor.rowcount < len(lines):  # some are new, or had been written before
            cursor.execute(_INSERT, (now_ms,))


def _escaped(name: str) -> str:
    """A name as a field of COPY. Tenants' names need none of it; a client's own might."""
    return name.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _topic_of(engine_topic: str) -> str:
    if engine_topic.startswith(RETRY_TOPIC):
        return RETRY_TOPIC
    return engine_topic.partition(ENGINE_SEPARATOR)[2]
