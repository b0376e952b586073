"""What the records of the log mean: each is a row of the lake; pure columns, no Python per record.

    RECORDS ──▶ [messages_of] ──▶ MESSAGES: tenant, kind, names as the tenant knows them, properties

    log_topic               kind          topic                      group
    acme%orders             message       orders
    SCHEDULE_TOPIC_XXXX     scheduled     where it goes when due     if it waits for a retry
    %RETRY%acme%billing     retry         that it was produced to    billing
    %DLQ%acme%billing       dead_letter   that it was produced to    billing

``is_produced``: a message that somebody produced, and not one that took the place of another (a
retry, a dead letter, a redriven or due one): each message is that once.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.schemas import MESSAGES, Kind
from storage_engine.reader import (
    DLQ_PREFIX,
    NAME_VALUE,
    PROPERTY_END,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
)

_NAMESPACE_END: Final = "%"


def messages_of(records: DataFrame) -> DataFrame:
    """Rows of ``MESSAGES``, one for each of ``RECORDS``."""
    text = F.make_valid_utf8(F.col("properties").cast("string"))
    pairs = F.str_to_map(text, F.lit(PROPERTY_END), F.lit(NAME_VALUE))
    rows = records.withColumn("_pairs", pairs).withColumnRenamed("topic", "log_topic")
    is_scheduled = F.col("log_topic") == SCHEDULE_TOPIC
    rows = rows.withColumn(
        "_place", F.when(is_scheduled, _text("REAL_TOPIC")).otherwise(F.col("log_topic"))
    )
    is_retry = F.col("_place").startswith(RETRY_PREFIX)
    is_dead = F.col("_place").startswith(DLQ_PREFIX)
    rows = rows.withColumns(
        {
            "_is_of_group": is_retry | is_dead,
            "_name": F.when(is_retry, F.substr("_place", F.lit(len(RETRY_PREFIX) + 1)))
            .when(is_dead, F.substr("_place", F.lit(len(DLQ_PREFIX) + 1)))
            .otherwise(F.col("_place")),
            "kind": F.when(F.col("log_topic").isNull(), Kind.DAMAGED)
            .when(is_scheduled, Kind.SCHEDULED)
            .when(is_retry, Kind.RETRY)
            .when(is_dead, Kind.DEAD_LETTER)
            .otherwise(Kind.MESSAGE),
            "_settles": F.split(_text("__SETTLES"), "@", 5),
        }
    )
    has_namespace = F.col("_name").contains(_NAMESPACE_END)
    origin = F.coalesce(_text("DLQ_ORIGIN_TOPIC"), _text("RETRY_TOPIC"))
    is_of_group = F.col("_is_of_group")
    columns: dict[str, Column] = {
        "tenant": F.when(has_namespace, F.substring_index("_name", _NAMESPACE_END, 1)),
        "topic": _own_name(F.when(is_of_group, origin).otherwise(F.col("_name"))),
        "group": F.when(is_of_group, _own_name(F.col("_name"))),
        "is_produced": F.col("log_topic").isNotNull()
        & ~F.coalesce(is_of_group, F.lit(False))
        & F.col("_settles").isNull(),
        "message_id": _text("UNIQ_KEY"),
        "origin_message_id": F.coalesce(_text("DLQ_ORIGIN_MESSAGE_ID"), _text("ORIGIN_MESSAGE_ID")),
        "tag": _text("TAGS"),
        "keys": F.split(_text("KEYS"), " "),
        "message_group": _text("__SHARDINGKEY"),
        "settles_log_topic": F.col("_settles")[3],
        "settles_queue_id": F.col("_settles")[1].try_cast("int"),
        "settles_queue_offset": F.col("_settles")[0].try_cast("long"),
        "first_delivered_ms": _number("1ST_POP_TIME"),
        "last_delivered_ms": _number("DLQ_LAST_DELIVERY_MS"),
        "due_ms": _number("TIMER_DELIVER_MS"),
        "reason": _text("DLQ_REASON"),
    }
    return rows.withColumns(columns).select(MESSAGES.names)


def _text(name: str) -> Column:
    return F.col("_pairs")[name]


def _number(name: str) -> Column:
    return _text(name).try_cast("long")


def _own_name(full: Column) -> Column:
    """The name behind the namespace; all of it where there is none."""
    return F.when(
        full.contains(_NAMESPACE_END), F.regexp_extract(full, f"^[^{_NAMESPACE_END}]*%(.*)$", 1)
    ).otherwise(full)
