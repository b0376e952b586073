"""Which queue of its topic a message goes to.

explicit queue ──▶ that one
message group  ──▶ CRC-32 of its UTF-8 bytes, modulo the queue count: the same in every process and
                   after every restart, so a group keeps its order as long as the count stays
neither        ──▶ round robin per topic and process; of a batch each queue gets as many as by that,
                   but neighbours of the batch go to the same one: they stand side by side in the
                   log, and are read in one piece
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from random import Random
from typing import Final

from mqservice.topics.routes import TopicRoute

_TOPIC_COUNT_MAX: Final = 10_000
_NO_WISH: Final = (None, None)


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
        return self._take_turns(route, 1) % route.queue_count

    def choose_all(
        self, route: TopicRoute, wishes: Sequence[tuple[str | None, int | None]]
    ) -> list[int]:
        """``choose`` for each (message_group, queue) of a batch."""
        if len(wishes) == 1:
            return [self.choose(route, *wishes[0])]
        free_count = wishes.count(_NO_WISH)
        if free_count == 0:
            return [self.choose(route, *wish) for wish in wishes]
        queue_count = route.queue_count
        turn = self._take_turns(route, free_count)
        each, longer_count = divmod(free_count, queue_count)
        shared: list[int] = []
        for step in range(min(free_count, queue_count)):
            shared += [(turn + step) % queue_count] * (each + (step < longer_count))
        if free_count == len(wishes):
            return shared
        given = iter(shared)
        return [next(given) if wish == _NO_WISH else self.choose(route, *wish) for wish in wishes]

    def _take_turns(self, route: TopicRoute, count: int) -> int:
        name = route.engine_name
        turn = self._next.get(name)
        if turn is None:
            if len(self._next) >= _TOPIC_COUNT_MAX:
                self._next.clear()
            # Several web processes should not begin with the same queue.
            turn = self._random.randrange(route.queue_count)
        self._next[name] = turn + count
        return turn
