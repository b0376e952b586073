"""Aggregates fine samples into coarser ones, and deletes those that are too old.

    10 s, kept 1 h ──▶ 1 min, kept 1 day ──▶ 1 h, kept 90 days

A coarser row is always made of all finer rows of its span, so making it again changes nothing. A
span is rolled up when it is over and its last sample had time to be written; finer rows go only
after they were rolled up.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from django.db import connection
from django.db.models import UniqueConstraint

from mqservice.lib.rows import delete_oldest
from mqservice.sampling.limits import DELETED_ROWS_MAX, LATE_MS, RESOLUTIONS_MS, RETAINED_MS
from mqservice.sampling.models import GroupSample, Sample, StoreSample, TopicSample


@dataclass(frozen=True, slots=True)
class Series:
    """A table of samples: whose they are, and the columns that are put together."""

    table: str
    keys: list[str]
    columns: list[str]

    @classmethod
    def of(cls, model: type[Sample]) -> Series:
        [unique] = model._meta.constraints
        assert isinstance(unique, UniqueConstraint)
        columns = {
            field.name: field.attname
            for field in model._meta.concrete_fields
            if field.name not in ("id", "resolution_ms", "at_ms")
        }
        keys = [columns.pop(name) for name in unique.fields if name in columns]
        return cls(model._meta.db_table, keys, list(columns.values()))


SERIES: Final = tuple(Series.of(model) for model in (GroupSample, TopicSample, StoreSample))

# By the end of a column's name.
_AGGREGATES: Final = {
    "count": "sum({0})",
    "sum": "sum({0})",
    "max": "max({0})",
    "min": "min({0})",
    "last": "(array_agg({0} ORDER BY at_ms DESC) FILTER (WHERE {0} IS NOT NULL))[1]",
}


def roll_up(now_ms: int) -> int:
    """Make all coarser samples whose spans are over; the number of rows made or made again."""
    made_count = 0
    for series in SERIES:
        for fine_ms, coarse_ms in pairwise(RESOLUTIONS_MS):
            made_count += _roll_up(series, fine_ms, coarse_ms, now_ms)
    return made_count


def delete_old_samples(now_ms: int) -> int:
    """Drop samples that are too old, ``DELETED_ROWS_MAX`` of each kind at most; how many went."""
    deleted_count = 0
    coarser = dict(pairwise(RESOLUTIONS_MS))
    for series in SERIES:
        for resolution_ms in RESOLUTIONS_MS:
            end_ms = now_ms - RETAINED_MS[resolution_ms]
            if resolution_ms in coarser:
                end_ms = min(end_ms, _newest(series, coarser[resolution_ms]))
            deleted_count += delete_oldest(
                series.table,
                "resolution_ms = %s AND at_ms < %s",
                [resolution_ms, end_ms],
                rows_max=DELETED_ROWS_MAX,
            )
    return deleted_count


def _roll_up(series: Series, fine_ms: int, coarse_ms: int, now_ms: int) -> int:
    # From the newest one on, which may have been made before a late sample was written.
    from_ms = _newest(series, coarse_ms)
    over_ms = now_ms - LATE_MS
    to_ms = over_ms - over_ms % coarse_ms
    keys, columns = ", ".join(series.keys), ", ".join(series.columns)
    made = ", ".join(_aggregate(column) for column in series.columns)
    updated = ", ".join(f"{column} = excluded.{column}" for column in series.columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {series.table} ({keys}, resolution_ms, at_ms, {columns})"
            f" SELECT {keys}, %(coarse)s, at_ms - at_ms %% %(coarse)s, {made}"
            f" FROM {series.table}"
            " WHERE resolution_ms = %(fine)s AND at_ms >= %(from)s AND at_ms < %(to)s"
            f" GROUP BY {keys}, at_ms - at_ms %% %(coarse)s"
            f" ON CONFLICT ({keys}, resolution_ms, at_ms) DO UPDATE SET {updated}",
            {"coarse": coarse_ms, "fine": fine_ms, "from": from_ms, "to": to_ms},
        )
        made_count: int = cursor.rowcount
        return made_count


def _newest(series: Series, resolution_ms: int) -> int:
    """Where the newest span of a resolution begins; 0 when there is none."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT coalesce(max(at_ms), 0) FROM {series.table} WHERE resolution_ms = %s",
            (resolution_ms,),
        )
        return int((cursor.fetchone() or (0,))[0])


def _aggregate(column: str) -> str:
    return _AGGREGATES[column.rpartition("_")[2]].format(column)
