"""An engine that stops answering is noticed soon, told from one that is busy, and taken back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from storage_engine.client import (
    AsyncStoreClient,
    ClientConfig,
    GroupConfig,
    OutcomeUnknown,
    ReceiveRequest,
    StoreClient,
    StoreUnavailable,
    TopicConfig,
    encode_record,
)
from storage_engine.server.server import Server
from storage_engine.store import Store
from storage_engine.wire.frames import (
    Frame,
    FrameDecoder,
    encode_frame,
    encode_struct,
)
from storage_engine.wire.operations import Op
from storage_engine.wire.protocol import Empty, HelloRequest
from storage_engine.wire.silence import SilenceWatch
from tests.storage_engine.doubles import WAIT_S, ManualClock, OpenStore, message
from tests.storage_engine.engines import Engine, engine_with_topic
from tests.storage_engine.wire.test_client_puts import HELLO, record

HOUR_MS = 3_600_000
# Only silence can end a request of these, and soon.
QUICK = ClientConfig(
    sweep_interval_ms=10,
    ping_after_ms=100,
    silent_after_ms=300,
    give_up_after_ms=900,
    request_timeout_ms=HOUR_MS,
)


def receive_request(wait_ms: int = 0) -> ReceiveRequest:
    return ReceiveRequest(
        group="g", topic="t", member_id="m", messages_max=10, bytes_max=1 << 20,
        wait_ms=wait_ms, lease_ms=12 * HOUR_MS,
    )  # fmt: skip


@contextmanager
def stopped(engine: Engine) -> Iterator[None]:
    os.kill(engine.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(engine.pid, signal.SIGCONT)


# Measuring ----------------------------------------------------------------------------------------


def test_silence_adds_up_look_by_look_and_ends_with_any_byte() -> None:
    clock = ManualClock()
    watch = SilenceWatch(clock, 250)
    watch.begin()
    silent = []
    for has_heard in (False, False, True, False):
        clock.advance(250)
        watch.has_received = has_heard
        silent.append(watch.check(unsent_bytes=0))
    assert silent == [250, 500, 0, 250]


def test_time_in_which_nobody_looked_is_not_the_engines_silence() -> None:
    clock = ManualClock()
    watch = SilenceWatch(clock, 250)
    watch.begin()
    clock.advance(60_000)  # this process was stopped
    assert watch.check(unsent_bytes=0) == 500


def test_an_engine_that_reads_what_waits_for_it_is_not_silent() -> None:
    clock = ManualClock()
    watch = SilenceWatch(clock, 250)
    watch.begin()
    silent = []
    for unsent_bytes in (3_000, 2_000, 2_000):
        clock.advance(250)
        silent.append(watch.check(unsent_bytes))
    assert silent == [250, 0, 250]


# The asyncio client -------------------------------------------------------------------------------


def test_an_engine_that_stops_is_noticed_and_taken_back_when_it_continues() -> None:
    async def scenario(engine: Engine) -> None:
        client = AsyncStoreClient(engine.socket, client_name="test", config=QUICK)
        await client.wait_connected(10_000)
        await client.group_put(GroupConfig(group="g"))
        await client.put([encode_record(message(b"first"))])
        with stopped(engine):
            put = client.put([encode_record(message(b"unknown"))])
            received = asyncio.ensure_future(client.receive(receive_request()))
            while client.is_connected:
                await asyncio.sleep(0.01)
            # New requests are refused at once, while those under way still wait.
            with pytest.raises(StoreUnavailable, match="has not answered for"):
                await client.put([encode_record(message(b"refused"))])
            with pytest.raises(StoreUnavailable):
                await client.ping()
            assert not put.done()
            with pytest.raises(OutcomeUnknown):
                await put
            with pytest.raises(StoreUnavailable):
                await received
        await client.wait_connected(10_000)
        # The stopped engine had been sent both. What it leased was given back: the lease is long.
        bodies: list[bytes] = []
        while len(bodies) < 2:
            again = await client.receive(receive_request(wait_ms=10_000))
            bodies += [each.body for each in again.records]
        assert sorted(bodies) == [b"first", b"unknown"]
        await client.aclose()

    with engine_with_topic() as engine:
        asyncio.run(asyncio.wait_for(scenario(engine), WAIT_S))


def test_an_engine_that_stops_before_it_greets_refuses_requests_at_once() -> None:
    async def scenario(engine: Engine) -> None:
        client = AsyncStoreClient(engine.socket, client_name="test", config=QUICK)
        with stopped(engine):
            client.start()
            with pytest.raises(StoreUnavailable):
                await client.wait_connected(50)
            with pytest.raises(StoreUnavailable):
                await client.put([encode_record(message(b"refused"))])
            with pytest.raises(StoreUnavailable):
                await client.ping()
        await client.wait_connected(10_000)
        await client.put([encode_record(message(b"a"))])
        await client.aclose()

    with engine_with_topic() as engine:
        asyncio.run(asyncio.wait_for(scenario(engine), WAIT_S))


class PingedEngine:
    """Greets, answers pings if it shall, and nothing else."""

    def __init__(self) -> None:
        self.pings: asyncio.Queue[Frame] = asyncio.Queue()
        self.others: asyncio.Queue[Frame] = asyncio.Queue()
        self.is_alive = True
        self.writer: asyncio.StreamWriter

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        decoder = FrameDecoder(1 << 20)
        while chunk := await reader.read(1 << 16):
            for frame in decoder.feed(chunk):
                if frame.op == Op.HELLO:
                    writer.write(encode_frame(Op.HELLO, frame.request_id, encode_struct(HELLO)))
                elif frame.op == Op.PING:
                    self.pings.put_nowait(frame)
                    if self.is_alive:
                        self.answer(frame)
                else:
                    self.others.put_nowait(frame)

    def answer(self, frame: Frame) -> None:
        self.writer.write(encode_frame(frame.op, frame.request_id, encode_struct(Empty())))


async def until(engine: PingedEngine, clock: ManualClock, ping_count: int) -> None:
    """Let time pass until so many more pings have come."""
    wanted = engine.pings.qsize() + ping_count
    while engine.pings.qsize() < wanted:
        clock.advance(QUICK.sweep_interval_ms)
        await asyncio.sleep(0.001)


def play_pinged(tmp_path: Path, *, is_alive: bool) -> None:
    async def main() -> None:
        engine, clock = PingedEngine(), ManualClock()
        engine.is_alive = is_alive
        path = str(tmp_path / "s")
        server = await asyncio.start_unix_server(engine.serve, path)
        config = msgspec.structs.replace(QUICK, sweep_interval_ms=10)
        client = AsyncStoreClient(path, client_name="t", config=config, clock=clock)
        await client.wait_connected(60_000)
        parked = asyncio.ensure_future(client.receive(receive_request(wait_ms=30_000)))
        await engine.others.get()
        if is_alive:
            await until(engine, clock, 20)
            assert client.is_connected
            assert not parked.done()
            parked.cancel()
        else:
            await until(engine, clock, 1)
            while not parked.done():
                clock.advance(10)
                await asyncio.sleep(0.001)
            with pytest.raises(StoreUnavailable):
                await parked
            assert engine.pings.qsize() == 1  # one is enough
            cancel = await engine.others.get()
            assert cancel.op == Op.CANCEL
            for ping in [engine.pings.get_nowait()]:
                engine.answer(ping)
            while not client.is_connected:
                clock.advance(10)
                await asyncio.sleep(0.001)
        await client.aclose()
        engine.writer.close()
        server.close()

    asyncio.run(asyncio.wait_for(main(), WAIT_S))


def test_a_waiting_receive_is_no_silence_while_pings_are_answered(tmp_path: Path) -> None:
    play_pinged(tmp_path, is_alive=True)


def test_one_ping_without_a_reply_tells_a_stopped_engine_from_a_waiting_receive(
    tmp_path: Path,
) -> None:
    play_pinged(tmp_path, is_alive=False)


def test_puts_held_back_when_the_engine_falls_silent_are_known_not_to_be_stored(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        engine, clock = PingedEngine(), ManualClock()
        engine.is_alive = False
        path = str(tmp_path / "s")
        server = await asyncio.start_unix_server(engine.serve, path)
        client = AsyncStoreClient(path, client_name="t", config=QUICK, clock=clock)
        await client.wait_connected(60_000)
        sent = client.put([record("a")])
        await engine.others.get()
        held = client.put([record("b")])
        while not held.done():
            clock.advance(10)
            await asyncio.sleep(0.001)
        assert isinstance(held.exception(), StoreUnavailable)
        while not sent.done():
            clock.advance(10)
            await asyncio.sleep(0.001)
        assert isinstance(sent.exception(), OutcomeUnknown)
        await client.aclose()
        engine.writer.close()
        server.close()

    asyncio.run(asyncio.wait_for(main(), WAIT_S))


# The engine ---------------------------------------------------------------------------------------


async def test_a_client_that_waits_for_the_disk_hears_that_the_engine_is_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        server = Server(store.store)
        path = str(tmp_path / "socket")
        await server.start(path)
        reader, writer = await asyncio.open_unix_connection(path)
        waits = store.store.config.unsynced_bytes_max + 1
        monkeypatch.setattr(Store, "unsynced_bytes", property(lambda _: waits))
        writer.write(encode_frame(Op.HELLO, 1, encode_struct(HelloRequest(client="test"))))
        decoder = FrameDecoder(1 << 20)
        frames = decoder.feed(await reader.read(4_096))
        writer.write(encode_frame(Op.PING, 2, encode_struct(Empty())))  # not read any more
        ticks = 500 // store.store.config.tick_interval_ms
        for _ in range(ticks):
            server.resume_reading()
        frames += decoder.feed(await reader.read(4_096))
        monkeypatch.undo()
        server.resume_reading()
        frames += decoder.feed(await reader.read(4_096))
        ids = [(frame.op, frame.request_id) for frame in frames]
        assert ids == [(Op.HELLO, 1), (Op.PING, 0), (Op.PING, 2)]
        writer.close()
        await server.stop()


# The blocking client ------------------------------------------------------------------------------


def test_the_blocking_client_gives_a_stopped_engine_up_and_continues_with_it_later() -> None:
    with (
        engine_with_topic() as engine,
        StoreClient(engine.socket, client_name="test", timeout_ms=HOUR_MS, config=QUICK) as client,
        StoreClient(engine.socket, client_name="late", timeout_ms=HOUR_MS, config=QUICK) as late,
    ):
        client.ping()
        with stopped(engine):
            with pytest.raises(StoreUnavailable, match="has not answered"):
                client.topic_list()
            with pytest.raises(StoreUnavailable, match="no greeting"):
                late.topic_put(TopicConfig(topic="u", queue_count=1))
        client.ping()
        with stopped(engine), pytest.raises(OutcomeUnknown):
            client.topic_put(TopicConfig(topic="u", queue_count=1))
        assert client.topic_list().topics


def test_the_blocking_client_waits_for_an_engine_that_is_only_slow() -> None:
    with (
        engine_with_topic() as engine,
        StoreClient(engine.socket, client_name="test", timeout_ms=HOUR_MS, config=QUICK) as client,
    ):
        client.group_put(GroupConfig(group="g"))
        # Parked for longer than an engine that says nothing is waited for.
        received = client.receive(receive_request(wait_ms=3 * QUICK.give_up_after_ms))
        assert received.count == 0


def test_the_blocking_client_asks_nothing_of_an_engine_known_to_be_silent(tmp_path: Path) -> None:
    is_silent = True
    with StoreClient(
        str(tmp_path / "absent"), client_name="test", is_engine_silent=lambda: is_silent
    ) as client:
        with pytest.raises(StoreUnavailable, match="is not responding"):
            client.ping()
        is_silent = False
        with pytest.raises(StoreUnavailable, match="No such file"):
            client.ping()
