"""The lag of each group per hour, from samples as the engine counts it: messages not delivered, in
flight, or waiting for a retry.

    date, tenant, group, topic, hour │ sample_count, unknown_count, lag_max, lag_p95, lag_last,
                                     │ lag_ms_max, over_threshold_ms, trend_per_s, drain_s

A sample is of a group and topic at one moment. One whose lag was not known is counted apart, and
never taken for 0. ``over_threshold_ms`` adds
the times from each sample above the threshold to the next one. ``trend_per_s`` is the slope of the
lag, messages a second; ``drain_s`` how long the rest takes at that slope, null when it does not
shrink.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.days import Scope, hour_of
from analytics.jobs.frames import Frames

NAME = "consumer_lag_hourly"
LAG_THRESHOLD = 1_000  # messages
# Samples that are further apart tell nothing of the time between them.
_SAMPLE_GAP_MS_MAX = 5 * 60 * 1_000
_ACCURACY = 10_000
_GROUP = ("tenant", "group", "topic")


def transform(frames: Frames, scope: Scope) -> DataFrame:
    at_ms = F.col("sampled_at_ms")
    moments = (
        frames.lag_samples.where(scope.covers(at_ms))
        .groupBy(*_GROUP, "sampled_at_ms")  # one row each, unless an export says it twice
        .agg(F.max("lag").alias("lag"), F.max("lag_ms").alias("lag_ms"))
    )
    order = Window.partitionBy(*_GROUP).orderBy("sampled_at_ms")
    next_ms = F.lead("sampled_at_ms").over(order)
    lasts_ms = F.least(F.coalesce(next_ms - at_ms, F.lit(0)), F.lit(_SAMPLE_GAP_MS_MAX))
    rows = moments.withColumns({"_lasts_ms": lasts_ms, "_s": at_ms / 1_000})
    known = F.col("lag").isNotNull()
    hours = rows.groupBy(*_GROUP, hour_of(at_ms).alias("hour")).agg(
        F.count("*").alias("sample_count"),
        F.count_if(~known).alias("unknown_count"),
        F.max("lag").alias("lag_max"),
        F.percentile_approx("lag", 0.95, _ACCURACY).alias("lag_p95"),
        F.max_by("lag", F.when(known, at_ms)).alias("lag_last"),
        F.max("lag_ms").alias("lag_ms_max"),
        F.sum(F.when(F.col("lag") > LAG_THRESHOLD, F.col("_lasts_ms")).otherwise(0)).alias(
            "over_threshold_ms"
        ),
        F.regr_slope("lag", "_s").alias("trend_per_s"),
    )
    drain_s = F.when(F.col("trend_per_s") < 0, F.col("lag_last") / -F.col("trend_per_s"))
    return hours.select(
        scope.date_of(F.unix_millis("hour")).alias("date"),
        *_GROUP,
        "hour",
        "sample_count",
        "unknown_count",
        "lag_max",
        "lag_p95",
        "lag_last",
        "lag_ms_max",
        "over_threshold_ms",
        "trend_per_s",
        drain_s.alias("drain_s"),
    )
