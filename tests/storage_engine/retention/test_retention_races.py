"""Retention beside everything else that goes on: what it may not take, and what it may not end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

from storage_engine.errors import StoreError
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.wire.deliveries import Nack, SettleRequest
from tests.storage_engine.doubles import SEGMENT_BYTES, WAIT_S, OpenStore, copy_store, message
from tests.storage_engine.retention.deleting import delayed
from tests.storage_engine.retention.test_retention import (
    BODY,
    HOUR_MS,
    LIMITS,
    limits,
    queue_of,
    scheduled,
)

MANY_QUEUES = 250  # a pass over more than 200 lets others run in between


async def test_messages_that_are_durable_and_not_yet_visible_stay(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        log, synced = store.store._commit_log, threading.Event()
        sync = log.sync

        def noted(to: int) -> None:
            sync(to)
            if to == 2 * 4_096 + 4 * 956:
                synced.set()

        log.sync = noted  # type: ignore[method-assign]
        puts = [store.start_put([message(BODY)] * 4) for _ in range(3)]  # three segments
        assert synced.wait(WAIT_S)  # the flusher's thread is done, the loop has not heard of it
        await store.store.retention.run()
        for put in puts:
            assert (await put).error is None
        assert len(store.pull_bodies()) == 12


async def waiting_again(store: OpenStore) -> None:
    """A message that was given back, and whose time is over."""
    store.topic(queues=MANY_QUEUES)
    store.group()
    await store.put_bodies(BODY)
    leased = store.receive(1)
    nack = Nack(
        topic="t",
        queue_id=0,
        lease_generation=leased.generation,
        queue_offset=0,
        delay_ms=0,
    )
    assert store.store.consumption.settle(SettleRequest(group="g", nacks=[nack])).nacked_count == 1
    store.clock.advance(HOUR_MS + 1)


async def test_a_receive_in_the_middle_of_a_pass_is_answered(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        await waiting_again(store)
        running = asyncio.ensure_future(store.store.retention.run())
        await asyncio.sleep(0)
        assert not running.done()
        store.receive()
        await running
        assert store.receive().bodies == []


async def test_what_is_leased_in_the_middle_of_a_pass_stays(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic("first", queues=MANY_QUEUES)
        store.topic()
        store.group()
        await store.put_bodies(BODY)
        store.clock.advance(HOUR_MS + 1)
        running = asyncio.ensure_future(store.store.retention.run())
        await asyncio.sleep(0)
        leased = store.receive(1)
        await running
        if leased.records:
            assert store.pull_bodies() == [BODY]
        assert store.store.retention.lost_message_count == 1 - len(leased.records)


async def test_more_scheduled_messages_than_a_segment_holds_are_appended_again(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s", limits=limits(retention_bytes=4 * 4_096)) as store:
        store.topic()
        store.topic(SCHEDULE_TOPIC)
        for body in [BODY] * 8:
            await store.put(*scheduled([body], store.clock.now_ms() + HOUR_MS))
        await store.put_bodies(*[BODY] * 16)
        await store.store.retention.run()
        queue = queue_of(store, SCHEDULE_TOPIC)
        assert (queue.min_offset, queue.max_offset) == (8, 16)


async def test_nothing_is_appended_while_a_failed_sync_is_mended(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=limits(retention_bytes=2 * 4_096)) as store:
        store.topic()
        store.topic(SCHEDULE_TOPIC)
        await store.put(*scheduled([b"due"], store.clock.now_ms() + HOUR_MS))
        await store.put_bodies(*[BODY] * 9)
        begun, gate = threading.Event(), threading.Event()
        create = store.files.create

        def slowly(path: Path, *args: object, **named: object) -> None:
            create(path, *args, **named)  # type: ignore[arg-type]
            if threading.current_thread() is not threading.main_thread():
                begun.set()
                gate.wait(WAIT_S)

        store.files.create = slowly  # type: ignore[method-assign]
        store.files.sync_failures = 1
        put = store.start_put([message(b"mended")])
        await asyncio.to_thread(begun.wait, WAIT_S)
        pass_ = asyncio.ensure_future(store.store.retention.run())
        await asyncio.sleep(0.01)
        gate.set()
        assert (await asyncio.wait_for(put, WAIT_S)).error is None
        with contextlib.suppress(StoreError):  # it is tried again
            await pass_
        store.files.create = create  # type: ignore[method-assign]
        await store.put_bodies(b"behind")
        queue = queue_of(store, SCHEDULE_TOPIC)
        for unit in queue.units(queue.min_offset, 100):
            assert not store.store._commit_log.damaged([unit[:2]])
        copy = copy_store(tmp_path / "s", tmp_path / "copy")
    files = type(store.files)()
    files.medium = "second boot"
    async with OpenStore(copy, clock=store.clock, files=files) as store:
        assert store.pull_bodies(queue_offset=store.store.catalog.get_queues("t")[0].min_offset)[
            -2:
        ] == [b"mended", b"behind"]


async def test_a_message_that_is_appended_again_is_not_delivered_from_its_old_place_too(
    tmp_path: Path,
) -> None:
    few = {"retention_bytes": 2 * SEGMENT_BYTES}
    async with OpenStore(tmp_path / "s", limits=few) as store:
        for name in ("t", "other", SCHEDULE_TOPIC):
            store.topic(name)
        await store.put(delayed(b"once", due_ms=store.clock.now_ms() + 1_000))
        for _ in range(8):
            await store.put(message(bytes(2_000), topic="other"))
        store.store.tick()  # it is found, and comes within the horizon
        store.store.tick()
        before = store.store.stats(0).append_offset
        store.files.sync_gate = threading.Event()
        passing = asyncio.ensure_future(store.store.retention.run())
        while store.store.stats(0).append_offset == before:
            await asyncio.sleep(0)
        store.clock.advance(1_000)
        store.store.tick()
        store.files.sync_gate.set()
        assert await passing > 0
        await store.settled()
        assert store.pull_bodies() == [b"once"]


async def test_what_was_released_and_has_expired_is_not_looked_for(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        await store.put_bodies(b"a", b"b")
        leased = store.receive()
        releases = [
            Nack(
                topic="t", queue_id=0, lease_generation=leased.generation, queue_offset=offset,
                is_release=True,
            )
            for offset in (0, 1)
        ]  # fmt: skip
        store.store.consumption.settle(SettleRequest(group="g", nacks=releases))
        store.store.catalog.get_queues("t")[0].raise_min(1)
        assert store.receive().bodies == [b"b"]
