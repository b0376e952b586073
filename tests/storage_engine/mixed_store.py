"""A store of many messages of every kind, and what each of them was; for readers to compare with.

messages(count) ── batches and singles, all at once ──▶ Store ──▶ files
                └─ SentMessage of each, with the place it got ──▶ the test
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from storage_engine.clock import SystemClock
from storage_engine.config import KIB, StoreConfig
from storage_engine.errors import StoreError
from storage_engine.puts.put_path import Appended
from storage_engine.records.record import StoreMessage, encode_record
from storage_engine.store import Store
from storage_engine.wire.groups import GroupConfig
from storage_engine.wire.topics import Durability, TopicConfig

SEGMENT_BYTES: Final = 1_024 * KIB
INDEX_SLOTS: Final = 5_000
# The third has a name of more than 127 bytes, so its records are of version 2.
TOPICS: Final = (
    TopicConfig(topic="orders", queue_count=4),
    TopicConfig(topic="demo%events", queue_count=3, durability=Durability.ASYNC),
    TopicConfig(topic="demo%" + "long-name_" * 20, queue_count=2),
)
HOSTS: Final = (
    ("10.1.2.3", 40_000),
    ("192.168.255.254", 65_535),
    ("2001:db8::42", 1),
    ("::1", 50_123),
)
TEXTS: Final = ("plain", "Grüße aus Köln", "消息队列", "émoji 🚀 and 𝄞", " ", "")
TAGS: Final = (None, "created", "Änderung", "polygenelubricants", "🚀")
UNSYNCED_BYTES: Final = 8 * 1_024 * KIB


class SentMessage(NamedTuple):
    """A message as it was sent, its body reduced to a SHA-256, and where it was put."""

    message: StoreMessage
    body_bytes: int
    body_sha256: bytes
    queue_offset: int
    physical_offset: int


def config(store_dir: Path) -> StoreConfig:
    """Small segments, queue files and index files, so that all of them roll many times."""
    limits = {
        "segment_bytes": SEGMENT_BYTES,
        "consume_queue_units": 1_000,
        "index_slots": INDEX_SLOTS,
        "index_entries": 4 * INDEX_SLOTS,
        "prefault_bytes": 0,
        "checkpoint_interval_ms": 1_000,
    }
    return msgspec.convert({"store_dir": str(store_dir), **limits}, StoreConfig)


def messages(count: int, seed: int = 1) -> Iterator[StoreMessage]:
    """Different in everything a message can have; the same ones for the same seed."""
    chance = random.Random(seed)
    noise = chance.randbytes(64 * KIB)
    for number in range(count):
        topic = chance.choice(TOPICS)
        size = 1 + int(chance.expovariate(1 / 250))
        if number % 1_000 == 0:
            size = chance.randrange(4_096, 20_000)  # more than a page
        elif number % 50 == 0:
            size = 1
        at = chance.randrange(len(noise) - size)
        yield StoreMessage(
            topic=topic.topic,
            queue_id=chance.randrange(topic.queue_count),
            body=noise[at : at + size],
            message_id=f"01{number:032X}",
            born_timestamp_ms=1_700_000_000_000 + number,
            born_host=HOSTS[number % len(HOSTS)],
            tag=TAGS[number % len(TAGS)],
            keys=[f"key-{number // 3}", f"k{number % 7}"][: number % 3],
            message_group=f"group-{number % 11}" if number % 4 == 0 else None,
            properties={f"p{i}": TEXTS[(number + i) % len(TEXTS)] for i in range(number % 4)},
            flag=chance.randrange(-(1 << 31), 1 << 31),
            reconsume_times=number % 5,
        )


async def fill(store_dir: Path, count: int) -> list[SentMessage]:
    """Put ``count`` messages, one put in eight alone and the others in batches; close the store.

    Returns them in the order of their physical offsets.
    """
    store = Store(config(store_dir), SystemClock())
    store.open(asyncio.get_running_loop())
    for topic in TOPICS:
        store.catalog.topic_put(topic)
    store.catalog.group_put(GroupConfig(group="readers"))
    sent: list[SentMessage] = []
    chance = random.Random(count)
    source = messages(count)
    unanswered = 0
    while batch := _take(source, 1 if chance.random() < 0.125 else chance.randrange(2, 200)):
        unanswered += 1

        def answered(
            appended: Appended,
            store_timestamp_ms: int,
            error: StoreError | None,
            of: list[StoreMessage] = batch,
        ) -> None:
            nonlocal unanswered
            assert error is None
            unanswered -= 1
            places = zip(of, appended.offsets[::2], appended.offsets[1::2], strict=True)
            sent.extend(_sent(*place) for place in places)

        store.put(b"".join(map(encode_record, batch)), answered)
        while store.unsynced_bytes > UNSYNCED_BYTES:
            await asyncio.sleep(0)
    while unanswered:
        await asyncio.sleep(0.001)
    await store.close()
    return sorted(sent, key=lambda each: each.physical_offset)


def _take(source: Iterator[StoreMessage], count: int) -> list[StoreMessage]:
    return list(itertools.islice(source, count))


def _sent(message: StoreMessage, queue_offset: int, physical_offset: int) -> SentMessage:
    assert queue_offset >= 0
    body = message.body
    return SentMessage(
        msgspec.structs.replace(message, body=b""),
        len(body),
        hashlib.sha256(body).digest(),
        queue_offset,
        physical_offset,
    )
