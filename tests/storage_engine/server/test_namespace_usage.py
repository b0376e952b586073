"""Bytes that topics hold and leases of namespaces, counted when somebody asks and not before."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from storage_engine.clock import measured_ns
from storage_engine.errors import BadRequest
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.queues.stored_bytes import BLOCK_UNITS, StoredBytes
from storage_engine.server.namespace_usage import NamespaceUsageCounter
from storage_engine.wire.usage import NAMES_MAX, NamespaceUsage, UsageRequest
from tests.storage_engine.delivery.requests import Asked
from tests.storage_engine.doubles import FaultyFiles, OpenStore, message, tiny_config


def counter(store: OpenStore, clock_ns: Callable[[], int]) -> NamespaceUsageCounter:
    delivery = store.store.consumption.delivery
    return NamespaceUsageCounter(store.store.parts.queues, delivery.subscriptions, clock_ns)


def read_anew(queue: ConsumeQueue) -> int:
    """What a look finds that remembers nothing."""
    units = queue.units(queue.min_offset, queue.max_offset - queue.min_offset)
    return sum(record_bytes for _, record_bytes, _ in units)


def looked(stored: StoredBytes, topic: bytes) -> int:
    """As often as it takes to see all."""
    for _ in range(1_000):
        stored.start_scan()
        total_bytes = stored.measure(topic)
        if not stored.is_exhausted:
            return total_bytes
    raise AssertionError("no look saw all of it")


@pytest.mark.parametrize("look_units_max", [7, 5_000, 1_000_000])
def test_what_was_counted_is_what_can_be_read_whatever_came_and_went(
    tmp_path: Path, look_units_max: int
) -> None:
    chance = random.Random(look_units_max)
    config = tiny_config(tmp_path, consume_queue_units=512, consume_queue_allocate_bytes=512 * 20)
    queues = ConsumeQueues(config, FaultyFiles())
    stored = StoredBytes(queues, look_units_max)
    physical_offset, steps = 0, 40 if look_units_max > 7 else 3
    for _ in range(steps):
        made = queues.ensure("t", chance.randrange(1, 4))
        for queue in made:
            for _ in range(chance.randrange(BLOCK_UNITS // 2) if steps > 3 else 300):
                record_bytes = chance.randrange(91, 2_000)
                queue.put(physical_offset, record_bytes, 0)
                physical_offset += record_bytes
            if chance.random() < 0.5:
                queue.raise_min(queue.min_offset + chance.randrange(BLOCK_UNITS))
                queue.delete_unreadable_files()
        assert looked(stored, b"t") == sum(map(read_anew, made))
    assert sum(map(read_anew, made)) > 0
    queues.close()


def test_a_topic_made_again_counts_from_nothing(tmp_path: Path) -> None:
    queues = ConsumeQueues(tiny_config(tmp_path), FaultyFiles())
    stored = StoredBytes(queues)
    queues.ensure("t", 1)[0].put(0, 100, 0)
    assert looked(stored, b"t") == 100
    for queue in queues:
        queue.synced(queue.max_offset)
    assert queues.forget("t")
    assert looked(stored, b"t") == 0
    queues.ensure("t", 1)[0].put(100, 200, 0)
    queues.ensure("t", 2)[1].put(300, 50, 0)
    assert looked(stored, b"t") == 250
    queues.close()


async def test_namespaces_are_distinguished_and_include_what_groups_keep(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        for topic in ("acme%a", "acme%b", "%DLQ%acme%g", "acme2%a", "t"):
            store.topic(topic)
            await store.put(message(b"x" * 100, topic=topic))
        uses = counter(store, measured_ns)
        found = uses.usage(UsageRequest(namespaces=["acme", "acme2", "none"], topics=["t", "u"]))
        one = found.topic_bytes[0]
        assert one > 100
        assert found.topic_bytes == [one, 0]
        acme, acme2, none = (use.stored_bytes for use in found.namespaces)
        assert (none, found.is_complete) == (0, True)
        assert acme > 2 * acme2 > one
        with pytest.raises(BadRequest):
            uses.usage(UsageRequest(namespaces=[str(n) for n in range(NAMES_MAX + 1)]))


async def test_leases_count_until_they_are_settled_or_end(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        await store.put_bodies(b"a", b"b", b"c")
        clock_ns = 0
        uses = counter(store, lambda: clock_ns)

        def inflight() -> int:
            nonlocal clock_ns
            clock_ns += 1
            return uses.usage(UsageRequest(namespaces=["g"])).namespaces[0].inflight_count

        assert inflight() == 0
        Asked(store, 2)
        assert inflight() == 2
        await store.pass_time(2_000)
        assert inflight() == 0


async def test_an_answer_is_given_again_for_a_while_that_its_cost_decides(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic("acme%a")
        times = iter([0, 10, 100, 511, 600])
        uses = counter(store, lambda: next(times))
        asked = UsageRequest(namespaces=["acme"])
        assert uses.usage(asked).namespaces == [NamespaceUsage(0, 0)]
        await store.put(message(b"x", topic="acme%a"))
        assert uses.usage(asked).namespaces == [NamespaceUsage(0, 0)]  # 50 times 10 ns are not over
        assert uses.usage(asked).namespaces[0].stored_bytes > 0
