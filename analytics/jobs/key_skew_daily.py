"""Which keys make a topic's queues uneven: the most frequent ones, and the fullest queue.

    date, tenant, topic, key_kind, rank │ key, message_count, share, key_count,
                                        │ queue_count, fullest_queue_share

``key_kind``: ``message_group``, which decides on the queue, or ``key``. ``share`` is of the topic's
messages of the day. ``queue_count`` counts queues that got messages; without skew the fullest one
has 1 / ``queue_count`` of them. At most ``RANKS_MAX`` rows a topic and kind.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from analytics.days import Scope
from analytics.jobs.frames import Frames

NAME = "key_skew_daily"
RANKS_MAX = 20
_TOPIC = ("date", "tenant", "topic")


def transform(frames: Frames, scope: Scope) -> DataFrame:
    rows = frames.messages.where(scope.covers(F.col("store_ms"))).where("is_produced")
    rows = rows.withColumn("date", scope.date_of(F.col("store_ms")))
    queues = rows.groupBy(*_TOPIC, "log_topic", "queue_id").agg(F.count("*").alias("_in_queue"))
    topics = queues.groupBy(*_TOPIC).agg(
        F.sum("_in_queue").alias("_total"),
        F.count("*").alias("queue_count"),
        F.max("_in_queue").alias("_fullest"),
    )
    kinds = F.explode(
        F.concat(
            F.array(_key("message_group", F.col("message_group"))),
            F.transform(
                F.coalesce("keys", F.array().cast("array<string>")), lambda key: _key("key", key)
            ),
        )
    )
    keys = rows.select(*_TOPIC, kinds.alias("_key")).where(F.col("_key.key").isNotNull())
    counted = keys.groupBy(*_TOPIC, "_key.key_kind", "_key.key").agg(
        F.count("*").alias("message_count")
    )
    within = Window.partitionBy(*_TOPIC, "key_kind")
    ranked = counted.withColumns(
        {
            "key_count": F.count("*").over(within),
            "rank": F.row_number().over(within.orderBy(F.desc("message_count"), "key")),
        }
    ).where(F.col("rank") <= RANKS_MAX)
    same = [F.col(f"ranked.{name}").eqNullSafe(F.col(f"topics.{name}")) for name in _TOPIC]
    return (
        ranked.alias("ranked")
        .join(topics.alias("topics"), same)
        .select(
            *(F.col(f"ranked.{name}") for name in _TOPIC),
            "key_kind",
            "rank",
            "key",
            "message_count",
            (F.col("message_count") / F.col("_total")).alias("share"),
            "key_count",
            "queue_count",
            (F.col("_fullest") / F.col("_total")).alias("fullest_queue_share"),
        )
    )


def _key(kind: str, key: Column) -> Column:
    return F.struct(F.lit(kind).alias("key_kind"), key.alias("key"))
