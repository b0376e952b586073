"""Puts under keys of requests, and whether a crash left each of them one message."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

import msgspec

from storage_engine.errors import StoreError
from storage_engine.records.dedup_mark import PROPERTY_DEDUP, dedup_value
from storage_engine.records.record import encode_record
from storage_engine.wire.put_once import PutOncePlace, PutOnceReply, PutOnceRequest
from tests.storage_engine.crash.promises import Acked, KeySent, Promises, Queue, Sent
from tests.storage_engine.crash.violation import Violation
from tests.storage_engine.doubles import OpenStore, message

if TYPE_CHECKING:
    from tests.storage_engine.crash.story import Story


async def put_once(store: OpenStore, queue: Queue, body: bytes, key: str) -> PutOncePlace:
    """Raises what the store answers."""
    topic, queue_id = queue
    fingerprint = hashlib.blake2b(body, digest_size=16).digest()
    one = msgspec.structs.replace(
        message(body, topic=topic, queue_id=queue_id),
        properties={PROPERTY_DEDUP: dedup_value(fingerprint, key)},
    )
    answered: asyncio.Future[PutOncePlace] = asyncio.get_running_loop().create_future()

    def answer(reply: PutOnceReply | None, error: StoreError | None) -> None:
        if error is not None:
            answered.set_exception(error)
        else:
            assert reply is not None
            answered.set_result(reply.places[0])

    store.store.once_puts.put(PutOnceRequest(records=encode_record(one)), answer)
    return await answered


async def keyed_sends(story: Story) -> None:
    """Each twice, with checkpoints and a kill between them."""
    story.topic(queues=2)
    for index in range(14):
        queue = "t", index % 2
        body = story.body(150 + 211 * index % 900, *queue)
        for notice in (Sent(queue, body), KeySent(queue, body, f"k{index}")):
            story.recorder.told(notice)
        place = await put_once(story.store, queue, body, f"k{index}")
        story.recorder.told(Acked(queue, place.queue_offset, body, True))
        again = await put_once(story.store, queue, body, f"k{index}")
        if not again.is_duplicate:
            raise Violation("duplicate", f"key k{index} was stored at {place} and at {again}")
        if index % 4 == 3:
            await story.checkpoint()
        if index == 9:
            story.crash()


async def check_keys(store: OpenStore, promises: Promises) -> None:
    """Who never got an answer asks again: then there is one message, where it was if it was acked.

    Raises ``Violation``.
    """
    for key, (queue, body) in promises.keyed.items():
        async with asyncio.timeout(10):
            place = await put_once(store, queue, body, key)
        acked = [at for at, known in promises.acked[queue].items() if known == body]
        if place.code or (acked and [place.queue_offset] != acked):
            raise Violation("key-forgotten", f"{key}: acked at {acked}, now {place}")
        if acked and not place.is_duplicate:
            raise Violation("key-forgotten", f"{key}: stored again at {place}")
        async with asyncio.timeout(10):
            again = await put_once(store, queue, body, key)
        if not again.is_duplicate or again.queue_offset != place.queue_offset:
            raise Violation("duplicate", f"{key}: {place}, then {again}")
