"""How often messages were redelivered, by group and topic.

    date, tenant, group, topic, depth │ message_count

``depth`` is which delivery the retry is for: 1 for the first one after the message itself. A retry
counts on the day on which it can be delivered again.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.days import Scope
from analytics.jobs.frames import Frames
from analytics.schemas import Kind

NAME = "retry_depth_daily"


def transform(frames: Frames, scope: Scope) -> DataFrame:
    rows = frames.messages.where(scope.covers(F.col("store_ms")))
    return (
        rows.where(F.col("kind") == Kind.RETRY)
        .groupBy(
            scope.date_of(F.col("store_ms")).alias("date"),
            "tenant",
            "group",
            "topic",
            F.col("reconsume_times").alias("depth"),
        )
        .agg(F.count("*").alias("message_count"))
    )
