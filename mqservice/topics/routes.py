"""What the data plane must know of a topic, in one small frozen object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.db.models import Q

from mqservice.accounts.scopes import ANYTHING
from mqservice.lib.names import engine_name
from mqservice.topics.models import Topic
from mqservice.topics.queue_options import NO_OPTIONS, QueueOptions, queue_options_of

# The arguments of ``_route_of``: a thousand topics as models take four times as long.
_COLUMNS: Final = (
    "namespace__name", "namespace__shard", "namespace__moving_to", "name", "queue_count",
    "body_bytes_max", "durability", "message_type", "sqs", "letter_sources",
)  # fmt: skip


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
    is_moving: bool = False  # to another shard, in a moment


def find_topic_route(tenant_id: int, namespace: str, name: str) -> TopicRoute | None:
    """One query, which cannot see another tenant's rows."""
    rows = Topic.objects.filter(
        namespace__tenant_id=tenant_id, namespace__name=namespace, name=name
    )
    row = rows.values_list(*_COLUMNS).first()
    return None if row is None else _route_of(*row)


class TopicsAfter(NamedTuple):
    """Which topics of a namespace: those with a name of ``patterns``, behind ``after``."""

    tenant_id: int
    namespace: str
    patterns: tuple[str, ...]
    after: str
    count_max: int


class TopicRoutes(NamedTuple):
    """By name; ``left_count``: how many there are behind these."""

    routes: list[TopicRoute]
    left_count: int


def find_topic_routes(asked: TopicsAfter) -> TopicRoutes:
    """One query, and one more where there are more; neither sees another tenant's rows."""
    rows = Topic.objects.filter(
        namespace__tenant_id=asked.tenant_id, namespace__name=asked.namespace, name__gt=asked.after
    )
    if ANYTHING not in asked.patterns:
        rows = rows.filter(_any_of(asked.patterns))
    some = rows.values_list(*_COLUMNS).order_by("name")[: asked.count_max + 1]
    found = [_route_of(*row) for row in some]
    left_count = 0
    if len(found) > asked.count_max:
        found.pop()
        left_count = rows.filter(name__gt=found[-1].name).count()
    return TopicRoutes(found, left_count)


def _any_of(patterns: Iterable[str]) -> Q:
    wanted = Q(pk__in=[])
    for pattern in patterns:
        if pattern.endswith(ANYTHING):
            wanted |= Q(name__startswith=pattern.removesuffix(ANYTHING))
        else:
            wanted |= Q(name=pattern)
    return wanted


def _route_of(
    namespace: str,
    shard: str,
    moving_to: str,
    name: str,
    queue_count: int,
    body_bytes_max: int,
    durability: str,
    message_type: str,
    sqs: Any,  # Any: as the model has it
    letter_sources: list[str],
) -> TopicRoute:
    return TopicRoute(
        namespace=namespace,
        name=name,
        shard=shard,
        engine_name=engine_name(namespace=namespace, name=name),
        queue_count=queue_count,
        body_bytes_max=body_bytes_max,
        durability=durability,
        message_type=message_type,
        queue=queue_options_of(sqs),
        letter_sources=tuple(letter_sources),
        is_moving=moving_to != "",
    )
