"""Resets and commits as tests ask for them, and what is left of a group's progress after them."""

from __future__ import annotations

from storage_engine.errors import LeaseExpired
from storage_engine.records.record import Record
from storage_engine.wire.deliveries import Extend, LeaseRef, Nack, SettleRequest
from storage_engine.wire.groups import GroupQueueStats
from storage_engine.wire.offsets import (
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetResetReply,
    OffsetResetRequest,
    ResetTo,
)
from tests.storage_engine.doubles import Leased, OpenStore


async def filled(store: OpenStore, count: int, *, queues: int = 1, group: str = "g") -> OpenStore:
    """Topic ``t`` with messages ``0``, ``1``, … in each of its queues, and a group."""
    store.topic(queues=queues)
    store.group(group)
    for queue_id in range(queues):
        await store.put_bodies(*(b"%d" % index for index in range(count)), queue_id=queue_id)
    return store


def reset(
    store: OpenStore,
    to: ResetTo,
    value: int = 0,
    *queue_ids: int,
    group: str = "g",
    topic: str = "t",
    is_dry_run: bool = False,
) -> OffsetResetReply:
    return store.store.consumption.offset_reset(
        OffsetResetRequest(
            group=group,
            topic=topic,
            to=to,
            value=value,
            queue_ids=queue_ids,
            is_dry_run=is_dry_run,
        )
    )


def commit(
    store: OpenStore, offset: int, queue_id: int = 0, *, group: str = "g"
) -> OffsetCommitReply:
    return store.store.consumption.offset_commit(
        OffsetCommitRequest(group=group, topic="t", queue_id=queue_id, offset=offset)
    )


def changes(reply: OffsetResetReply) -> list[tuple[int | None, int, int | None, int | None]]:
    """(from, to, skipped, replayed) of each queue."""
    return [
        (each.from_offset, each.to_offset, each.skipped_count, each.replayed_count)
        for each in reply.queues
    ]


def stats(store: OpenStore, group: str = "g") -> list[GroupQueueStats]:
    return store.store.consumption.group_stats(group).queues


def consumer_offsets(store: OpenStore, group: str = "g") -> list[int]:
    """Of the queues of ``t``."""
    return [each.consumer_offset for each in stats(store, group) if each.topic == "t"]


def offsets_of(leased: Leased) -> list[int]:
    return [record.queue_offset for record in leased.records]


def ack_of(leased: Leased, record: Record) -> SettleRequest:
    ref = LeaseRef(
        topic=record.topic,
        queue_id=record.queue_id,
        lease_generation=leased.generation,
        queue_offsets=[record.queue_offset],
    )
    return SettleRequest(group="g", acks=[ref])


def nack_of(leased: Leased, record: Record, delay_ms: int | None = 0) -> SettleRequest:
    nack = Nack(
        topic=record.topic,
        queue_id=record.queue_id,
        lease_generation=leased.generation,
        queue_offset=record.queue_offset,
        delay_ms=delay_ms,
    )
    return SettleRequest(group="g", nacks=[nack])


def extend_of(leased: Leased, record: Record) -> SettleRequest:
    extend = Extend(
        topic=record.topic,
        queue_id=record.queue_id,
        lease_generation=leased.generation,
        queue_offset=record.queue_offset,
        lease_ms=5_000,
    )
    return SettleRequest(group="g", extends=[extend])


def assert_void(store: OpenStore, leased: Leased) -> None:
    """Its receipts settle nothing."""
    for record in leased.records:
        for request in (ack_of, nack_of, extend_of):
            reply = store.store.consumption.settle(request(leased, record))
            assert [each.code for each in reply.failures] == [LeaseExpired.code]
            assert (reply.acked_count, reply.nacked_count) == (0, 0)
