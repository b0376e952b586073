"""Exports for Spark when messages were delivered and settled, as far as marks tell.

    progress marks ──▶ [write_settles] ──▶ CSV: tenant, group, topic, queue_id, what, from_offset, …

A row is a range of one queue: what two marks have between them moved after ``after_ms`` and not
after ``before_ms``. Ranges of a queue never overlap: what is delivered and settled once more after
a reset is not counted again, and what a reset passed over was neither. What a group did before its
first mark is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from django.db import connection

from mqservice.lib.csv_cells import write_csv
from mqservice.lib.durations import HOUR_MS
from mqservice.sampling.limits import MARKS_RETAINED_MS
from mqservice.sampling.models import RETRY_TOPIC
from mqservice.sampling.progress_marks import QueuePosition, decode_positions

COLUMNS: Final = (
    "tenant", "group", "topic", "queue_id", "what", "from_offset", "to_offset", "after_ms",
    "before_ms",
)  # fmt: skip
DELIVERED: Final = "delivered"
SETTLED: Final = "settled"
_CHUNK: Final = 2_000
# A mark is made long before so much time has passed, and tells what happened before it.
_BEHIND_MS: Final = HOUR_MS
# Where each group stood when the range begins, and all its marks from there on.
_MARKS: Final = """
SELECT name, group_name, topic, after_ms, at_ms, places FROM (
    SELECT DISTINCT ON (namespace_id, group_name, topic)
        namespace_id, group_name, topic, after_ms, at_ms, places
    FROM sampling_progressmark WHERE at_ms < %(from)s
    ORDER BY namespace_id, group_name, topic, at_ms DESC
) AS before JOIN accounts_namespace ON accounts_namespace.id = namespace_id
UNION ALL
SELECT name, group_name, topic, after_ms, at_ms, places FROM sampling_progressmark
    JOIN accounts_namespace ON accounts_namespace.id = namespace_id
    WHERE at_ms >= %(from)s AND at_ms < %(to)s
ORDER BY 1, 2, 3, 5
"""


def are_marks_available(from_ms: int, now_ms: int) -> bool:
    """Whether all marks of a range that begins then are still there."""
    return from_ms >= now_ms - MARKS_RETAINED_MS


def write_settles(path: Path, from_ms: int, to_ms: int) -> int:
    """How many ranges were written. One query; memory is that of one group's queues."""
    return write_csv(path, COLUMNS, _ranges(from_ms, to_ms))


def _ranges(from_ms: int, to_ms: int) -> Iterator[tuple[Any, ...]]:
    """Any: as ``COLUMNS``."""
    for (tenant, group, topic), marks in groupby(_marks(from_ms, to_ms), key=lambda m: m[:3]):
        # Each group has retry queues of its own; they are queues of no topic of the tenant.
        name = topic + group if topic == RETRY_TOPIC else topic
        for row in ranges_of(marks, from_ms):
            yield tenant, group, name, *row


def _marks(from_ms: int, to_ms: int) -> Iterator[tuple[Any, ...]]:
    """Any: columns of the query."""
    with connection.chunked_cursor() as cursor:
        cursor.execute(_MARKS, {"from": from_ms, "to": to_ms + _BEHIND_MS})
        while rows := cursor.fetchmany(_CHUNK):
            yield from rows


def ranges_of(marks: Iterator[tuple[Any, ...]], from_ms: int) -> Iterator[tuple[Any, ...]]:
    """(queue_id, what, from_offset, to_offset, after_ms, before_ms); Any: texts and numbers."""
    known: dict[int, QueuePosition] = {}
    highest: dict[tuple[int, str], int] = {}
    for *_, after_ms, at_ms, blob in marks:
        for place in decode_positions(blob):
            old = known.get(place.queue_id)
            known[place.queue_id] = place
            # What was set was not reached: another count of resets begins anew from here.
            is_reached = old is not None and old.reset_count == place.reset_count
            for what, offset in (
                (DELIVERED, place.delivered_offset),
                (SETTLED, place.consumer_offset),
            ):
                key = place.queue_id, what
                first = highest.get(key, offset)
                highest[key] = max(first, offset)
                if is_reached and offset > first and at_ms >= from_ms:
                    yield place.queue_id, what, first, offset, after_ms, at_ms
