"""Messages of message groups for a group that keeps their order, as tests put and settle them.

A body is its message group and a number: ``a1`` comes before ``a2``; those of ``-`` have none.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from storage_engine.records.record import StoreMessage
from storage_engine.wire.deliveries import Nack, SettleReply, SettleRequest
from storage_engine.wire.groups import Dispatch, GroupConfig
from storage_engine.wire.reads import PullRequest
from tests.storage_engine.doubles import Leased, ManualClock, OpenStore, message

DLQ = "%DLQ%g"


def grouped(text: str, *, queue_id: int = 0, tag: str | None = None) -> StoreMessage:
    one = message(text.encode(), queue_id=queue_id, tag=tag)
    return one if text[0] == "-" else msgspec.structs.replace(one, message_group=text[0])


def ordered_group(**settings: object) -> GroupConfig:
    """Group ``g``, ordered and shared; ``settings`` as in ``GroupConfig``."""
    return msgspec.convert({"group": "g", "is_ordered": True, **settings}, GroupConfig)


async def put(store: OpenStore, *texts: str, queue_id: int = 0) -> None:
    for text in texts:
        assert (await store.put(grouped(text, queue_id=queue_id))).error is None


async def opened(
    store_dir: Path,
    *texts: str,
    queues: int = 1,
    clock: ManualClock | None = None,
    limits: dict[str, int] | None = None,
    **settings: object,
) -> OpenStore:
    """A store with the messages in queue 0 of ``t``, and the group."""
    store = OpenStore(store_dir, clock=clock, limits=limits).open()
    store.topic(queues=queues)
    store.store.catalog.group_put(ordered_group(**settings))
    await put(store, *texts)
    return store


def texts_of(leased: Leased) -> list[str]:
    return [body.decode() for body in leased.bodies]


def received(store: OpenStore, count: int = 16, *, lease_ms: int = 60_000) -> list[str]:
    return texts_of(store.receive(count, lease_ms=lease_ms))


def ack(store: OpenStore, leased: Leased, *texts: str) -> SettleReply:
    """All, unless some are named."""
    wanted = [text.encode() for text in texts] or leased.bodies
    chosen = [record for record in leased.records if record.body in wanted]
    assert len(chosen) == len(wanted) > 0
    return store.ack(leased._replace(records=chosen))


def nack(
    store: OpenStore, leased: Leased, *texts: str, delay_ms: int | None = None, **how: bool
) -> None:
    """``how``: ``is_dead``, ``is_release``."""
    nacks = [
        Nack(
            topic=record.topic, queue_id=record.queue_id, lease_generation=leased.generation,
            queue_offset=record.queue_offset, delay_ms=delay_ms, reason="not now", **how,
        )
        for record in leased.records if record.body.decode() in texts
    ]  # fmt: skip
    assert len(nacks) == len(texts)
    reply = store.store.consumption.settle(SettleRequest(group="g", nacks=nacks))
    assert reply.failures == []


def dead_count(store: OpenStore) -> int:
    if DLQ not in store.store.catalog.topics:
        return 0
    request = PullRequest(topic=DLQ, queue_id=0, queue_offset=0, messages_max=99, bytes_max=1 << 20)
    return len(store.store.pull(request)[1])


def set_group(store: OpenStore, dispatch: Dispatch, *, is_ordered: bool) -> None:
    config = ordered_group(dispatch=dispatch, is_ordered=is_ordered)
    store.store.catalog.group_put(config)
