"""How long messages were on their way to a group: born, stored, first delivered, settled.

    date, tenant, group, topic, outcome │ message_count, and for each of store, wait, settle, total:
                                        │ …_ms_p50, …_ms_p95, …_ms_p99, …_ms_max

store: born → stored; wait: stored → first delivered; settle: first delivered → settled; total: born
→ settled. Born is the producer's clock: a stage that its clock makes negative counts as 0. A settle
whose message is not in the lake (it is older than that) is left out. The day is that of the settle.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.days import Scope
from analytics.jobs.frames import Frames
from analytics.schemas import Kind

NAME = "delivery_latency_daily"
_STAGES = {
    "store": ("born_ms", "store_ms"),
    "wait": ("store_ms", "first_delivered_ms"),
    "settle": ("first_delivered_ms", "settled_ms"),
    "total": ("born_ms", "settled_ms"),
}
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_ACCURACY = 10_000


def transform(frames: Frames, scope: Scope) -> DataFrame:
    settles = frames.settles.where(scope.covers(F.col("settled_ms")))
    stored = frames.messages.where(F.col("kind") == Kind.MESSAGE).select(
        "tenant", "topic", "queue_id", "queue_offset", "born_ms", "store_ms"
    )
    rows = settles.join(stored, ["tenant", "topic", "queue_id", "queue_offset"])
    stages = {
        f"_{name}": F.greatest(F.col(end) - F.col(start), F.lit(0))
        for name, (start, end) in _STAGES.items()
    }
    figures = [F.count("*").alias("message_count")]
    for name in _STAGES:
        figures.append(
            F.percentile_approx(f"_{name}", list(_PERCENTILES.values()), _ACCURACY).alias(
                f"_{name}s"
            )
        )
        figures.append(F.max(f"_{name}").alias(f"{name}_ms_max"))
    date = scope.date_of(F.col("settled_ms")).alias("date")
    counted = rows.withColumns(stages).groupBy(date, "tenant", "group", "topic", "outcome")
    found = counted.agg(*figures)
    columns = [F.col(name) for name in ("date", "tenant", "group", "topic", "outcome")]
    columns.append(F.col("message_count"))
    for name in _STAGES:
        for index, percentile in enumerate(_PERCENTILES):
            columns.append(F.col(f"_{name}s")[index].alias(f"{name}_ms_{percentile}"))
        columns.append(F.col(f"{name}_ms_max"))
    return found.select(*columns)
