"""One run: ingests the days into the lake, then writes every report of them; also for any requested
range.

    sources ── ingest ──▶ lake ──▶ frames ── jobs ──▶ out/<job>, a Parquet table by date

Each day of each report is replaced whole; running again gives the same rows. A job that fails stops
the run: what was done before stays, the others keep what they had.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.dataset import Dataset
from analytics.days import Scope, dates_between
from analytics.ingest import DEFAULTS, IngestOptions, ingest, messages_table
from analytics.jobs import (
    consumer_lag_hourly,
    delivery_latency_daily,
    dlq_daily,
    key_skew_daily,
    retry_depth_daily,
    storage_growth_daily,
    throughput_hourly,
    usage_daily,
)
from analytics.jobs.frames import Frames
from analytics.rows import write_rows
from analytics.schemas import LAG_SAMPLES, SETTLES, Kind
from analytics.shards import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

JOBS: Final[dict[str, ModuleType]] = {
    job.NAME: job
    for job in (
        throughput_hourly,
        usage_daily,
        storage_growth_daily,
        retry_depth_daily,
        dlq_daily,
        key_skew_daily,
        consumer_lag_hourly,
        delivery_latency_daily,
    )
}
# These say something only of what PostgreSQL has noted down.
NEEDS: Final = {
    consumer_lag_hourly.NAME: "lag_samples",
    delivery_latency_daily.NAME: "settles",
}
_HISTORY_DAYS: Final = 30
# A message may be settled long after it was stored.
_LATENCY_DAYS: Final = 7


@dataclass(frozen=True, kw_only=True)
class ReportRun:
    """What is to be done. ``lag_samples`` and ``settles`` are paths of exports, or empty.

    ``rows``: a file of this machine that gets the rows of all reports as lines of JSON, or empty.
    """

    scope: Scope
    lake: str
    out: str
    sources: tuple[Source, ...]
    ingest: IngestOptions = DEFAULTS
    jobs: tuple[str, ...] = ()
    lag_samples: str = ""
    settles: str = ""
    rows: str = ""

    def reports(self) -> list[str]:
        """The jobs that are to be done, in this order."""
        wanted = self.jobs or tuple(JOBS)
        return [name for name in wanted if name not in NEEDS or getattr(self, NEEDS[name])]


@dataclass(frozen=True)
class RunOutcome:
    """Manifests of the lake's days by shard, and of the reports. Any: what a manifest holds."""

    ingested: dict[str, list[dict[str, Any]]]
    reports: dict[str, list[dict[str, Any]]]


def run(
    spark: SparkSession,
    what: ReportRun,
    *,
    now_ms: int,
    tell: Callable[[str, int, int], None] = lambda step, done, total: None,
) -> RunOutcome:
    """See the module's docstring. Raises ``StoreError`` when the log cannot be read.

    ``tell(step, done_count, total_count)`` is called before each step, and ends the run by raising.
    """
    scope = what.scope
    names = what.reports()
    total = len(what.sources) + len(names)
    ingested: dict[str, list[dict[str, Any]]] = {}
    for source in what.sources:
        tell("ingest", len(ingested), total)
        dates = scope.utc_dates()
        days = ingest(spark, what.lake, dates, source, what.ingest, now_ms=now_ms)
        ingested[source.shard] = days
        log.info("Ingested messages", extra={"action": "messages_ingested", "shard": source.shard})
    frames = read_frames(spark, what)
    # A day has millions of spans, and one report asks for them three times.
    frames.settles.persist()
    reports = {}
    for done, name in enumerate(names, len(what.sources)):
        tell(name, done, total)
        reports[name] = write_report(spark, what.out, name, frames, scope)
        if what.rows:
            table = report_table(spark, what.out, name, None)
            with open(what.rows, "a", encoding="utf-8") as file:
                write_rows(file, name, table.read(scope.dates()), scope.dates())
        log.info("Report written", extra={"action": "report_written", "report": name})
    frames.settles.unpersist()
    return RunOutcome(ingested, reports)


def read_frames(spark: SparkSession, what: ReportRun) -> Frames:
    """The tables that jobs of the scope may need; nothing is read before somebody uses it."""
    dates = what.scope.utc_dates()
    before = dates[0] - dt.timedelta(days=_HISTORY_DAYS)
    history = _messages(spark, what, dates_between(before, dates[0]))
    history = history.where(F.col("kind") == Kind.DEAD_LETTER)
    older = dates_between(dates[0] - dt.timedelta(days=_LATENCY_DAYS), dates[0])
    messages = _messages(spark, what, [*older, *dates] if what.settles else dates)
    return Frames(
        messages=messages,
        history=history.where(F.col("store_ms") < what.scope.from_ms),
        lag_samples=_export(spark, what.lag_samples, LAG_SAMPLES),
        settles=_export(spark, what.settles, SETTLES),
        growth_before=_growth_before(spark, what),
    )


def _messages(spark: SparkSession, what: ReportRun, dates: list[dt.date]) -> DataFrame:
    """Of all shards. A namespace lives in one, so that no two have rows of one queue."""
    tables = [messages_table(spark, what.lake, source.shard) for source in what.sources]
    return reduce(DataFrame.unionByName, [table.read(dates) for table in tables])


def _growth_before(spark: SparkSession, what: ReportRun) -> DataFrame | None:
    date = what.scope.from_date - dt.timedelta(days=1)
    table = report_table(spark, what.out, storage_growth_daily.NAME, None) if what.out else None
    facts = None if table is None else table.facts(date)
    if table is None or facts is None or not facts["row_count"]:
        return None
    return table.read([date])


def report_table(spark: SparkSession, out: str, name: str, schema: StructType | None) -> Dataset:
    return Dataset(spark, f"{out.rstrip('/')}/{name}", schema)


def write_report(
    spark: SparkSession, out: str, name: str, frames: Frames, scope: Scope
) -> list[dict[str, Any]]:
    """Every day of one report; its manifests. Any: what a manifest holds."""
    rows = JOBS[name].transform(frames, scope).persist()
    try:
        plain = rows.drop("date")
        table = report_table(spark, out, name, plain.schema)
        return [
            table.replace(
                date, rows.where(F.col("date") == date).drop("date").coalesce(1), {"report": name}
            )
            for date in scope.dates()
        ]
    finally:
        rows.unpersist()


def _export(spark: SparkSession, path: str, schema: StructType) -> DataFrame:
    """Rows that PostgreSQL exported: Parquet, or CSV with a header; empty without a path.

    A CSV says by its header which column is which, so that its order does not matter.
    """
    if not path:
        return spark.createDataFrame([], schema)
    if path.endswith((".csv", ".csv.gz")):
        texts = spark.read.option("header", "true").csv(path)
        _check_columns(path, texts.columns, schema)
        return texts.select(
            *(F.col(field.name).cast(field.dataType).alias(field.name) for field in schema)
        )
    found = spark.read.parquet(path)
    _check_columns(path, found.columns, schema)
    return found.select(schema.names)


def _check_columns(path: str, found: list[str], schema: StructType) -> None:
    missing = [name for name in schema.names if name not in found]
    if missing:
        raise ValueError(f"{path} has no columns {missing}; it has {found}")
