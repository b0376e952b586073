"""How much was stored in each topic in each hour; hours without messages are rows with 0.

    tenant, log_topic, topic, kind, hour │ stored_count, produced_count, record_bytes, body_bytes

``stored_count`` counts all records of the topic, and over all hours it is what the engine's queues
say; ``produced_count`` leaves out those that took another one's place. ``hour`` is an instant, so
that the hour that a clock repeats in autumn is two rows.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.days import HOUR_MS, Scope, hour_of
from analytics.jobs.frames import Frames
from analytics.schemas import Kind

NAME = "throughput_hourly"
_TOPIC = ("tenant", "log_topic", "topic", "kind")


def transform(frames: Frames, scope: Scope) -> DataFrame:
    rows = frames.messages.where(scope.covers(F.col("store_ms")))
    rows = rows.where(F.col("kind") != Kind.DAMAGED)
    # A retry topic holds messages of many topics: it is one topic of the engine all the same.
    is_of_group = F.col("group").isNotNull()
    rows = rows.withColumn("topic", F.when(~is_of_group, F.col("topic")))
    counted = rows.groupBy(*_TOPIC, hour_of(F.col("store_ms")).alias("hour")).agg(
        F.count("*").alias("stored_count"),
        F.count_if("is_produced").alias("produced_count"),
        F.sum("record_bytes").alias("record_bytes"),
        F.sum("body_bytes").alias("body_bytes"),
    )
    first_ms = scope.from_ms // HOUR_MS * HOUR_MS
    hours = F.sequence(F.lit(first_ms), F.lit(scope.to_ms - 1), F.lit(HOUR_MS))
    grid = counted.select(*_TOPIC).distinct()
    grid = grid.select(*_TOPIC, F.explode(hours).alias("_hour_ms"))
    grid = grid.withColumn("hour", F.timestamp_millis("_hour_ms"))
    same = [F.col(f"grid.{name}").eqNullSafe(F.col(f"counted.{name}")) for name in _TOPIC]
    same.append(F.col("grid.hour") == F.col("counted.hour"))
    found = grid.alias("grid").join(counted.alias("counted"), same, "left")
    sums = ("stored_count", "produced_count", "record_bytes", "body_bytes")
    return found.select(
        scope.date_of(F.unix_millis("grid.hour")).alias("date"),
        *(F.col(f"grid.{name}") for name in (*_TOPIC, "hour")),
        *(F.coalesce(f"counted.{name}", F.lit(0)).alias(name) for name in sums),
    )
