"""Moves consumer offsets that are past the end of their queue back to the end.

A power cut may leave settles durable whose messages of an async topic were not; new messages at
those offsets must be delivered.
"""

from __future__ import annotations

import logging

from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.queues.consume_queues import ConsumeQueues

log = logging.getLogger(__name__)


def clamp_offsets(consumer_offsets: ConsumerOffsets, queues: ConsumeQueues) -> bool:
    """True when some progress was changed, which must be saved then."""
    changed = False
    for progress in consumer_offsets:
        of_topic = queues.by_topic.get(progress.topic.encode(), [])
        has_queue = progress.queue_id < len(of_topic)
        max_offset = of_topic[progress.queue_id].max_offset if has_queue else 0
        changed = progress.clamp(max_offset) or changed
    if changed:
        log.warning(
            "Consumer offsets were past the end of their queues; moved them back to the end",
            extra={"action": "offsets_clamped"},
        )
    return changed
