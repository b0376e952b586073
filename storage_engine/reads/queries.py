"""Reads that change nothing: by offset, by key, by time.

    server ── pull, look_up, key_topics, offset_at_time ──▶ [Queries] ──▶ consume queues, index, log

Loop thread only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from storage_engine.catalog.catalog import Catalog
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.errors import BadRequest, QueueNotFound
from storage_engine.index.indexer import Indexer
from storage_engine.index.key_lookup import IsRemoved, KeyLookup
from storage_engine.index.key_topics import topics_with_keys
from storage_engine.log.offset_at_time import offset_at_time
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.reads.pull import pull
from storage_engine.records.topic_names import DLQ_PREFIX
from storage_engine.wire.reads import (
    KeyTopicsReply,
    KeyTopicsRequest,
    LookUpHead,
    LookUpRequest,
    OffsetAtTimeReply,
    OffsetAtTimeRequest,
    PullHead,
    PullRequest,
)
from storage_engine.wire.topics import QueueStats, TopicStats

_TIMES_MAX: Final = 256  # of one request, 20 to 30 records each


class Queries:
    """See the module's docstring."""

    def __init__(
        self, parts: EngineParts, catalog: Catalog, indexer: Indexer, is_gone: IsRemoved
    ) -> None:
        self._config = parts.config
        self._clock = parts.clock
        self._commit_log = parts.commit_log
        self._catalog = catalog
        self._indexer = indexer
        self._is_gone = is_gone

    def pull(self, request: PullRequest) -> tuple[PullHead, list[tuple[int, int]]]:
        """See ``pull.pull``. Raises ``TopicNotFound``, ``QueueNotFound``, ``BadRequest``,
        ``FilterInvalid``.
        """
        queue = self._queue_of(request.topic, request.queue_id)
        return pull(self._config, self._clock, self._commit_log, queue, request)

    def offset_of(self, request: PullRequest, record: tuple[int, int]) -> int:
        """The queue offset of a record that ``pull`` gave."""
        return self._queue_of(request.topic, request.queue_id).first_at_or_above(record[0])

    def gone(self, request: PullRequest, records: list[tuple[int, int]]) -> list[int]:
        """Which of the records that ``pull`` gave are dead letters no more and not to be shown, by
        their index.
        """
        if request.shows_gone or not request.topic.startswith(DLQ_PREFIX):
            return []
        offsets = [self.offset_of(request, record) for record in records]
        place = request.topic, request.queue_id
        return [at for at, offset in enumerate(offsets) if self._is_gone(*place, offset)]

    def look_up(
        self, request: LookUpRequest, *, shows_gone: bool = False
    ) -> tuple[LookUpHead, bytes]:
        """See ``key_lookup``; ``shows_gone``: dead letters that are none any more, too.

        Raises ``TopicNotFound``, ``BadRequest``, ``CursorInvalid``.
        """
        lookup = KeyLookup(
            self._config,
            self._indexer.index,
            self._commit_log,
            self._catalog.get_queues(request.topic),
            request,
            _never if shows_gone else self._is_gone,
        )
        self._indexer.flush()
        return lookup.page(is_complete=not self._indexer.is_behind)

    def key_topics(self, request: KeyTopicsRequest) -> KeyTopicsReply:
        """See ``key_topics``. Raises ``BadRequest``."""
        self._indexer.flush()
        indexes = topics_with_keys(self._indexer.index, request.topics, request.keys)
        return KeyTopicsReply(indexes=indexes, is_complete=not self._indexer.is_behind)

    def offset_at_time(self, request: OffsetAtTimeRequest) -> OffsetAtTimeReply:
        """See ``offset_at_time``. Raises ``TopicNotFound``, ``QueueNotFound``, ``BadRequest``."""
        queue = self._queue_of(request.topic, request.queue_id)
        times_ms = [request.timestamp_ms, *request.later_ms]
        if len(times_ms) > _TIMES_MAX:
            raise BadRequest(
                f"the request has {len(times_ms)} times, at most {_TIMES_MAX} are allowed"
            )
        offsets: list[int] = []
        for time_ms in times_ms:
            low = offsets[-1] if offsets else queue.min_offset
            offsets.append(offset_at_time(self._commit_log, queue, time_ms, low=low))
        return OffsetAtTimeReply(
            queue_offset=offsets[0],
            min_offset=queue.min_offset,
            max_offset=queue.max_offset,
            later_offsets=offsets[1:],
        )

    @property
    def topic_names(self) -> Iterable[str]:
        """All topics, the engine's own included."""
        return self._catalog.topics

    def _queue_of(self, topic: str, queue_id: int) -> ConsumeQueue:
        queues = self._catalog.get_queues(topic)
        if not 0 <= queue_id < len(queues):
            raise QueueNotFound(f"the topic has queues 0 to {len(queues) - 1}")
        return queues[queue_id]

    def topic_stats(self, topic: str) -> TopicStats:
        return TopicStats(
            topic=topic,
            queues=[
                QueueStats(
                    queue_id=queue.queue_id,
                    min_offset=queue.min_offset,
                    max_offset=queue.max_offset,
                )
                for queue in self._catalog.get_queues(topic)
            ],
        )


def _never(topic: str, queue_id: int, queue_offset: int) -> bool:
    return False
