"""Which queue of its topic a message goes to.

explicit queue ──▶ that one
message group  ──▶ CRC-32 of its UTF-8 bytes, modulo the queue count: the same in every process and
                   after every restart, so a group keeps its order as long as the count stays
neither        ──▶ round robin per topic and process
"""

from __future__ import annotations

import zlib
from random import Random
from typing import Final

from mqservice.topics.routes import TopicRoute

_TOPIC_COUNT_MAX: Final = 10_000


class QueueChooser:
    """Round-robin positions of this process. One event loop uses it."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next: dict[str, int] = {}

    def choose(self, route: TopicRoute, message_group: str | None, queue: int | None) -> int:
        """A queue id in [0, route.queue_count). ``queue`` has been checked already."""
        if queue is not None:
            return queue
        if message_group is not None:
            return zlib.crc32(message_group.encode()) % route.queue_count
        name = route.engine_name
        turn = self._next.get(name)
        if turn is None:
            if len(self._next) >= _TOPIC_COUNT_MAX:
                self._next.clear()
            # Several web processes should not begin with the same queue.
            turn = self._random.randrange(route.queue_count)
        self._next[name] = turn + 1
        return turn % route.queue_count
