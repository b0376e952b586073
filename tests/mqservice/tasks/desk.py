"""A group that has given messages up, on a real engine, with the rows that tasks need.

produce ──▶ topic ──▶ leased, given up ──▶ %DLQ%group ──▶ (a task) ──▶ topic ──▶ taken
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

from mqservice.accounts.access import Principal
from mqservice.accounts.models import Namespace
from mqservice.accounts.scopes import Scope
from mqservice.groups.models import ConsumerGroup
from mqservice.store import (
    GroupConfig,
    LeaseRef,
    Nack,
    PullRequest,
    ReceiveRequest,
    SettleRequest,
    StoreMessage,
    TopicConfig,
    TopicNotFound,
    blocking_client,
    dlq_topic_of,
    encode_record,
    new_message_id,
)
from mqservice.tasks.models import Task, TaskKind
from mqservice.tasks.selection import Selection
from mqservice.tasks.services import TaskRequest, create_task
from mqservice.topics.models import Topic
from tests.clock import ManualClock
from tests.mqservice.delivery.wait_until import wait_until

MESSAGES_MAX = 100
BYTES_MAX = 4 * 1024 * 1024
_numbers = itertools.count()


@dataclass
class Desk:
    """``topic`` and ``group`` are of this desk alone, so that tests may share an engine."""

    namespace: Namespace
    topic: Topic
    group: ConsumerGroup
    clock: ManualClock

    @property
    def principal(self) -> Principal:
        """Who orders tasks here."""
        return Principal(
            key_id="test",
            tenant_id=self.namespace.tenant_id,
            tenant=self.namespace.name,
            namespace_id=None,
            namespace=None,
            scopes=frozenset(Scope),
        )

    def make_topic(self, name: str) -> Topic:
        topic = Topic.objects.create(namespace=self.namespace, name=name, queue_count=1)
        with blocking_client(self.namespace.shard) as client:
            client.topic_put(TopicConfig(topic=topic.engine_name, queue_count=1))
        return topic

    def give_up(
        self, *bodies: bytes, tag: str | None = None, keys: list[str] | None = None
    ) -> list[str]:
        """Put as many messages and give them up. Their ids."""
        ids = [new_message_id() for _ in bodies]
        with blocking_client(self.namespace.shard) as client:
            client.put(
                [
                    encode_record(
                        StoreMessage(
                            topic=self.topic.engine_name, queue_id=0, body=body, tag=tag,
                            keys=keys or [], message_group=None, properties={},
                            born_timestamp_ms=1, born_host=("127.0.0.1", 1), message_id=one,
                        )
                    )
                    for one, body in zip(ids, bodies, strict=True)
                ]
            )  # fmt: skip
        self.give_up_delivered(len(bodies))
        return ids

    def give_up_delivered(self, count: int) -> None:
        """Give up the next ``count`` messages of the topic; returns when they are dead letters."""
        there = self.dlq_size()
        with blocking_client(self.namespace.shard) as client:
            given = 0
            while given < count:
                received = client.receive(self._receive_request(self.topic, wait_ms=30_000))
                assert received.records, f"{given} of {count} were delivered"
                nacks = [
                    Nack(
                        topic=record.topic,
                        queue_id=record.queue_id,
                        lease_generation=received.head.lease_generation,
                        queue_offset=record.queue_offset,
                        is_dead=True,
                    )
                    for record in received.records
                ]
                client.settle(SettleRequest(group=self.group.engine_name, nacks=nacks))
                given += len(nacks)
        wait_until(lambda: self.dlq_size() == there + count)

    def dlq_size(self) -> int:
        with blocking_client(self.namespace.shard) as client:
            try:
                head, _ = client.pull(self._pull_request(0))
            except TopicNotFound:
                return 0
        return head.max_offset

    def dead(self) -> list[bytes]:
        """Bodies of the dead letters that are there."""
        bodies, offset = [], 0
        with blocking_client(self.namespace.shard) as client:
            while True:
                head, records = client.pull(self._pull_request(offset))
                bodies += [record.body for record in records]
                if head.next_offset == offset:
                    return bodies
                offset = head.next_offset

    def taken(self, topic: Topic | None = None) -> list[bytes]:
        """Receive and acknowledge all that the group can have; its bodies in their order."""
        topic = topic or self.topic
        bodies: list[bytes] = []
        with blocking_client(self.namespace.shard) as client:
            while True:
                received = client.receive(self._receive_request(topic, wait_ms=0))
                if not received.records:
                    return bodies
                bodies += [record.body for record in received.records]
                ack = LeaseRef(
                    topic=topic.engine_name,
                    queue_id=0,
                    lease_generation=received.head.lease_generation,
                    queue_offsets=[record.queue_offset for record in received.records],
                )
                reply = client.settle(SettleRequest(group=self.group.engine_name, acks=[ack]))
                assert reply.acked_count == len(received.records)

    def order(
        self,
        selection: Selection | None = None,
        *,
        kind: TaskKind = TaskKind.REDRIVE,
        target: Topic | None = None,
        rate: int = 1_000,
    ) -> Task:
        """A task as the API makes it."""
        order = TaskRequest(
            kind=kind,
            group=self.group,
            selection=selection or Selection(),
            target=target,
            rate=rate,
        )
        return create_task(order, self.principal, self.clock)

    def _receive_request(self, topic: Topic, *, wait_ms: int) -> ReceiveRequest:
        return ReceiveRequest(
            group=self.group.engine_name,
            topic=topic.engine_name,
            member_id="m",
            messages_max=MESSAGES_MAX,
            bytes_max=BYTES_MAX,
            wait_ms=wait_ms,
            lease_ms=60_000,
        )

    def _pull_request(self, offset: int) -> PullRequest:
        return PullRequest(
            topic=dlq_topic_of(self.group.engine_name),
            queue_id=0,
            queue_offset=offset,
            messages_max=MESSAGES_MAX,
            bytes_max=BYTES_MAX,
        )


def open_desk(namespace: Namespace) -> Desk:
    name = f"desk{next(_numbers)}"
    group = ConsumerGroup.objects.create(namespace=namespace, name=name)
    with blocking_client(namespace.shard) as client:
        client.group_put(GroupConfig(group=group.engine_name))
    desk = Desk(namespace, Topic(name=name), group, ManualClock.ahead())
    desk.topic = desk.make_topic(name)
    return desk


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def outcomes(task: Task) -> Counter[str]:
    """How many of the listed messages failed in which way."""
    return Counter(task.failures.values_list("outcome", flat=True))
