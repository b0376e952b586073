"""Reads of topics, with what the engine reports of them."""

from __future__ import annotations

from collections.abc import Sequence

from mqservice.accounts.models import Namespace
from mqservice.lib.problem import Problem
from mqservice.lib.rows import RowFinder
from mqservice.store import QueueStats, StoreClient, StoreError, TopicRef
from mqservice.topics.models import Topic

TOPICS_PAGE_MAX = 1_000
TOPICS = RowFinder(Topic, "namespace_id", "name")


def topics_of(
    namespace: Namespace, *, after: str = "", contains: str = "", limit: int = TOPICS_PAGE_MAX
) -> list[Topic]:
    """Topics whose name comes after ``after`` and has ``contains`` in it, by name, at most
    ``limit``. One query.
    """
    rows = namespace.topics.filter(name__gt=after).order_by("name")
    if contains:
        rows = rows.filter(name__icontains=contains)
    return list(rows[: min(limit, TOPICS_PAGE_MAX)])


def topic_names_of(namespace: Namespace, *, limit: int = TOPICS_PAGE_MAX) -> list[str]:
    """The first names of topics, at most ``limit``. One query."""
    rows = Topic.objects.filter(namespace=namespace).order_by("name")
    return list(rows.values_list("name", flat=True)[:limit])


def get_topic(namespace: Namespace, name: str) -> Topic:
    """Raises Problem TOPIC_NOT_FOUND. One query."""
    topic = TOPICS.find(namespace.pk, name)
    if topic is None:
        raise Problem.of("TOPIC_NOT_FOUND", f"{name} does not exist in {namespace.name}")
    topic.namespace = namespace
    return topic


def queue_stats(client: StoreClient, topic: Topic) -> list[QueueStats] | None:
    """Offsets per queue; None when the engine cannot tell. One call to the engine."""
    return queue_stats_of_all(client, [topic])[0]


def queue_stats_of_all(
    client: StoreClient, topics: Sequence[Topic]
) -> list[list[QueueStats] | None]:
    """Those of each topic in order. The engine is asked for several topics at a time."""
    try:
        replies = client.topic_stats_all([TopicRef(topic=each.engine_name) for each in topics])
    except StoreError:
        return [None] * len(topics)
    return [None if isinstance(reply, StoreError) else reply.queues for reply in replies]
