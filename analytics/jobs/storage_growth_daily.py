"""How much each topic stored day by day, compared with the day before.

    date, tenant, topic, kind │ record_count, stored_bytes, stored_bytes_before, growth_ratio

The first day of the range is compared with the report of the day before, where there is one.
``stored_bytes_before`` is 0 after a day without any, and null where nobody knows; then
``growth_ratio`` is null, too. Days without records are rows.
"""

from __future__ import annotations

import datetime as dt

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.days import Scope, dates_between
from analytics.jobs.frames import Frames
from analytics.schemas import Kind

NAME = "storage_growth_daily"
_TOPIC = ("tenant", "topic", "kind")


def transform(frames: Frames, scope: Scope) -> DataFrame:
    rows = frames.messages.where(scope.covers(F.col("store_ms")))
    rows = rows.where(F.col("kind") != Kind.DAMAGED)
    counted = rows.groupBy(*_TOPIC, scope.date_of(F.col("store_ms")).alias("date")).agg(
        F.count("*").alias("record_count"), F.sum("record_bytes").alias("stored_bytes")
    )
    first = scope.from_date
    if frames.growth_before is not None:
        first = scope.from_date - dt.timedelta(days=1)
        before = frames.growth_before.where(F.col("date") == first)
        counted = counted.unionByName(before.select(*counted.columns))
    dates = dates_between(first, scope.to_date)
    days = F.explode(F.array(*(F.lit(date) for date in dates)))
    grid = counted.select(*_TOPIC).distinct().select(*_TOPIC, days.alias("date"))
    same = [F.col(f"grid.{name}").eqNullSafe(F.col(f"counted.{name}")) for name in _TOPIC]
    same.append(F.col("grid.date") == F.col("counted.date"))
    dense = (
        grid.alias("grid")
        .join(counted.alias("counted"), same, "left")
        .select(
            *(F.col(f"grid.{name}") for name in ("date", *_TOPIC)),
            F.coalesce("record_count", F.lit(0)).alias("record_count"),
            F.coalesce("stored_bytes", F.lit(0)).alias("stored_bytes"),
        )
    )
    bytes_before = F.lag("stored_bytes").over(Window.partitionBy(*_TOPIC).orderBy("date"))
    compared = dense.withColumn("stored_bytes_before", bytes_before).withColumn(
        "growth_ratio", F.try_divide("stored_bytes", "stored_bytes_before")
    )
    return compared.where(F.col("date") >= F.lit(scope.from_date))
