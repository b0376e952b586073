"""What each tenant is billed for: every produced message, once.

    date, tenant, topic │ message_count, body_bytes, record_bytes, stored_bytes

Retries, dead letters, redriven and due messages take the place of one that was counted already;
``stored_bytes`` has their bytes too, since they take room.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.days import Scope
from analytics.jobs.frames import Frames
from analytics.schemas import Kind

NAME = "usage_daily"


def transform(frames: Frames, scope: Scope) -> DataFrame:
    rows = frames.messages.where(scope.covers(F.col("store_ms")))
    rows = rows.where(F.col("kind") != Kind.DAMAGED)
    date = scope.date_of(F.col("store_ms")).alias("date")
    is_produced = F.col("is_produced")
    return rows.groupBy(date, "tenant", "topic").agg(
        F.count_if(is_produced).alias("message_count"),
        F.sum(F.when(is_produced, F.col("body_bytes")).otherwise(0)).alias("body_bytes"),
        F.sum(F.when(is_produced, F.col("record_bytes")).otherwise(0)).alias("record_bytes"),
        F.sum("record_bytes").alias("stored_bytes"),
    )
