"""How the asyncio client groups puts into frames, and what becomes of them when the engine goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from storage_engine.errors import OutcomeUnknown, RecordRefused, StoreError, StoreUnavailable
from storage_engine.records.record import LENGTH_4, StoreMessage, decode_record, encode_record
from storage_engine.records.record_run import decode_records
from storage_engine.wire.async_client import AsyncStoreClient
from storage_engine.wire.client_types import ClientConfig, PutResult
from storage_engine.wire.frames import (
    Frame,
    FrameDecoder,
    encode_error,
    encode_frame,
    encode_put_reply,
    encode_struct,
)
from storage_engine.wire.operations import Op
from storage_engine.wire.protocol import HelloReply
from tests.storage_engine.doubles import WAIT_S, ManualClock

HELLO = HelloReply(
    shard="main",
    broker="b",
    epoch=1,
    frame_bytes_max=4_096,
    body_bytes_max=1_024,
    store_host=bytes(8),
)


class SlowEngine:
    """Greets, keeps every frame that is no ping, and answers puts when told to."""

    def __init__(self, hello: HelloReply = HELLO) -> None:
        self.puts: asyncio.Queue[Frame] = asyncio.Queue()
        self.writer: asyncio.StreamWriter
        self.connection_count = 0
        self._hello = encode_struct(hello)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.connection_count += 1
        decoder = FrameDecoder(1 << 20)
        while chunk := await reader.read(1 << 16):
            for frame in decoder.feed(chunk):
                if frame.op == Op.HELLO:
                    writer.write(encode_frame(Op.HELLO, frame.request_id, self._hello))
                elif frame.op != Op.PING:
                    self.puts.put_nowait(frame)

    def answer(self, frame: Frame) -> None:
        offsets: list[int] = []
        for index in range(len(decode_records(frame.payload))):
            offsets += (index, 1_000 + index)
        self.writer.write(encode_frame(Op.PUT, frame.request_id, encode_put_reply(7, offsets)))

    def refuse(self, frame: Frame, error: StoreError) -> None:
        self.writer.write(encode_frame(frame.op, frame.request_id, encode_error(error), error.code))


Scenario = Callable[[AsyncStoreClient, SlowEngine], Awaitable[None]]


def play(
    tmp_path: Path,
    scenario: Scenario,
    clock: ManualClock | None = None,
    hello: HelloReply = HELLO,
    **limits: int,
) -> None:
    async def main() -> None:
        engine = SlowEngine(hello)
        path = str(tmp_path / "s")
        server = await asyncio.start_unix_server(engine.serve, path)
        config = ClientConfig(**limits)
        client = AsyncStoreClient(path, client_name="t", config=config, clock=clock)
        await client.wait_connected(60_000)
        try:
            async with asyncio.timeout(WAIT_S):
                await scenario(client, engine)
        finally:
            await client.aclose()
            engine.writer.close()
            server.close()

    asyncio.run(main())


def record(text: str) -> bytes:
    return encode_record(
        StoreMessage(
            topic="t",
            queue_id=0,
            body=text.encode(),
            message_id=text,
            born_timestamp_ms=0,
            born_host=("127.0.0.1", 1),
        )
    )


def texts(frame: Frame) -> list[str]:
    return [found.body.decode() for found in decode_records(frame.payload)]


def test_puts_made_while_a_frame_is_under_way_share_the_next_one(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        first = client.put([record("a")])
        frame = await engine.puts.get()
        others = [client.put([record("b"), record("c")]), client.put([record("d")])]
        await client.wait_connected(60_000)
        assert engine.puts.empty()
        engine.answer(frame)
        assert [result.queue_offset for result in await first] == [0]
        together = await engine.puts.get()
        assert (texts(frame), texts(together)) == (["a"], ["b", "c", "d"])
        engine.answer(together)
        results = await asyncio.gather(*others)
        assert [[result.queue_offset for result in each] for each in results] == [[0, 1], [2]]

    play(tmp_path, scenario)


def test_many_bytes_do_not_wait_for_the_frame_under_way(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        waiting = [client.put([record("a")])]
        await engine.puts.get()
        waiting.append(client.put([record("b" * 600)]))
        assert texts(await engine.puts.get()) == ["b" * 600]
        for put in waiting:
            put.cancel()

    play(tmp_path, scenario, put_hold_bytes=512)


def test_a_lost_connection_tells_sent_puts_from_those_that_were_held_back(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        sent = client.put([record("a")])
        await engine.puts.get()
        held = client.put([record("b")])
        engine.writer.close()
        with pytest.raises(OutcomeUnknown):
            await sent
        with pytest.raises(StoreUnavailable):
            await held

    play(tmp_path, scenario)


def test_puts_held_back_behind_a_frame_without_a_reply_fail_unsent(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        lost = client.put([record("a")])
        await engine.puts.get()
        held = client.put([record("b")])
        clock.advance(ClientConfig().request_timeout_ms)
        with pytest.raises(OutcomeUnknown):
            await lost
        with pytest.raises(StoreUnavailable):
            await held
        later = client.put([record("c")])
        frame = await engine.puts.get()
        assert texts(frame) == ["c"]
        engine.answer(frame)
        assert (await later)[0].queue_offset == 0

    play(tmp_path, scenario, clock, sweep_interval_ms=10)


def test_a_put_larger_than_the_engines_frame_is_refused_and_not_sent(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        with pytest.raises(RecordRefused, match="fit into a frame"):
            await client.put([record("x" * 5_000)])
        assert engine.puts.empty()

    play(tmp_path, scenario)


class Told:
    """A put's caller that is no future."""

    def __init__(self, *, is_gone: bool = False) -> None:
        self.is_gone = is_gone
        self.results: list[PutResult] = []
        self.errors: list[StoreError] = []

    def done(self) -> bool:
        return self.is_gone

    def set_result(self, results: list[PutResult]) -> None:
        self.results += results

    def set_exception(self, error: StoreError) -> None:
        self.errors.append(error)


def test_who_needs_no_future_is_told_the_same(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        told, gone = Told(), Told(is_gone=True)
        client.put_for(told, [record("a"), record("b")])
        client.put_for(gone, [record("c")])
        future = client.put([record("d")])
        engine.answer(await engine.puts.get())
        (fourth,) = await future
        assert [result.queue_offset for result in told.results] == [0, 1]
        assert fourth.queue_offset == 3
        assert not gone.results

    play(tmp_path, scenario)


def test_who_needs_no_future_is_told_of_a_lost_connection_and_refused_after_it(
    tmp_path: Path,
) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        sent, held = Told(), Told()
        client.put_for(sent, [record("a")])
        await engine.puts.get()
        client.put_for(held, [record("b")])
        engine.writer.close()
        while not held.errors:
            await asyncio.sleep(0)
        assert [type(error) for error in sent.errors] == [OutcomeUnknown]
        assert [type(error) for error in held.errors] == [StoreUnavailable]

    play(tmp_path, scenario, reconnect_min_ms=60_000)


def test_what_came_meanwhile_is_sent_before_anybody_is_notified(tmp_path: Path) -> None:
    """Found by measuring: the engine had nothing to do while a frame's puts were answered."""
    seen: list[bool] = []

    class Looking(Told):
        def set_result(self, results: list[PutResult]) -> None:
            super().set_result(results)
            seen.append(not clients[0]._local_puts.waiting_bytes and not clients[0]._unsent)

    clients: list[AsyncStoreClient] = []

    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        clients.append(client)
        first, second = Looking(), Looking()
        client.put_for(first, [record("a")])
        frame = await engine.puts.get()
        client.put_for(second, [record("b")])
        engine.answer(frame)
        engine.answer(await engine.puts.get())
        while not second.results:
            await asyncio.sleep(0)
        assert first.results

    play(tmp_path, scenario)
    assert seen == [True, True]


def test_what_is_refused_at_once_notifies_nobody(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        told = Told()
        with pytest.raises(RecordRefused, match="fit into a frame"):
            client.put_for(told, [record("x" * 5_000)])
        assert (told.results, told.errors) == ([], [])

    play(tmp_path, scenario)
    unconnected = AsyncStoreClient(str(tmp_path / "s"), client_name="t")
    told = Told()
    with pytest.raises(StoreUnavailable):
        unconnected.put_for(told, [record("x")])
    assert (told.results, told.errors) == ([], [])


def test_properties_that_are_no_utf8_do_not_spoil_the_messages_beside_them() -> None:
    broken = bytearray(record("abc"))
    at = broken.index(b"UNIQ_KEY\x01abc") + len(b"UNIQ_KEY\x01")
    broken[at] = 0xFF
    assert LENGTH_4.unpack_from(broken)[0] == len(broken)
    assert decode_record(bytes(broken)).message_id == "\ufffdbc"
