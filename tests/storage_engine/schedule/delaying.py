"""Messages that a producer wants delivered later, as its client encodes them."""

from __future__ import annotations

import msgspec

from storage_engine.records.record import StoreMessage
from storage_engine.records.scheduled_message import Wait, scheduled
from tests.storage_engine.doubles import OpenStore, Put, message


def numbered(number: int) -> str:
    """The id of a message."""
    return f"{number:034X}"


def delayed(
    body: bytes,
    number: int = 0,
    *,
    level: int = 0,
    delay_ms: int = 0,
    deliver_at_ms: int = 0,
    topic: str = "t",
    queue_id: int = 0,
) -> StoreMessage:
    """A message for ``topic`` that waits."""
    plain = msgspec.structs.replace(
        message(body, topic=topic, queue_id=queue_id), message_id=numbered(number)
    )
    return scheduled(plain, Wait(level, delay_ms, deliver_at_ms))


async def put_delayed(store: OpenStore, *messages: StoreMessage) -> Put:
    """Put; from then on a delay takes as long as it says.

    The engine counts the millisecond that has begun in full, which is over on return.
    """
    put = await store.put(*messages)
    store.clock.advance(1)
    return put


async def until_delivered(store: OpenStore) -> list[bytes]:
    """All bodies in the topic after everything that is due now has arrived."""
    await store.settled()
    return store.pull_bodies()
