"""Exports for Spark what only PostgreSQL knows: the lag of each group over time.

    group samples ──▶ [write_lag_samples] ──▶ CSV: sampled_at_ms, tenant, group, topic, …

A row is a group on a topic over all its queues: what it had still to do, with what waited for a
retry, as the engine counted it; empty where nobody knew. Minutes are kept for a day; of hours
before that one row tells the greatest lag, which is all that is left of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from django.db.models import Min

from mqservice.lib.csv_cells import write_csv
from mqservice.lib.durations import HOUR_MS, MINUTE_MS
from mqservice.sampling.models import GroupSample

COLUMNS: Final = (
    "sampled_at_ms", "tenant", "group", "topic", "lag", "lag_ms",
)  # fmt: skip
_CHUNK: Final = 5_000
_FIELDS: Final = (
    "at_ms", "namespace__name", "group_name", "topic", "lag_ms_max",
)  # fmt: skip


def write_lag_samples(path: Path, from_ms: int, to_ms: int) -> int:
    """How many rows were written. Three queries; memory is that of one chunk."""
    return write_csv(path, COLUMNS, _samples(from_ms, to_ms))


def _samples(from_ms: int, to_ms: int) -> Iterator[tuple[Any, ...]]:
    """Any: as ``COLUMNS``."""
    minutes = GroupSample.objects.filter(resolution_ms=MINUTE_MS)
    oldest_ms = minutes.aggregate(at=Min("at_ms"))["at"]
    # The first whole hour of minutes; all of the range when there are none.
    minutes_from_ms = to_ms if oldest_ms is None else -(-oldest_ms // HOUR_MS) * HOUR_MS
    border_ms = min(max(minutes_from_ms, from_ms), to_ms)
    spans = ((HOUR_MS, "lag_max", from_ms, border_ms), (MINUTE_MS, "lag_last", border_ms, to_ms))
    for resolution_ms, lag_field, begin_ms, end_ms in spans:
        rows = GroupSample.objects.filter(
            resolution_ms=resolution_ms, at_ms__gte=begin_ms, at_ms__lt=end_ms
        ).exclude(topic="")
        found = rows.values_list(*_FIELDS, lag_field).iterator(chunk_size=_CHUNK)
        for *sample, lag_ms, lag in found:
            yield *sample, lag, lag_ms
