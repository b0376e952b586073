"""Reads of schemas, each within one namespace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.db.models import Func, Sum, TextField
from django.db.models.functions import Length

from mqservice.accounts.models import Namespace
from mqservice.lib.problem import Problem
from mqservice.topic_schemas.models import TopicSchema

_SHA256: Final = Func(
    "definition",
    template="encode(sha256(convert_to(%(expressions)s, 'UTF8')), 'hex')",
    output_field=TextField(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchema:
    """``row``: without its definition, which would be a query; ``sha256``: of it."""

    row: TopicSchema
    sha256: str


def find_schema(namespace: Namespace, topic: str) -> TopicSchema | None:
    """One query."""
    return TopicSchema.objects.filter(topic__namespace=namespace, topic__name=topic).first()


def schemas_of(namespace: Namespace, topics: Iterable[str]) -> dict[str, TopicSchema]:
    """Of those of the topics that have one, by topic. One query."""
    rows = TopicSchema.objects.filter(topic__namespace=namespace, topic__name__in=set(topics))
    return {row.topic.name: row for row in rows.select_related("topic")}


def stored_schemas(namespace: Namespace, topics: Iterable[str]) -> dict[str, StoredSchema]:
    """The same without definitions, each of which may have 256 KiB. One query."""
    rows = TopicSchema.objects.filter(topic__namespace=namespace, topic__name__in=set(topics))
    found = rows.select_related("topic").defer("definition").annotate(digest=_SHA256)
    return {row.topic.name: StoredSchema(row=row, sha256=row.digest) for row in found}


def definition_chars(namespace: Namespace, topics: Iterable[str]) -> int:
    """The length of all their definitions together. One query."""
    rows = TopicSchema.objects.filter(topic__namespace=namespace, topic__name__in=set(topics))
    return int(rows.aggregate(chars=Sum(Length("definition"), default=0))["chars"])


def get_schema(namespace: Namespace, topic: str) -> TopicSchema:
    """Raises Problem SCHEMA_NOT_FOUND. One query."""
    row = find_schema(namespace, topic)
    if row is None:
        raise Problem.of("SCHEMA_NOT_FOUND", f"{topic} has no schema")
    return row
