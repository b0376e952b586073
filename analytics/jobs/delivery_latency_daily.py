"""How long messages took to reach a group: born, stored, first delivered, settled.

    date, tenant, group, topic, outcome │ message_count, uncertain_ms_max, and for each of store,
                                        │ wait, settle, total: …_ms_p50, …_p95, …_p99, …_ms_max

store: born → stored; wait: stored → first delivered; settle: first delivered → settled; total: born
→ settled. Born is the producer's clock: a stage that its clock makes negative counts as 0. The day
is that of the settle. A message whose own record is older than the lake's last week is left out.

``dead_lettered`` is exact: the dead letter says it all. ``settled`` (acked, or passed over by the
group's filter) is estimated: nobody notes each settle, but how far every queue was at moments.
Within such a span messages count as settled evenly, and none before it was stored; no message is
further from the truth than ``uncertain_ms_max``, its span. First deliveries are estimated likewise,
but for messages that were retried, whose records say when it was. Null: nobody knows.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.days import Scope
from analytics.jobs.frames import Frames
from analytics.schemas import Kind
from storage_engine.reader import RETRY_PREFIX

NAME = "delivery_latency_daily"
_STAGES = {
    "store": ("born_ms", "stored_ms"),
    "wait": ("stored_ms", "first_delivered_ms"),
    "settle": ("first_delivered_ms", "settled_ms"),
    "total": ("born_ms", "settled_ms"),
}
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_ACCURACY = 10_000
_GROUP = ("tenant", "group", "topic")
_QUEUE = ("tenant", "place", "queue_id")  # place: the topic, or the group's retry topic
_TIMES = ("born_ms", "stored_ms", "first_delivered_ms", "settled_ms", "uncertain_ms")


def transform(frames: Frames, scope: Scope) -> DataFrame:
    found = _settled(frames, scope).unionByName(_dead(frames, scope))
    stages = {
        f"_{name}": F.when(
            F.col(start).isNotNull() & F.col(end).isNotNull(),
            F.greatest(F.col(end) - F.col(start), F.lit(0)),
        )
        for name, (start, end) in _STAGES.items()
    }
    figures = [F.count("*").alias("message_count"), F.max("uncertain_ms").alias("uncertain_ms_max")]
    for name in _STAGES:
        shares = list(_PERCENTILES.values())
        found_at = F.percentile_approx(f"_{name}", shares, _ACCURACY)
        figures += [found_at.alias(f"_{name}s"), F.max(f"_{name}").alias(f"{name}_ms_max")]
    date = scope.date_of(F.col("settled_ms")).alias("date")
    counted = found.withColumns(stages).groupBy(date, *_GROUP, "outcome").agg(*figures)
    names = ("date", *_GROUP, "outcome", "message_count", "uncertain_ms_max")
    columns = [F.col(name) for name in names]
    for name in _STAGES:
        columns += [
            F.col(f"_{name}s")[index].alias(f"{name}_ms_{percentile}")
            for index, percentile in enumerate(_PERCENTILES)
        ]
        columns.append(F.col(f"{name}_ms_max"))
    return counted.select(*columns)


def _settled(frames: Frames, scope: Scope) -> DataFrame:
    """Each message and group by the queue from which it was settled: the topic's, or of retries."""
    spans = frames.settles.withColumnRenamed("topic", "place")
    spans = spans.where((F.col("before_ms") >= scope.from_ms) & (F.col("after_ms") < scope.to_ms))
    # Spans and messages meet in bins of offsets, each about as wide as a span of the queue.
    width = F.ceil((F.max("to_offset") - F.min("from_offset")) / F.count("*"))
    queues = spans.groupBy(*_QUEUE).agg(
        F.greatest(width, F.lit(1)).cast("long").alias("_width"),
        F.min("from_offset").alias("_first"),
        F.max("to_offset").alias("_end"),
    )
    offset = F.col("queue_offset")
    places = (
        _places(frames)
        .join(F.broadcast(queues), [*_QUEUE])
        .where((offset >= F.col("_first")) & (offset < F.col("_end")))
        .withColumn("_bin", F.floor(offset / F.col("_width")))
    )
    bins = F.sequence(
        F.floor(F.col("from_offset") / F.col("_width")),
        F.floor((F.col("to_offset") - 1) / F.col("_width")),
    )
    binned = spans.join(F.broadcast(queues), [*_QUEUE]).withColumn("_bin", F.explode(bins))
    settled = _meet(places, binned, "settled").where(
        F.col("own_group").isNull() | (F.col("own_group") == F.col("group"))
    )
    found = _meet(settled, binned, "delivered", how="left")
    stored = F.col("store_ms")
    settled_ms = F.greatest(_moment("settled"), stored)
    delivered_ms = F.when(  # greatest and least pass over nulls
        F.col("delivered_to").isNotNull(),
        F.least(F.greatest(_moment("delivered"), stored), settled_ms),
    )
    found = found.withColumns(
        {
            "settled_ms": settled_ms,
            "first_delivered_ms": F.coalesce("first_delivered_ms", delivered_ms),
            "uncertain_ms": F.col("settled_before")
            - F.least(F.greatest("settled_after", stored), "settled_before"),
            "outcome": F.lit("settled"),
        }
    ).where(scope.covers(F.col("settled_ms")))
    # What was moved from its place was not settled there: a retry or a dead letter took it over.
    moves = frames.messages.where(
        F.col("settles_log_topic").isNotNull() & F.col("group").isNotNull()
    )
    moves = moves.select(
        "group",
        F.col("settles_log_topic").alias("log_topic"),
        F.col("settles_queue_id").alias("queue_id"),
        F.col("settles_queue_offset").alias("queue_offset"),
    )
    found = found.join(moves, ["group", "log_topic", "queue_id", "queue_offset"], "left_anti")
    return _with_origin(found, frames).select(*_GROUP, "outcome", *_TIMES)


def _places(frames: Frames) -> DataFrame:
    """Every place in the log from which groups get messages; retries have one group only."""
    is_retry = F.col("kind") == Kind.RETRY
    rows = frames.messages.where(is_retry | (F.col("kind") == Kind.MESSAGE))
    return rows.select(
        "tenant",
        F.when(is_retry, F.concat(F.lit(RETRY_PREFIX), "group"))
        .otherwise(F.col("topic"))
        .alias("place"),
        "queue_id",
        "queue_offset",
        "log_topic",
        "topic",
        F.when(is_retry, F.col("group")).alias("own_group"),
        F.when(is_retry, F.col("origin_message_id")).alias("origin_message_id"),
        "born_ms",
        "store_ms",
        F.when(is_retry, F.col("first_delivered_ms")).alias("first_delivered_ms"),
    )


def _meet(rows: DataFrame, binned: DataFrame, what: str, how: str = "inner") -> DataFrame:
    """Each row with the span of ``what`` that its offset lies in, as columns named after it."""
    keys = [*_QUEUE, "_bin"] if how == "inner" else [*_QUEUE, "_bin", "group"]
    spans = binned.where(F.col("what") == what).select(
        *_QUEUE,
        "_bin",
        "group",
        F.col("from_offset").alias(f"{what}_from"),
        F.col("to_offset").alias(f"{what}_to"),
        F.col("after_ms").alias(f"{what}_after"),
        F.col("before_ms").alias(f"{what}_before"),
    )
    left, right = rows.alias("left"), spans.alias("right")
    same = [F.col(f"left.{name}") == F.col(f"right.{name}") for name in keys]
    same.append(F.col("left.queue_offset") >= F.col(f"right.{what}_from"))
    same.append(F.col("left.queue_offset") < F.col(f"right.{what}_to"))
    added = [F.col(f"right.{name}") for name in spans.columns if name not in rows.columns]
    return left.join(right, same, how).select("left.*", *added)


def _moment(what: str) -> Column:
    """When the message's turn came, if the span's messages took it evenly."""
    begin, end = F.col(f"{what}_from"), F.col(f"{what}_to")
    share = (F.col("queue_offset") - begin + 1) / (end - begin)
    after, before = F.col(f"{what}_after"), F.col(f"{what}_before")
    # Of the first mark ever nobody knows what it comes after: the message's own time is all.
    after = F.greatest(after, F.least(F.col("store_ms"), before))
    return (after + share * (before - after)).cast("long")


def _dead(frames: Frames, scope: Scope) -> DataFrame:
    letters = frames.messages.where(F.col("kind") == Kind.DEAD_LETTER)
    letters = letters.where(scope.covers(F.col("store_ms"))).select(
        *_GROUP,
        "origin_message_id",
        "born_ms",
        F.lit(None).cast("long").alias("store_ms"),
        F.lit("").alias("own_group"),
        "first_delivered_ms",
        F.col("store_ms").alias("settled_ms"),
        F.lit(0).cast("long").alias("uncertain_ms"),
        F.lit("dead_lettered").alias("outcome"),
    )
    return _with_origin(letters, frames).select(*_GROUP, "outcome", *_TIMES)


def _with_origin(rows: DataFrame, frames: Frames) -> DataFrame:
    """``stored_ms``: of a message its own, of a retry or a dead letter that of what it once was."""
    failed = frames.messages.where(
        F.col("kind").isin(Kind.RETRY, Kind.DEAD_LETTER) & F.col("origin_message_id").isNotNull()
    )
    wanted = failed.select("tenant", "topic", F.col("origin_message_id").alias("message_id"))
    origins = (
        frames.messages.where(F.col("kind") == Kind.MESSAGE)
        .join(wanted.distinct(), ["tenant", "topic", "message_id"], "left_semi")
        .groupBy("tenant", "topic", F.col("message_id").alias("origin_message_id"))
        .agg(F.min("store_ms").alias("_origin_ms"))
    )
    rows = rows.join(origins, ["tenant", "topic", "origin_message_id"], "left")
    stored = F.when(F.col("own_group").isNull(), F.col("store_ms"))
    return rows.withColumn("stored_ms", F.coalesce(stored, "_origin_ms"))
