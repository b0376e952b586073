"""Reads of schemas, each within one namespace."""

from __future__ import annotations

from collections.abc import Iterable

from mqservice.accounts.models import Namespace
from mqservice.lib.problem import Problem
from mqservice.topic_schemas.models import TopicSchema


def find_schema(namespace: Namespace, topic: str) -> TopicSchema | None:
    """One query."""
    return TopicSchema.objects.filter(topic__namespace=namespace, topic__name=topic).first()


def schemas_of(namespace: Namespace, topics: Iterable[str]) -> dict[str, TopicSchema]:
    """Of those of the topics that have one, by topic. One query."""
    rows = TopicSchema.objects.filter(topic__namespace=namespace, topic__name__in=set(topics))
    return {row.topic.name: row for row in rows.select_related("topic")}


def get_schema(namespace: Namespace, topic: str) -> TopicSchema:
    """Raises Problem SCHEMA_NOT_FOUND. One query."""
    row = find_schema(namespace, topic)
    if row is None:
        raise Problem.of("SCHEMA_NOT_FOUND", f"{topic} has no schema")
    return row
