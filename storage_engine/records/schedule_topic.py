"""RocketMQ's topic of scheduled messages: its records and its consume queue units.

    unit of an ordinary topic    tag field = hash of the tag
    unit of SCHEDULE_TOPIC_XXXX  tag field = due time, ms since the epoch (``TIMER_DELIVER_MS``; of
                                 RocketMQ's own records store time and delay of the level)

Pure functions.
"""

from __future__ import annotations

from typing import Final

from storage_engine.records.delay_levels import DELAY_LEVEL_MAX, clamped_level, level_delay_ms
from storage_engine.records.tag_hash import tag_hash_of

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
SCHEDULE_TOPIC_BYTES: Final = SCHEDULE_TOPIC.encode()
# Queues of the topic; those before them are of a delay level each, which ``level - 1`` numbers.
DELAY_QUEUE: Final = DELAY_LEVEL_MAX  # any other delay
MOMENT_QUEUE: Final = DELAY_QUEUE + 1  # until a moment that the producer has named
SCHEDULE_QUEUES: Final = MOMENT_QUEUE + 1
REAL_TOPIC: Final = "REAL_TOPIC"  # where it goes when it is due
REAL_QUEUE_ID: Final = "REAL_QID"
DELAY_LEVEL: Final = "DELAY"
PROPERTY_DELIVER_AT: Final = "TIMER_DELIVER_MS"
# What a producer writes who asks for a delay: the engine writes the due time over it.
DUE_HOLE: Final = "0" * 13
DELAY_MS: Final = "TIMER_DELAY_MS"
_DELIVER_AT: Final = f"{PROPERTY_DELIVER_AT}\x01".encode()
_LEVEL: Final = f"{DELAY_LEVEL}\x01".encode()


def due_ms_of(properties: bytes, store_timestamp_ms: int = 0) -> int:
    """Due time of a scheduled message; 0, which is at once, when its properties name none.

    What RocketMQ has scheduled names its level only, and is due that long after it was stored
    (``CommitLog.checkMessageAndReturnSize``).
    """
    due_ms = _number(properties, _DELIVER_AT)
    if due_ms is None:
        level = _number(properties, _LEVEL) or 0
        return store_timestamp_ms + level_delay_ms(clamped_level(level)) if level > 0 else 0
    return due_ms


def _number(properties: bytes, head: bytes) -> int | None:
    """The value of a property that begins so; None without it, 0 when it is no number."""
    start = 0 if properties.startswith(head) else properties.find(b"\x02" + head) + 1
    if not start and not properties.startswith(head):
        return None
    end = properties.find(b"\x02", start)
    digits = properties[start + len(head) : end if end >= 0 else None]
    return int(digits) if digits.isdigit() and len(digits) < 16 else 0


def unit_tag_of(topic: bytes, properties: bytes, store_timestamp_ms: int = 0) -> int:
    """The tag field of a message's consume-queue unit; of a record in the log, its store time says
    when a level of RocketMQ's is due.
    """
    if topic == SCHEDULE_TOPIC_BYTES:
        return due_ms_of(properties, store_timestamp_ms)
    return tag_hash_of(properties)
