"""A producer's scheduled message: the same message, for the schedule topic; pure functions.

    StoreMessage for orders ── [scheduled] ──▶ StoreMessage for SCHEDULE_TOPIC_XXXX
                                               REAL_TOPIC = orders, REAL_QID, TIMER_DELIVER_MS, …

A delay leaves a hole where the engine writes when it is over, counted from when the message got
there. The properties that are spent on delivery stand first.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from storage_engine.errors import BadRequest
from storage_engine.records.delay_levels import DELAY_MS_MAX, clamped_level, level_delay_ms
from storage_engine.records.record import StoreMessage
from storage_engine.records.schedule_topic import (
    DELAY_LEVEL,
    DELAY_MS,
    DELAY_QUEUE,
    DUE_HOLE,
    MOMENT_QUEUE,
    PROPERTY_DELIVER_AT,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SCHEDULE_TOPIC,
)


class Wait(NamedTuple):
    """How long a message waits; one of the three is set. ``level``: a delay level of RocketMQ;
    ``delay_ms``: from when the engine has it; ``deliver_at_ms``: until then, epoch ms.
    """

    level: int = 0
    delay_ms: int = 0
    deliver_at_ms: int = 0

    @property
    def queue_id(self) -> int:
        """The queue of the schedule topic."""
        if self.level:
            return clamped_level(self.level) - 1
        return DELAY_QUEUE if self.delay_ms else MOMENT_QUEUE

    def due_ms(self, stored_ms: int) -> int:
        """When it is over for a message that the engine got at ``stored_ms``, give or take what the
        clock for delays differs: only the engine knows better.
        """
        if self.deliver_at_ms:
            return self.deliver_at_ms
        return stored_ms + (level_delay_ms(self.level) if self.level else self.delay_ms)


def scheduled(message: StoreMessage, wait: Wait) -> StoreMessage:
    """The message that waits. Raises ``BadRequest``: no such delay."""
    if sum([part != 0 for part in wait]) != 1:
        raise BadRequest("a scheduled message has exactly one of level, delay and time")
    if not 0 <= wait.delay_ms <= DELAY_MS_MAX or wait.deliver_at_ms < 0:
        raise BadRequest(f"a delay must be 1 to {DELAY_MS_MAX} ms, found {wait.delay_ms}")
    properties = {REAL_TOPIC: message.topic, REAL_QUEUE_ID: str(message.queue_id)}
    if wait.deliver_at_ms:
        properties[PROPERTY_DELIVER_AT] = str(wait.deliver_at_ms)
    else:
        properties[PROPERTY_DELIVER_AT] = DUE_HOLE
        if wait.level:
            properties[DELAY_LEVEL] = str(clamped_level(wait.level))
        else:
            properties[DELAY_MS] = str(wait.delay_ms)
    return msgspec.structs.replace(
        message,
        topic=SCHEDULE_TOPIC,
        queue_id=wait.queue_id,
        properties={**properties, **message.properties},
    )
