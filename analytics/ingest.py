"""Ingests days of the log into the lake: exactly its records, each once, however often it runs.

    store ── mqlog ──▶ [ingest] ── messages_of ──▶ lake/messages, by date (UTC) and tenant
    copy of the shard s2 ─────────▶ [ingest] ──▶ lake/shards/s2/messages

Each shard has a table of its own, since its offsets are its own and its days are complete when it
says. Only durable records are taken: those below a snapshot's end, else below the checkpoint. A day
is ``is_complete`` when it was over and all of it in the log by then, and is not read again. What
retention has deleted of the log meanwhile is taken over from the lake's own version of the day.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from analytics.dataset import Dataset
from analytics.days import start_ms
from analytics.messages import messages_of
from analytics.schemas import MESSAGES, TENANT
from analytics.shards import MAIN_SHARD, Source
from analytics.source import FORMAT, Extent, find_extent, first_store_ms, store_ms_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE: Final = "messages"
# A put that is on its way to the disk when its day ends is there by then.
_SETTLING_MS: Final = 10 * 60 * 1_000


@dataclass(frozen=True, kw_only=True)
class IngestOptions:
    """``again``: complete days too."""

    again: bool = False
    checks_crcs: bool = True


DEFAULTS: Final = IngestOptions()


def messages_table(spark: SparkSession, lake: str, shard: str) -> Dataset:
    place = lake.rstrip("/") if shard == MAIN_SHARD else f"{lake.rstrip('/')}/shards/{shard}"
    return Dataset(spark, f"{place}/{TABLE}", MESSAGES, (TENANT,))


def ingest(
    spark: SparkSession,
    lake: str,
    dates: list[dt.date],
    source: Source,
    options: IngestOptions = DEFAULTS,
    *,
    now_ms: int,
) -> list[dict[str, Any]]:
    """Bring the days (of UTC) up to date; their manifests. Any: what a manifest holds.

    Nothing is taken from a source without a store. Raises ``StoreError`` when the log cannot be
    read; days done before that stay done.
    """
    table = messages_table(spark, lake, source.shard)
    if source.store is None:
        return [table.facts(date) or _unknown(date) for date in dates]
    store = Path(source.store)
    as_of_ms = now_ms if source.as_of_ms is None else source.as_of_ms
    extent = find_extent(store, end_offset=source.end_offset, with_tail=False)
    log_from_ms = _log_from_ms(extent)
    # What is in the log and not taken yet may belong to a day that is over.
    waiting_from_ms = store_ms_at(find_extent(store), extent.end_offset)
    done = []
    for date in dates:
        known = table.facts(date)
        if known is not None and known["is_complete"] and not options.again:
            done.append(known)
            continue
        day_ms, end_ms = start_ms(date), start_ms(date + dt.timedelta(days=1))
        is_begun = extent.start_offset == 0 or (log_from_ms is not None and log_from_ms < day_ms)
        rows = messages_of(_records(spark, store, options, extent, day_ms, end_ms))
        kept_offset = extent.start_offset
        if not is_begun and known is not None:
            older = table.read([date]).drop("date")
            rows = rows.unionByName(older.where(F.col("physical_offset") < extent.start_offset))
            kept_offset = min(kept_offset, known["start_offset"])
            is_begun = known["is_begun"] and known["end_offset"] >= extent.start_offset
        is_over = as_of_ms >= end_ms + _SETTLING_MS
        is_all_taken = waiting_from_ms is None or waiting_from_ms >= end_ms
        facts = {
            "start_offset": kept_offset,
            "end_offset": extent.end_offset,
            "is_begun": is_begun,
            "is_complete": is_begun and is_over and is_all_taken,
        }
        done.append(table.replace(date, rows, facts))
    return done


def _unknown(date: dt.date) -> dict[str, Any]:
    """A day of which the lake has nothing. Any: what a manifest holds."""
    return {"date": date.isoformat(), "row_count": 0, "is_complete": False}


def _records(
    spark: SparkSession,
    store: Path,
    options: IngestOptions,
    extent: Extent,
    from_ms: int,
    to_ms: int,
) -> DataFrame:
    return (
        spark.read.format(FORMAT)
        .option("endOffset", extent.end_offset)
        .option("checkCrcs", str(options.checks_crcs).lower())
        .option("showDamage", "true")
        .option("fromMs", from_ms)
        .option("toMs", to_ms)
        .load(str(store))
    )


def _log_from_ms(extent: Extent) -> int | None:
    """When the oldest record that is left was stored."""
    found = (first_store_ms(segment) for segment in extent.segments)
    return next((stamp for stamp in found if stamp is not None), None)
