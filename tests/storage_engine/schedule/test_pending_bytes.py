"""Bytes of namespaces that are still to come: a look tells what a walk over all of it finds."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from storage_engine.records.topic_names import namespace_of
from storage_engine.schedule import pending_bytes
from storage_engine.schedule.pending_bytes import PendingBytes
from storage_engine.schedule.source import real_topic
from storage_engine.server.namespace_usage import NamespaceUsageCounter
from storage_engine.server.store_calls import store_calls
from storage_engine.wire.operations import Op
from storage_engine.wire.scheduled import ScheduledCancelRequest, ScheduledOutcome
from storage_engine.wire.usage import UsageReply, UsageRequest
from tests.storage_engine.doubles import OpenStore
from tests.storage_engine.schedule.delaying import delayed, numbered

NAMES = ("acme", "rival", "")
TOPICS = ("acme%a", "acme%b", "rival%a", "t")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_bytes, "BLOCK_UNITS", 4)


def pending_of(store: OpenStore, look_units_max: int = 1_000) -> PendingBytes:
    return PendingBytes(
        store.store.parts.commit_log,
        store.store.consumption.schedule.sources,
        lambda topic: namespace_of(topic.decode()),
        look_units_max,
    )


def walked(store: OpenStore) -> Counter[str]:
    """What is to come, unit by unit."""
    found: Counter[str] = Counter()
    log = store.store.parts.commit_log
    for source in store.store.consumption.schedule.sources:
        for place in range(source.start, source.end):
            if source.is_pending(place):
                physical_offset, record_bytes, _ = source.queue.unit(place)
                topic = real_topic(log.properties(physical_offset, record_bytes) or b"")
                found[namespace_of(topic.decode())] += record_bytes
    return found


def told(pending: PendingBytes) -> Counter[str]:
    return Counter({name: pending.measure(name) for name in NAMES if pending.measure(name)})


def look_at_all(pending: PendingBytes) -> None:
    """As often as it takes to see all that is new and all that has changed."""
    for _ in range(1_000):
        pending.scan()
        if not pending.is_exhausted and not any(one.stale_count for one in pending._queues):
            return
    raise AssertionError("no look saw all of it")


@pytest.mark.parametrize("look_units_max", [3, 9, 1_000])
async def test_what_was_counted_is_what_is_to_come_whatever_came_and_went(
    tmp_path: Path, look_units_max: int
) -> None:
    chance = random.Random(look_units_max)
    async with OpenStore(tmp_path) as store:
        for topic in TOPICS:
            store.topic(topic)
        pending = pending_of(store, look_units_max)
        number, most = 0, 0
        waiting: dict[int, str] = {}
        for _ in range(25):
            for _ in range(chance.randrange(6)):
                topic, body = chance.choice(TOPICS), b"x" * chance.randrange(300)
                wait = {"level": 3} if chance.random() < 0.3 else {"delay_ms": 1_000 * number + 500}
                await store.put(delayed(body, number, topic=topic, **wait))
                waiting[number] = topic
                number += 1
            if waiting and chance.random() < 0.4:
                cancelled = chance.choice(list(waiting))
                request = ScheduledCancelRequest(
                    topic=waiting.pop(cancelled), message_id=numbered(cancelled)
                )
                store.store.scheduled.cancel(request)
            if chance.random() < 0.4:
                await store.pass_time(chance.randrange(3_000))
            look_at_all(pending)
            assert told(pending) == walked(store)
            most = max(most, sum(told(pending).values()))
        assert most > 0
        await store.pass_time(1_000_000)
        look_at_all(pending)
        assert told(pending) == walked(store) == Counter()


async def test_a_look_that_saw_not_all_says_so_and_the_next_continues(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic("acme%a")
        for number in range(10):
            await store.put(delayed(b"x", number, delay_ms=9_000, topic="acme%a"))
        await store.settled()
        pending, seen = pending_of(store, 4), []
        for _ in range(3):
            pending.scan()
            seen.append((pending.measure("acme"), pending.is_exhausted))
        whole = walked(store)["acme"]
        assert seen == [(whole * 4 // 10, True), (whole * 8 // 10, True), (whole, False)]


async def test_messages_count_too_long_rather_than_too_short(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic("acme%a")
        for number in range(16):
            await store.put(delayed(b"x", number, delay_ms=500 + 100 * number, topic="acme%a"))
        await store.settled()
        pending = pending_of(store, 16)
        pending.scan()
        assert not pending.is_exhausted
        pending._look_units_max = 4  # one block a look
        while whole := walked(store)["acme"]:
            pending.scan()
            assert pending.measure("acme") >= whole
            await store.pass_time(100)
        for _ in range(4):
            pending.scan()
        assert pending.measure("acme") == 0


async def test_a_start_finds_what_is_to_come_again(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic("acme%a")
        await store.put(delayed(b"x", 1, delay_ms=9_000, topic="acme%a"))
        await store.settled()
        before = walked(store)
    async with OpenStore(tmp_path) as store:
        pending = pending_of(store)
        pending.scan()
        assert told(pending) == before != Counter()


async def test_a_namespace_holds_what_it_has_scheduled_until_it_is_cancelled(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic("acme%a")
        clock_ns = 0

        def measured_ns() -> int:
            nonlocal clock_ns
            clock_ns += 10**9
            return clock_ns

        uses = NamespaceUsageCounter(
            store.store.parts.queues,
            store.store.consumption.delivery.subscriptions,
            measured_ns,
            pending=pending_of(store),
        )

        def held() -> int:
            nonlocal clock_ns
            clock_ns += 1_000 * 10**9
            reply = uses.usage(UsageRequest(namespaces=["acme", "rival"]))
            assert (reply.namespaces[1].stored_bytes, reply.is_complete) == (0, True)
            return reply.namespaces[0].stored_bytes

        await store.put(delayed(b"x" * 100, 1, delay_ms=1_000, topic="acme%a"))
        await store.put(delayed(b"x" * 100, 2, delay_ms=9_000, topic="acme%a"))
        await store.settled()
        two = held()
        assert two > 200
        await store.pass_time(1_500)  # the first one is in its topic now: held all the same
        assert two // 2 < held() < two
        request = ScheduledCancelRequest(topic="acme%a", message_id=numbered(2))
        assert store.store.scheduled.cancel(request).outcome is ScheduledOutcome.DONE
        assert 0 < held() < two // 2


async def test_the_engine_tells_it_when_it_is_asked(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic("acme%a")
        await store.put(delayed(b"x" * 100, 1, delay_ms=1_000, topic="acme%a"))
        await store.settled()
        reply = store_calls(store.store)[Op.USE](UsageRequest(namespaces=["acme"]))
        assert isinstance(reply, UsageReply)
        assert reply.namespaces[0].stored_bytes == walked(store)["acme"] > 100
