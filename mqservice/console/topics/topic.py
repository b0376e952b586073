"""One topic's page: its settings, its queues with their newest messages, who reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mqservice.accounts.models import Namespace
from mqservice.console.shared.figures import Figures, GroupFigures, TopicFigures, figures_of_topic
from mqservice.console.topics.sizes import stored_bytes
from mqservice.lib.clock import SystemClock
from mqservice.monitoring.sampling import engine_stats
from mqservice.store import (
    PullRequest,
    QueueStats,
    StoreClient,
    StoreError,
    blocking_client,
)
from mqservice.topics.models import Topic
from mqservice.topics.queries import queue_stats

TIMED_QUEUES_MAX: Final = 32  # whose newest message is read


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """``last_ms``: when the newest message was stored; None when there is none, or nobody knows."""

    queue_id: int
    min_offset: int
    max_offset: int
    last_ms: int | None

    @property
    def message_count(self) -> int:
        return self.max_offset - self.min_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRow:
    name: str
    lag: int | None
    group: GroupFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPage:
    """``queues`` and ``stored_bytes`` are None when the engine cannot tell."""

    topic: Topic
    figures: TopicFigures
    queues: list[QueueRow] | None
    stored_bytes: int | None
    readers: list[ReaderRow]

    @property
    def last_ms(self) -> int | None:
        times = [row.last_ms for row in self.queues or [] if row.last_ms is not None]
        return max(times, default=None)


def topic_page(namespace: Namespace, topic: Topic) -> TopicPage:
    """Four queries, the calls of ``figures_of_topic``, one for the size, and one for each queue
    that is shown.
    """
    is_up = engine_stats(namespace.shard) is not None
    with blocking_client(namespace.shard) as client:
        figures = figures_of_topic(
            namespace, topic, client if is_up else None, SystemClock().now_ms()
        )
        queues = queue_stats(client, topic) if is_up else None
        sizes = stored_bytes(client if is_up else None, [topic])
        rows = None
        if queues is not None:
            rows = [_queue_row(client, topic, queue, index) for index, queue in enumerate(queues)]
    return TopicPage(
        topic=topic,
        figures=figures.topics.get(topic.name, TopicFigures()),
        queues=rows,
        stored_bytes=sizes.get(topic.name),
        readers=_readers(figures, topic.name),
    )


def _readers(figures: Figures, topic: str) -> list[ReaderRow]:
    """The furthest behind first, before them those of which nobody knows."""
    rows = [
        ReaderRow(name=name, lag=group.lag_by_topic[topic], group=group)
        for name, group in figures.groups.items()
        if topic in group.lag_by_topic
    ]
    return sorted(rows, key=lambda row: (row.lag is not None, -(row.lag or 0), row.name))


def _queue_row(client: StoreClient, topic: Topic, queue: QueueStats, index: int) -> QueueRow:
    last_ms = None
    if index < TIMED_QUEUES_MAX and queue.max_offset > queue.min_offset:
        last_ms = stored_ms_at(client, topic.engine_name, queue.queue_id, queue.max_offset - 1)
    return QueueRow(
        queue_id=queue.queue_id,
        min_offset=queue.min_offset,
        max_offset=queue.max_offset,
        last_ms=last_ms,
    )


def stored_ms_at(
    client: StoreClient, engine_topic: str, queue_id: int, queue_offset: int
) -> int | None:
    """When a message of a queue was stored; None when nobody can tell. One call to the engine."""
    try:
        _, records = client.pull(
            PullRequest(
                topic=engine_topic,
                queue_id=queue_id,
                queue_offset=queue_offset,
                messages_max=1,
                bytes_max=1,
            )
        )
    except StoreError:
        return None
    return records[-1].store_timestamp_ms if records else None
