"""Which messages were dead-lettered, why, at what age, and what happened to them.

    date, tenant, group, topic, reason │ message_count, attempts_max, age_ms_p50, age_ms_p95,
                                       │ age_ms_max, redriven_count, is_new_reason, top_keys

``reason``: the cause (``cause_of``), without what differs from message to message, such as numbers
and ids: reasons as they were written may be as many as there are messages. Age: from the first
delivery to the dead letter. ``redriven_count``: those of the day that were sent on their way again
within the range. ``is_new_reason``: the group had it on no day before, as far as the history
reaches. ``top_keys``: up to five pairs of key and count, most first.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from analytics.days import Scope
from analytics.jobs.frames import Frames
from analytics.schemas import Kind
from storage_engine.reader import cause_of

NAME = "dlq_daily"
_REASON = ("tenant", "group", "topic", "reason")
_PLACE = ("log_topic", "queue_id", "queue_offset")
TOP_KEYS = 5
_PERCENTILES = (0.5, 0.95)
_ACCURACY = 10_000
_cause = F.udf(cause_of, StringType(), useArrow=False)  # few letters, each with little text


def transform(frames: Frames, scope: Scope) -> DataFrame:
    in_scope = frames.messages.where(scope.covers(F.col("store_ms")))
    date = scope.date_of(F.col("store_ms"))
    letters = in_scope.where(F.col("kind") == Kind.DEAD_LETTER).withColumns(
        {
            "date": date,
            "reason": _cause(F.coalesce("reason", F.lit(""))),
            "_age_ms": F.col("store_ms") - F.col("first_delivered_ms"),
        }
    )
    redriven = in_scope.select(
        F.col("settles_log_topic").alias("log_topic"),
        F.col("settles_queue_id").alias("queue_id"),
        F.col("settles_queue_offset").alias("queue_offset"),
        F.lit(True).alias("_is_redriven"),
    ).dropDuplicates(list(_PLACE))
    letters = letters.join(redriven, list(_PLACE), "left")
    counted = letters.groupBy("date", *_REASON).agg(
        F.count("*").alias("message_count"),
        F.max("reconsume_times").alias("attempts_max"),
        F.percentile_approx("_age_ms", list(_PERCENTILES), _ACCURACY).alias("_ages"),
        F.max("_age_ms").alias("age_ms_max"),
        F.count_if("_is_redriven").alias("redriven_count"),
    )
    known = frames.history.where(F.col("kind") == Kind.DEAD_LETTER).select(
        "tenant",
        "group",
        _cause(F.coalesce("reason", F.lit(""))).alias("reason"),
        date.alias("date"),
    )
    reasons = ["tenant", "group", "reason"]
    seen = known.unionByName(letters.select(*reasons, "date")).groupBy(*reasons)
    first = seen.agg(F.min("date").alias("_first_date"))
    found = _join(counted, first, reasons)
    found = _join(found, _top_keys(letters), ["date", *_REASON])
    return found.select(
        "date",
        *_REASON,
        "message_count",
        "attempts_max",
        F.col("_ages")[0].alias("age_ms_p50"),
        F.col("_ages")[1].alias("age_ms_p95"),
        "age_ms_max",
        "redriven_count",
        (F.col("_first_date") == F.col("date")).alias("is_new_reason"),
        "top_keys",
    )


def _top_keys(letters: DataFrame) -> DataFrame:
    keys = letters.select("date", *_REASON, F.explode("keys").alias("key"))
    counted = keys.groupBy("date", *_REASON, "key").agg(F.count("*").alias("count"))
    order = Window.partitionBy("date", *_REASON).orderBy(F.desc("count"), "key")
    top = counted.withColumn("_rank", F.row_number().over(order)).where(F.col("_rank") <= TOP_KEYS)
    return top.groupBy("date", *_REASON).agg(
        F.transform(
            F.sort_array(F.collect_list(F.struct("_rank", "key", "count"))),
            lambda row: F.struct(row["key"].alias("key"), row["count"].alias("count")),
        ).alias("top_keys")
    )


def _join(left: DataFrame, right: DataFrame, names: list[str]) -> DataFrame:
    """A left join in which null equals null: a tenant or topic may be unknown."""
    renamed = right.withColumnsRenamed({name: f"_right_{name}" for name in names})
    same = [F.col(name).eqNullSafe(F.col(f"_right_{name}")) for name in names]
    return left.join(renamed, same, "left").drop(*(f"_right_{name}" for name in names))
