"""Makes appended records visible, in log order, once they may be seen.

    put_path ── follow(batch) ──▶ [Dispatcher] ── publish_to(durable offset) ──▶ queue.max_offset
                                       └── published(keys) ──▶ indexer

In sync mode that is when the disk has them, so that nobody ever consumes what a power cut can take
back. The units themselves are written by ``CommitLog.append``; publishing only moves
``max_offset``, so it cannot fail. Loop thread only."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from storage_engine.index.indexer import Indexer
from storage_engine.log.commit_log import Entry
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.message_keys import KeyBatch

# Keys of so many messages may wait for the disk; those of more come from the log.
_KEYED_MESSAGES_MAX: Final = 200_000


class _Batch(NamedTuple):
    """Appended and not visible: where it ends in the log, and in each queue it is part of."""

    end_offset: int
    queue_ends: dict[ConsumeQueue, int]
    keys: KeyBatch | None
    published: Callable[[], None] | None


class Dispatcher:
    """See the module's docstring. ``dispatched_offset``: all records below are visible."""

    def __init__(self, dispatched_offset: int, indexer: Indexer) -> None:
        self.dispatched_offset = dispatched_offset
        self._indexer = indexer
        self._pending: deque[_Batch] = deque()
        self._keyed_count = 0  # messages whose keys wait here

    def follow(
        self,
        end_offset: int,
        entries: list[Entry],
        keys: KeyBatch | None,
        published: Callable[[], None] | None = None,
    ) -> None:
        """Remember a batch that was just appended and ends at ``end_offset`` of the log.

        ``published`` is called when it has become visible.
        """
        ends = {entry[2]: entry[2].append_offset for entry in entries}
        if keys is not None:
            if self._keyed_count > _KEYED_MESSAGES_MAX:
                keys = None
            else:
                self._keyed_count += len(entries)
        self._pending.append(_Batch(end_offset, ends, keys, published))

    @property
    def is_idle(self) -> bool:
        return not self._pending

    def queue_ends(self, queues: Iterable[ConsumeQueue]) -> list[tuple[ConsumeQueue, int]]:
        """Where each queue ends with the records below ``dispatched_offset``."""
        return [(queue, queue.max_offset) for queue in queues]

    def publish_to(self, offset: int) -> set[ConsumeQueue]:
        """Make every batch that ends at or below ``offset`` visible; the queues that grew."""
        pending = self._pending
        grown: set[ConsumeQueue] = set()
        while pending and pending[0].end_offset <= offset:
            start_offset = self.dispatched_offset
            self.dispatched_offset, ends, keys, published = pending.popleft()
            for queue, max_offset in ends.items():
                queue.max_offset = max_offset
            grown.update(ends)
            if keys is not None:
                self._keyed_count -= keys.message_count
            self._indexer.published(start_offset, self.dispatched_offset, keys)
            if published is not None:
                published()
        return grown
