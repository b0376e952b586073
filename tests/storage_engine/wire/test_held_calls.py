"""Calls wait while an engine is replaced, within limits; nothing that was sent is sent again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from storage_engine.errors import (
    OutcomeUnknown,
    ShuttingDown,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from storage_engine.wire.async_client import AsyncStoreClient
from storage_engine.wire.client_types import ClientConfig, Received
from storage_engine.wire.deliveries import LeaseRef, SettleRequest
from storage_engine.wire.frames import Frame
from storage_engine.wire.held_calls import HeldCalls
from storage_engine.wire.operations import Op
from storage_engine.wire.topics import TopicRef
from tests.storage_engine.doubles import WAIT_S, ManualClock
from tests.storage_engine.wire.test_client_puts import HELLO, SlowEngine, play, record, texts
from tests.storage_engine.wire.test_engine_silence import QUICK, receive_request

REPLICATED = msgspec.structs.replace(HELLO, is_replicated=True)
LEASE = LeaseRef(topic="t", queue_id=0, lease_generation=7, queue_offsets=[0])
NEVER_MS = 3_600_000  # the connection that was lost was the last one


class ToldReceive:
    """Who receives without a task."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[Received] = asyncio.get_running_loop().create_future()

    def received(self, received: Received) -> None:
        self.outcome.set_result(received)

    def receive_failed(self, error: StoreError) -> None:
        self.outcome.set_exception(error)


async def lose(client: AsyncStoreClient, engine: SlowEngine) -> None:
    engine.writer.close()
    while client.is_connected:
        await asyncio.sleep(0)


def test_what_was_not_sent_is_sent_to_the_next_engine_and_nothing_else(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        sent = client.put([record("a")])
        await engine.puts.get()
        waiting = client.put([record("b")])
        await lose(client, engine)
        later = client.put([record("c")])
        with pytest.raises(OutcomeUnknown):
            await sent
        for text in "bc":
            frame = await engine.puts.get()
            assert texts(frame) == [text]
            engine.answer(frame)
        await asyncio.gather(waiting, later)
        assert engine.connection_count == 2

    play(tmp_path, scenario, hello=REPLICATED)


def test_a_put_that_a_stopping_engine_refuses_goes_to_the_next_one(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        put = client.put([record("a")])
        engine.refuse(await engine.puts.get(), ShuttingDown("the engine is stopping"))
        await lose(client, engine)
        assert not put.done()
        frame = await engine.puts.get()
        assert (texts(frame), engine.connection_count) == (["a"], 2)
        engine.answer(frame)
        await put

    play(tmp_path, scenario, hello=REPLICATED)


def changes(client: AsyncStoreClient) -> list[asyncio.Future[Any]]:  # Any: replies
    """Requests with a frame of their own that change something."""
    settle = SettleRequest(group="g", acks=[LEASE])
    return [
        asyncio.ensure_future(client.settle(settle)),
        asyncio.ensure_future(client.put_once([record("a")])),
        asyncio.ensure_future(client.topic_delete(TopicRef(topic="t"))),
    ]


async def frames_of(calls: list[asyncio.Future[Any]], engine: SlowEngine) -> list[Frame]:
    return [await engine.puts.get() for _ in calls]


def sent(frames: list[Frame]) -> list[tuple[int, bytes]]:
    return [(frame.op, bytes(frame.payload)) for frame in frames]


def test_changes_that_a_stopping_engine_refuses_go_to_the_next_one(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        calls = changes(client)
        refused = await frames_of(calls, engine)
        for frame in refused:
            engine.refuse(frame, ShuttingDown("the engine is stopping"))
        await lose(client, engine)
        assert not any(call.done() for call in calls)
        again = await frames_of(calls, engine)
        assert (sent(again), engine.connection_count) == (sent(refused), 2)
        for frame in again:
            engine.refuse(frame, StoreBusy("by the next engine"))
        for call in calls:
            with pytest.raises(StoreBusy, match="by the next engine"):
                await call

    play(tmp_path, scenario, hello=REPLICATED)


def test_changes_that_may_have_been_made_are_not_sent_to_the_next_engine(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        calls = changes(client)
        await frames_of(calls, engine)
        await lose(client, engine)
        for call in calls:
            with pytest.raises(OutcomeUnknown):
                await call
        later = client.put([record("b")])
        frame = await engine.puts.get()
        assert texts(frame) == ["b"]
        engine.answer(frame)
        await later

    play(tmp_path, scenario, hello=REPLICATED)


def test_an_engine_that_nobody_can_replace_refuses_at_once_when_it_stops(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        calls = [*changes(client), client.put([record("a")])]
        for frame in await frames_of(calls, engine):
            engine.refuse(frame, ShuttingDown("the engine is stopping"))
        for call in calls:
            with pytest.raises(ShuttingDown):
                await call

    play(tmp_path, scenario)


def test_a_call_is_held_no_longer_than_its_limit(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        await lose(client, engine)
        listing = asyncio.ensure_future(client.topic_list())
        calls: list[asyncio.Future[Any]] = [client.put([record("a")]), listing]  # Any: replies
        await asyncio.sleep(0)
        assert not any(call.done() for call in calls)
        for call in calls:
            with pytest.raises(StoreUnavailable, match="no storage engine answers"):
                await call

    play(tmp_path, scenario, hello=REPLICATED, hold_ms_max=20, reconnect_min_ms=NEVER_MS)


def test_an_engine_that_nobody_can_replace_is_not_waited_for(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        await lose(client, engine)
        assert client.put([record("a")]).exception() is not None

    play(tmp_path, scenario, reconnect_min_ms=NEVER_MS)


def test_a_receive_that_waits_goes_on_at_the_next_engine_but_not_at_a_third(
    tmp_path: Path,
) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        told = ToldReceive()
        client.receive_for(told, receive_request(wait_ms=60_000))
        by_task = asyncio.ensure_future(client.receive(receive_request()))
        first, _ = await engine.puts.get(), await engine.puts.get()
        await lose(client, engine)
        with pytest.raises(StoreUnavailable):
            await by_task  # a subscription, which has more to do on a new connection
        put = client.put([record("later")])
        again = await engine.puts.get()
        assert (again.op, again.payload) == (Op.RECEIVE, first.payload)
        engine.answer(await engine.puts.get())
        await put
        await lose(client, engine)
        with pytest.raises(StoreUnavailable):
            await told.outcome

    play(tmp_path, scenario, hello=REPLICATED)


def test_a_call_that_nobody_waits_for_any_more_is_not_sent(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        await lose(client, engine)
        gone = asyncio.ensure_future(client.topic_stats(TopicRef(topic="t")))
        pending = client.receive_for(ToldReceive(), receive_request())
        put = client.put([record("a")])
        kept = client.put([record("b")])
        await asyncio.sleep(0)
        gone.cancel()
        pending.cancel()
        put.cancel()
        frame = await engine.puts.get()
        assert (frame.op, texts(frame)) == (Op.PUT, ["b"])
        engine.answer(frame)
        await kept

    play(tmp_path, scenario, hello=REPLICATED)


def test_a_client_that_is_closed_fails_what_it_holds(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        await lose(client, engine)
        put = client.put([record("a")])
        await client.aclose()
        with pytest.raises(ShuttingDown):
            await put

    play(tmp_path, scenario, hello=REPLICATED, reconnect_min_ms=NEVER_MS)


async def test_a_silent_engine_is_left_for_the_one_that_took_over(tmp_path: Path) -> None:
    engines = SlowEngine(REPLICATED), SlowEngine(REPLICATED)
    paths = [str(tmp_path / name) for name in ("old", "new")]
    servers = [
        await asyncio.start_unix_server(engine.serve, path)
        for engine, path in zip(engines, paths, strict=True)
    ]
    known = [paths[0]]

    async def find() -> str:
        return known[-1]

    client = AsyncStoreClient(find, client_name="t", config=QUICK)
    await client.wait_connected(60_000)
    while client.is_connected:  # it answers no ping
        await asyncio.sleep(0)
    put = client.put([record("a")])
    known.append(paths[1])
    frame = await asyncio.wait_for(engines[1].puts.get(), WAIT_S)
    engines[1].answer(frame)
    await put
    assert engines[0].puts.empty()
    await client.aclose()
    for engine, server in zip(engines, servers, strict=True):
        engine.writer.close()
        server.close()


# Limits -------------------------------------------------------------------------------------------

LIMITS = ClientConfig(
    hold_ms_max=5_000, hold_count_max=2, hold_bytes_max=100, hold_outage_ms_max=30_000
)


class Holder:
    """Held calls by name; what became of each is in ``sent`` and ``failed``."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.calls = HeldCalls(LIMITS, self.clock, lambda: StoreUnavailable("away"))
        self.sent: list[str] = []
        self.failed: list[str] = []
        self._count = 0

    def hold(self, name: str, size_bytes: int = 1) -> bool:
        self._count += 1
        return self.calls.hold(
            self._count,
            size_bytes,
            lambda: self.sent.append(name),
            lambda _: self.failed.append(name),
        )


async def test_no_more_calls_and_bytes_are_held_than_allowed() -> None:
    holder = Holder()
    assert not holder.hold("connected")
    holder.calls.begin()
    assert not holder.hold("large", 101)
    assert holder.hold("a", 60)
    assert not holder.hold("b", 41)
    assert holder.hold("c", 40)
    assert not holder.hold("d", 0)
    holder.calls.drop(3)
    assert holder.hold("e", 100 - 40)
    holder.calls.resume()
    assert (holder.sent, holder.failed) == (["c", "e"], [])
    assert not holder.hold("connected again")


async def test_each_call_waits_for_its_own_time() -> None:
    holder = Holder()
    holder.calls.begin()
    holder.hold("a")
    holder.clock.advance(1_000)
    holder.hold("b")
    holder.clock.advance(4_000)
    holder.calls.fail_late()
    assert (holder.failed, len(holder.calls)) == (["a"], 1)
    holder.clock.advance(1_000)
    holder.calls.fail_late()
    assert (holder.failed, len(holder.calls)) == (["a", "b"], 0)


async def test_in_a_long_outage_nothing_is_held() -> None:
    holder = Holder()
    holder.calls.begin()
    holder.clock.advance(29_999)
    holder.calls.begin()
    assert holder.hold("a")
    holder.clock.advance(1)
    assert not holder.hold("b")
    holder.calls.resume()
    holder.calls.begin()
    assert holder.hold("c")
    holder.calls.fail_all()
    assert (holder.sent, holder.failed) == (["a"], ["c"])
