"""What the data plane must know of a topic, in one small frozen object."""

from __future__ import annotations

from dataclasses import dataclass

from mqservice.lib.names import engine_name
from mqservice.topics.models import Topic
from mqservice.topics.queue_options import NO_OPTIONS, QueueOptions, queue_options_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRoute:
    """Where a topic's messages go and what it takes."""

    namespace: str
    name: str
    shard: str
    engine_name: str
    queue_count: int
    body_bytes_max: int
    durability: str
    message_type: str
    queue: QueueOptions = NO_OPTIONS
    letter_sources: tuple[str, ...] = ()


def find_topic_route(tenant_id: int, namespace: str, name: str) -> TopicRoute | None:
    """One query, which cannot see another tenant's rows."""
    rows = Topic.objects.select_related("namespace")
    topic = rows.filter(
        namespace__tenant_id=tenant_id, namespace__name=namespace, name=name
    ).first()
    if topic is None:
        return None
    return TopicRoute(
        namespace=namespace,
        name=name,
        shard=topic.namespace.shard,
        engine_name=engine_name(namespace=namespace, name=name),
        queue_count=topic.queue_count,
        body_bytes_max=topic.body_bytes_max,
        durability=topic.durability,
        message_type=topic.message_type,
        queue=queue_options_of(topic.sqs),
        letter_sources=tuple(topic.letter_sources),
    )
