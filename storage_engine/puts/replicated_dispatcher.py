"""A dispatcher that hides messages of replicated topics until the replicated log has them.

    put_path ── follow ──▶ [ReplicatedDispatcher] ── publish_to(durable offset) ──▶ other queues
                            └── publish_replicated(replicated offset) ──▶ queues of these topics

Consume queues and index hold them from when the disk has them, as they do any other: a checkpoint
counts what is in the files, whether or not it can be seen. Loop thread only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Set
from typing import NamedTuple

from storage_engine.index.indexer import Indexer
from storage_engine.log.commit_log import Entry
from storage_engine.puts.dispatcher import Dispatcher
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.message_keys import KeyBatch


class _Hidden(NamedTuple):
    """A batch that ends at ``end_offset`` of the log, and there in each replicated queue."""

    end_offset: int
    queue_ends: dict[ConsumeQueue, int]


class ReplicatedDispatcher(Dispatcher):
    """See the module's docstring."""

    def __init__(self, dispatched_offset: int, indexer: Indexer) -> None:
        super().__init__(dispatched_offset, indexer)
        self.replicated_topics: Set[str] = frozenset()  # the catalog's
        self._hidden: deque[_Hidden] = deque()
        # A queue whose topic is replicated no more goes on hiding what is behind these.
        self._last_ends: dict[ConsumeQueue, int] = {}

    def follow(
        self,
        end_offset: int,
        entries: list[Entry],
        keys: KeyBatch | None,
        published: Callable[[], None] | None = None,
    ) -> None:
        super().follow(end_offset, entries, keys, published)
        queue_ends = self._pending[-1].queue_ends
        hidden = {
            queue: end
            for queue, end in queue_ends.items()
            if queue.topic in self.replicated_topics or queue in self._last_ends
        }
        if hidden:
            for queue in hidden:
                del queue_ends[queue]
            self._hidden.append(_Hidden(end_offset, hidden))
            self._last_ends.update(hidden)

    def publish_replicated(self, offset: int) -> set[ConsumeQueue]:
        """Make every hidden batch that ends at or below ``offset`` visible; the queues that grew.

        The disk must have it too.
        """
        grown: set[ConsumeQueue] = set()
        while self._hidden and self._hidden[0].end_offset <= offset:
            for queue, max_offset in self._hidden.popleft().queue_ends.items():
                queue.max_offset = max_offset
                grown.add(queue)
                if self._last_ends[queue] == max_offset:
                    del self._last_ends[queue]
        return grown

    def queue_ends(self, queues: Iterable[ConsumeQueue]) -> list[tuple[ConsumeQueue, int]]:
        ends = {queue: queue.max_offset for queue in queues}
        for end_offset, queue_ends in self._hidden:
            if end_offset > self.dispatched_offset:
                break
            ends.update(queue_ends)
        return list(ends.items())
