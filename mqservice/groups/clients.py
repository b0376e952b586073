"""The current consumers of a group, over REST: ``…/groups/{group}/clients``."""

from __future__ import annotations

from ninja import Router, Schema

from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.errors import problem_from_store
from mqservice.groups.queries import get_group
from mqservice.lib.clock import SystemClock
from mqservice.lib.names import CONSUMER_PREFIX, ENGINE_SEPARATOR
from mqservice.lib.timestamps import rfc3339
from mqservice.store import GroupRef, Member, StoreError, TopicMembers, blocking_client

router = Router(tags=["groups"])


class ClientOut(Schema):
    """`consumer`: its consumer_id, or the service's own name for a socket or request without one.
    `queues`: assigned to it; null in a shared group, where it may read any, and in a broadcast one,
    where each `client_id` reads all."""

    consumer: str
    queues: list[int] | None
    waiting: bool
    inflight: int
    zone: str | None
    heard_at: str
    client_id: str | None

    @classmethod
    def of(cls, member: Member, *, is_exclusive: bool, now_ms: int) -> ClientOut:
        return cls(
            consumer=member.member_id.removeprefix(CONSUMER_PREFIX),
            queues=list(member.queue_ids) if is_exclusive else None,
            waiting=member.is_waiting,
            inflight=member.inflight_count,
            zone=member.zone or None,
            heard_at=rfc3339(now_ms - member.silent_ms),
            client_id=member.client_id or None,
        )


class TopicClientsOut(Schema):
    """`generation` counts the changes of assignment, `unassigned` are queues without a consumer;
    both null unless the group is exclusive. `is_complete`: whether `clients` are all; the latest
    come first. `filter`: that of all members, null for everything. `held_up`: the maximum number of
    messages of a queue is in flight, while others wait there."""

    topic: str
    generation: int | None
    unassigned: list[int] | None
    clients: list[ClientOut]
    is_complete: bool
    filter: str | None
    held_up: bool

    @classmethod
    def of(cls, topic: TopicMembers, *, is_exclusive: bool, now_ms: int) -> TopicClientsOut:
        return cls(
            topic=topic.topic.partition(ENGINE_SEPARATOR)[2],
            generation=topic.generation if is_exclusive else None,
            unassigned=list(topic.unassigned) if is_exclusive else None,
            clients=[
                ClientOut.of(member, is_exclusive=is_exclusive, now_ms=now_ms)
                for member in topic.members
            ],
            is_complete=topic.is_complete,
            filter=topic.filter or None,
            held_up=topic.is_full,
        )


class GroupClientsOut(Schema):
    """For the topics that the group has read, by name."""

    group: str
    topics: list[TopicClientsOut]


@router.get("/ns/{ns}/groups/{group}/clients", response=GroupClientsOut)
def read_clients(request: AuthedRequest, ns: str, group: str) -> GroupClientsOut:
    """Who reads for the group now. Two queries, one call to the engine."""
    row = get_group(get_namespace(request.auth, ns), group)
    try:
        with blocking_client(row.namespace.shard) as client:
            found = client.group_members(GroupRef(group=row.engine_name))
    except StoreError as exc:
        raise problem_from_store(exc) from exc
    now_ms = SystemClock().now_ms()
    is_exclusive = row.dispatch == "exclusive"
    return GroupClientsOut(
        group=row.name,
        topics=[
            TopicClientsOut.of(topic, is_exclusive=is_exclusive, now_ms=now_ms)
            for topic in found.topics
        ],
    )
