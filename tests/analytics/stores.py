"""Stores as the real engine leaves them, with messages of two tenants in every state."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.delivery.subscription import Delivered
from storage_engine.records.record import Record, StoreMessage
from storage_engine.records.record_run import decode_records
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.wire.dead_letters import RedriveReply, RedriveRequest
from storage_engine.wire.deliveries import LeaseRef, Nack, ReceiveRequest, SettleRequest
from storage_engine.wire.groups import GroupConfig, StartFrom
from tests.storage_engine.doubles import ManualClock, OpenStore, message

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
LIMITS: Final = {"segment_bytes": 16_384, "consume_queue_units": 1_024}
ORDERS: Final = "acme%orders"
LONG: Final = "globex%" + "long-name_" * 20  # its records are of version 2
TOPICS: Final = (ORDERS, LONG)


def at(text: str) -> int:
    """Epoch ms of a time such as ``2026-03-28T22:30+00:00``."""
    return round(dt.datetime.fromisoformat(text).timestamp() * 1_000)


def open_store(store_dir: Path, start_ms: int) -> OpenStore:
    """Open it within the coroutine; its clock begins at ``start_ms``."""
    return OpenStore(store_dir, clock=ManualClock(start_ms), limits=LIMITS)


def make_topics(store: OpenStore) -> None:
    store.topic(ORDERS, queues=2)
    store.topic(LONG)
    store.store.catalog.group_put(GroupConfig(group="acme%billing", start_from=StartFrom.EARLIEST))


def order(number: int, *, queue_id: int = 0, **fields: object) -> StoreMessage:
    plain = message(b"order %d" % number, topic=ORDERS, queue_id=queue_id)
    return msgspec.structs.replace(plain, message_id=f"ID{number:030d}", **fields)


async def put_orders(store: OpenStore, count: int, *, topic: str = ORDERS) -> None:
    for number in range(count):
        made = msgspec.structs.replace(order(number), topic=topic)
        assert (await store.put(made)).error is None


def receive(store: OpenStore, topic: str = ORDERS, count: int = 100) -> tuple[int, list[Record]]:
    """What is ready for the group now, and the generation of its leases."""
    answers: list[tuple[int, list[Record]]] = []

    def answered(delivered: Delivered) -> None:
        records = decode_records(store.store.read_records(delivered.records))
        answers.append((delivered.lease_generation, records))

    request = ReceiveRequest(
        group="acme%billing", topic=topic, member_id="m", messages_max=count, bytes_max=1 << 20,
        wait_ms=0, lease_ms=60_000,
    )  # fmt: skip
    store.store.consumption.receive(request, answered)
    return answers[0]


async def fail(
    store: OpenStore, received: tuple[int, list[Record]], *, is_dead: bool = False
) -> None:
    """Give all of it back, for an immediate retry or never again; done when this returns."""
    generation, records = received
    nacks = [
        Nack(
            topic=record.topic, queue_id=record.queue_id, lease_generation=generation,
            queue_offset=record.queue_offset, delay_ms=1_000, reason="db down", is_dead=is_dead,
        )
        for record in records
    ]  # fmt: skip
    settle(store, nacks=nacks)
    await store.settled()


def ack(store: OpenStore, received: tuple[int, list[Record]]) -> None:
    generation, records = received
    acks = [
        LeaseRef(
            topic=record.topic, queue_id=record.queue_id, lease_generation=generation,
            queue_offsets=[record.queue_offset],
        )
        for record in records
    ]  # fmt: skip
    settle(store, acks=acks)


def settle(store: OpenStore, *, acks: Iterable[LeaseRef] = (), nacks: Iterable[Nack] = ()) -> None:
    request = SettleRequest(group="acme%billing", acks=list(acks), nacks=list(nacks))
    reply = store.store.consumption.settle(request)
    assert not reply.failures


async def redrive(store: OpenStore, *queue_offsets: int) -> None:
    replies: list[RedriveReply] = []
    request = RedriveRequest(group="acme%billing", queue_offsets=list(queue_offsets))
    store.store.consumption.dead_letters.redrive(request, replies.append)
    await store.settled()
    assert len(replies[0].outcomes) == len(queue_offsets)


async def live_through_failures(store: OpenStore, *, redriven_offset: int) -> None:
    """Ten orders more: four acked, six retried, of which three given up, and one of those redriven.

    What stood in the topic before is acked.
    """
    await put_orders(store, 10)
    generation, records = receive(store)
    ack(store, (generation, records[:-6]))
    await fail(store, (generation, records[-6:]))
    await store.pass_time(2_000)
    generation, records = receive(store)
    assert [record.reconsume_times for record in records] == [1] * 6
    ack(store, (generation, records[:3]))
    await fail(store, (generation, records[3:]), is_dead=True)
    await redrive(store, redriven_offset)


def counters(store: OpenStore) -> dict[str, int]:
    """How many messages each topic ever got, as the engine's queues say."""
    names = [topic.topic for topic in store.store.catalog.topic_list()]
    found = {
        name: sum(queue.max_offset for queue in store.store.topic_stats(name).queues)
        for name in names
    }
    waiting = store.store._queues.by_topic.get(SCHEDULE_TOPIC.encode(), [])
    return found | {SCHEDULE_TOPIC: sum(queue.max_offset for queue in waiting)}
