"""What the pages show, gathered: rows from PostgreSQL beside what the engine says of them.

    topics_of, groups_of ─┐
    engine stats ─────────┼──▶ one frozen object a page ──▶ template
    heartbeats ───────────┘

The engine may be away: then its numbers are None, which templates show as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mqservice.accounts.models import Namespace
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.queries import groups_of, lag, progress
from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.monitoring.health import PartState, background_states
from mqservice.monitoring.sampling import engine_stats
from mqservice.store import GroupQueueStats, QueueStats, StatsReply, StoreClient, blocking_client
from mqservice.topics.models import Topic
from mqservice.topics.queries import queue_stats, topics_of

# Each row costs a call to the engine of well under a millisecond.
ROWS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic and its queues; ``queues`` is None when the engine cannot tell."""

    topic: Topic
    queues: list[QueueStats] | None

    @property
    def message_count(self) -> int | None:
        """Messages that can be read now."""
        if self.queues is None:
            return None
        return sum(queue.max_offset - queue.min_offset for queue in self.queues)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTopicRow:
    """A group's progress on one topic.

    As over REST, ``lag`` leaves out what waits for a retry, which is settled in the topic's queues;
    ``inflight_count`` has retries too.
    """

    topic: str
    lag: int
    inflight_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group; ``topics`` is None when the engine cannot tell, empty when it has read none."""

    group: ConsumerGroup
    topics: list[GroupTopicRow] | None

    @property
    def lag(self) -> int | None:
        """None while unknown, and for a group that has no position to count from."""
        return sum(topic.lag for topic in self.topics) if self.topics else None

    @property
    def inflight_count(self) -> int | None:
        if self.topics is None:
            return None
        return sum(topic.inflight_count for topic in self.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewPage:
    engine: StatsReply | None
    worker: PartState
    beat: PartState
    topics: list[TopicRow]
    groups: list[GroupRow]

    @property
    def message_count(self) -> int | None:
        counts = [row.message_count for row in self.topics]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    @property
    def lag(self) -> int | None:
        """Of the groups that have read something; None when one of them cannot be told."""
        readers = [row for row in self.groups if row.topics is None or row.topics]
        known = [row.lag for row in readers if row.lag is not None]
        return sum(known) if known and len(known) == len(readers) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsPage:
    is_engine_up: bool
    topics: list[TopicRow]


def overview_page(namespace: Namespace) -> OverviewPage:
    """Five queries, and a call to the engine per row."""
    engine = engine_stats()
    states = background_states(engine) or {}
    with blocking_client() as client:
        client_or_none = client if engine is not None else None
        return OverviewPage(
            engine=engine,
            worker=states.get("worker", PartState.UNKNOWN),
            beat=states.get("beat", PartState.UNKNOWN),
            topics=_topic_rows(client_or_none, namespace),
            groups=_group_rows(client_or_none, namespace),
        )


def topics_page(namespace: Namespace) -> TopicsPage:
    """Two queries, and a call to the engine per row."""
    engine = engine_stats()
    with blocking_client() as client:
        rows = _topic_rows(client if engine is not None else None, namespace)
    return TopicsPage(is_engine_up=engine is not None, topics=rows)


def _topic_rows(client: StoreClient | None, namespace: Namespace) -> list[TopicRow]:
    return [
        TopicRow(topic=topic, queues=None if client is None else queue_stats(client, topic))
        for topic in topics_of(namespace, limit=ROWS_MAX)
    ]


def _group_rows(client: StoreClient | None, namespace: Namespace) -> list[GroupRow]:
    rows = []
    for group in groups_of(namespace, limit=ROWS_MAX):
        queues = None if client is None else progress(client, group)
        rows.append(GroupRow(group=group, topics=None if queues is None else _by_topic(queues)))
    return rows


def _by_topic(queues: list[GroupQueueStats]) -> list[GroupTopicRow]:
    by_name: dict[str, list[GroupQueueStats]] = {}
    for queue in queues:
        by_name.setdefault(queue.retry_of or queue.topic, []).append(queue)
    return [
        GroupTopicRow(
            topic=name.partition(ENGINE_SEPARATOR)[2],
            lag=sum(lag(queue) for queue in each if not queue.retry_of),
            inflight_count=sum(queue.inflight_count for queue in each),
        )
        for name, each in sorted(by_name.items())
    ]
