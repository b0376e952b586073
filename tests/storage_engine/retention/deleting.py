"""A store whose topics and groups are deleted: who waits is told, who reads looks again."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from storage_engine.delivery.subscription import Delivered
from storage_engine.errors import StoreError
from storage_engine.records.record import StoreMessage
from storage_engine.records.record_run import decode_records
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.wire.deliveries import Nack, ReceiveRequest, SettleRequest
from storage_engine.wire.reads import PullRequest
from tests.storage_engine.doubles import Leased, OpenStore, message
from tests.storage_engine.stopping import kill

RETRY_DELAY_MS = 5_000


async def begun(store_dir: Path, *bodies: bytes, queues: int = 1) -> OpenStore:
    """A store with topic ``t`` and group ``g``, and the messages in its queue 0."""
    store = OpenStore(store_dir).open()
    store.topic(queues=queues)
    store.group()
    await store.put_bodies(*bodies)
    return store


def killed(store: OpenStore) -> OpenStore:
    """What the next process finds after a kill -9."""
    kill(store.store)
    return OpenStore(store.store_dir, clock=store.clock).open()


def rebuilt(store: OpenStore) -> OpenStore:
    """The same, when consume queues and index were deleted in between."""
    kill(store.store)
    for derived in ("consumequeue", "index"):
        shutil.rmtree(store.store_dir / derived, ignore_errors=True)
    return OpenStore(store.store_dir, clock=store.clock).open()


def delete_topic(store: OpenStore, topic: str = "t") -> None:
    store.store.consumption.deletions.topic_delete(topic)


def delete_group(store: OpenStore, group: str = "g") -> None:
    store.store.consumption.deletions.group_delete(group)


def park(store: OpenStore, group: str = "g") -> list[StoreError | None]:
    """Wait for messages; the list gets what came instead of them, None when they came."""
    answers: list[StoreError | None] = []

    def answered(delivered: Delivered) -> None:
        answers.append(delivered.refusal)

    request = ReceiveRequest(
        group=group, topic="t", member_id="m", messages_max=1, bytes_max=1 << 20,
        wait_ms=10_000, lease_ms=1_000,
    )  # fmt: skip
    store.store.consumption.receive(request, answered)
    return answers


def receive(store: OpenStore, topic: str) -> Leased:
    """What of a topic is ready for group ``g`` now."""
    answers: list[Delivered] = []
    request = ReceiveRequest(
        group="g", topic=topic, member_id="m", messages_max=16, bytes_max=1 << 20, wait_ms=0,
        lease_ms=1_000,
    )  # fmt: skip
    store.store.consumption.receive(request, answers.append)
    (found,) = answers
    records = decode_records(store.store.read_records(found.records))
    return Leased(found.lease_generation, found.attempts, records)


def start_nack(
    store: OpenStore, leased: Leased, delay_ms: int = RETRY_DELAY_MS, *, is_dead: bool = False
) -> None:
    """Give all back."""
    nacks = [
        Nack(
            topic=record.topic, queue_id=record.queue_id, lease_generation=leased.generation,
            queue_offset=record.queue_offset, delay_ms=delay_ms, is_dead=is_dead,
        )
        for record in leased.records
    ]  # fmt: skip
    reply = store.store.consumption.settle(SettleRequest(group="g", nacks=nacks))
    assert not reply.failures


async def nack(
    store: OpenStore, leased: Leased, delay_ms: int = RETRY_DELAY_MS, *, is_dead: bool = False
) -> None:
    """The same, and wait until what follows from it at once is durable."""
    start_nack(store, leased, delay_ms, is_dead=is_dead)
    await store.settled()


async def wait_for_schedule(store: OpenStore, delay_ms: int) -> None:
    """Until what is due within ``delay_ms`` has come; the first look after a start takes a tick."""
    await store.pass_time(delay_ms + 1)
    await store.pass_time(1)


def bodies_of(store: OpenStore, topic: str = "t", queue_id: int = 0) -> list[bytes]:
    """All bodies that can be pulled from the queue's min_offset on."""
    queue = store.store.catalog.get_queues(topic)[queue_id]
    request = PullRequest(
        topic=topic, queue_id=queue_id, queue_offset=queue.min_offset, messages_max=1_000,
        bytes_max=1 << 20,
    )  # fmt: skip
    _, found = store.store.pull(request)
    return [record.body for record in decode_records(store.store.read_records(found))]


def delayed(body: bytes, *, due_ms: int, topic: str = "t") -> StoreMessage:
    """A message for queue 0 of a topic, due at a time; the schedule topic must be there."""
    properties = {"REAL_TOPIC": topic, "REAL_QID": "0", "TIMER_DELIVER_MS": str(due_ms)}
    return msgspec.structs.replace(message(body, topic=SCHEDULE_TOPIC), properties=properties)
