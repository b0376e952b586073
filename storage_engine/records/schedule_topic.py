"""RocketMQ's topic of messages that are to come, as far as their records and units are concerned.

    unit of an ordinary topic    tag field = hash of the tag
    unit of SCHEDULE_TOPIC_XXXX  tag field = due time, ms since the epoch (``TIMER_DELIVER_MS``)

Pure functions.
"""

from __future__ import annotations

from typing import Final

from storage_engine.records.delay_levels import DELAY_LEVEL_MAX
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


def due_ms_of(properties: bytes) -> int:
    """Due time of a scheduled message; 0, which is at once, when its properties name none."""
    start = 0 if properties.startswith(_DELIVER_AT) else properties.find(b"\x02" + _DELIVER_AT) + 1
    if not start and not properties.startswith(_DELIVER_AT):
        return 0
    digits = properties[start + len(_DELIVER_AT) : properties.find(b"\x02", start)]
    return int(digits) if digits.isdigit() and len(digits) < 16 else 0


def unit_tag_of(topic: bytes, properties: bytes) -> int:
    """The tag field of a message's consume-queue unit."""
    return due_ms_of(properties) if topic == SCHEDULE_TOPIC_BYTES else tag_hash_of(properties)
