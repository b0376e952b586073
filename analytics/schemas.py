"""Columns of everything that is read or written; names include units, times are epoch ms.

RECORDS       what the source gives of each record of the log
MESSAGES      the lake: one row a record, its properties taken apart
LAG_SAMPLES   from PostgreSQL: how far each group had got, at moments
SETTLES       from PostgreSQL: what was delivered and settled between which moments
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

_LONG, _INT, _TEXT = LongType(), IntegerType(), StringType()


def _table(*columns: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns])


# A damaged range of the log, where asked for, is a row without a topic: its offset, its length in
# record_bytes, and about when.
RECORDS: Final = _table(
    ("physical_offset", _LONG),
    ("record_bytes", _LONG),
    ("topic", _TEXT),
    ("queue_id", _INT),
    ("queue_offset", _LONG),
    ("flag", _INT),
    ("born_ms", _LONG),
    ("store_ms", _LONG),
    ("reconsume_times", _INT),
    ("body_bytes", _LONG),
    ("properties", BinaryType()),
    ("body", BinaryType()),
)
BODY: Final = "body"

# topic and group are names as the tenant knows them; log_topic is the engine's name. topic is the
# one that the message was produced to, also of a retry or a dead letter.
MESSAGES: Final = _table(
    ("tenant", _TEXT),
    ("kind", _TEXT),
    ("topic", _TEXT),
    ("group", _TEXT),
    ("log_topic", _TEXT),
    ("queue_id", _INT),
    ("queue_offset", _LONG),
    ("physical_offset", _LONG),
    ("record_bytes", _LONG),
    ("body_bytes", _LONG),
    ("born_ms", _LONG),
    ("store_ms", _LONG),
    ("reconsume_times", _INT),
    ("is_produced", BooleanType()),
    ("message_id", _TEXT),
    ("origin_message_id", _TEXT),
    ("tag", _TEXT),
    ("keys", ArrayType(_TEXT)),
    ("message_group", _TEXT),
    ("settles_log_topic", _TEXT),
    ("settles_queue_id", _INT),
    ("settles_queue_offset", _LONG),
    ("first_delivered_ms", _LONG),
    ("last_delivered_ms", _LONG),
    ("due_ms", _LONG),
    ("reason", _TEXT),
)
TENANT: Final = "tenant"

# What a group had still to do of a topic: not delivered, in flight and waiting for a retry, as the
# engine counted it. lag null: not known at that moment, which is not the same as 0.
LAG_SAMPLES: Final = _table(
    ("sampled_at_ms", _LONG),
    ("tenant", _TEXT),
    ("group", _TEXT),
    ("topic", _TEXT),
    ("lag", _LONG),
    ("lag_ms", _LONG),
)

# Ranges of a queue's offsets that were delivered or settled (``what``) between two moments. Those
# of one queue and group do not overlap; a group's retry queues have the topic %RETRY%group.
SETTLES: Final = _table(
    ("tenant", _TEXT),
    ("group", _TEXT),
    ("topic", _TEXT),
    ("queue_id", _INT),
    ("what", _TEXT),
    ("from_offset", _LONG),
    ("to_offset", _LONG),
    ("after_ms", _LONG),
    ("before_ms", _LONG),
)


class Kind:
    """What a record is; values of ``kind``."""

    MESSAGE: Final = "message"
    SCHEDULED: Final = "scheduled"  # waits for its time
    RETRY: Final = "retry"
    DEAD_LETTER: Final = "dead_letter"
    DAMAGED: Final = "damaged"  # bytes of the log that hold no whole record
