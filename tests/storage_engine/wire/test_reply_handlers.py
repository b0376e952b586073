"""Settles and receives whose caller is told by a call: their order, and what becomes of leases."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.errors import (
    BadFrame,
    GroupNotFound,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
)
from storage_engine.wire.async_client import AsyncStoreClient
from storage_engine.wire.client_types import ClientConfig, Received
from storage_engine.wire.deliveries import (
    LeaseRef,
    ReceiveHead,
    ReceiveRequest,
    SettleReply,
    SettleRequest,
)
from storage_engine.wire.frames import (
    Frame,
    encode_error,
    encode_frame,
    encode_records_frame,
    encode_struct,
)
from storage_engine.wire.operations import Op
from tests.storage_engine.doubles import ManualClock
from tests.storage_engine.wire.test_client_puts import SlowEngine, play, record

RECEIVE = ReceiveRequest(
    group="g", topic="t", member_id="m", messages_max=1, bytes_max=1, wait_ms=9, lease_ms=9
)
SETTLE = SettleRequest(
    group="g", acks=[LeaseRef(topic="t", queue_id=0, lease_generation=1, queue_offsets=[0])]
)
SETTLED = SettleReply(
    acked_count=1, nacked_count=0, dead_lettered_count=0, extended_until_ms=[], failures=[]
)
HEAD = ReceiveHead(lease_generation=7, lease_until_ms=9, attempts=[1])


class Told:
    """What was told, in order."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def settled(self, reply: SettleReply) -> None:
        self.heard.append(reply.acked_count)

    def received(self, received: Received) -> None:
        self.heard.append([each.body for each in received.records])

    def settle_failed(self, error: StoreError) -> None:
        self.heard.append(type(error))

    receive_failed = settle_failed


def give(engine: SlowEngine, frame: Frame) -> None:
    """Answer a receive with one message."""
    for piece in encode_records_frame(Op.RECEIVE, frame.request_id, HEAD, record("a")):
        engine.writer.write(piece)


async def released(engine: SlowEngine) -> list[tuple[int, bool]]:
    """Generations that the next frame gives back."""
    request = Op.SETTLE.decode_request((await engine.puts.get()).payload)
    return [(nack.lease_generation, nack.is_release) for nack in request.nacks]


async def answered(client: AsyncStoreClient, engine: SlowEngine) -> None:
    """Wait until the client has heard all that was written so far."""
    put = client.put([record("b")])
    engine.answer(await engine.puts.get())
    await put


def test_settles_are_written_first(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        told = Told()
        client.receive_for(told, RECEIVE)
        client.settle_for(told, SETTLE)
        client.receive_for(told, RECEIVE)
        client.settle_for(told, SETTLE)
        frames = [await engine.puts.get() for _ in range(4)]
        assert [frame.op for frame in frames] == [Op.SETTLE, Op.SETTLE, Op.RECEIVE, Op.RECEIVE]
        numbers = [frame.request_id for frame in frames]
        assert [number - min(numbers) for number in numbers] == [1, 3, 0, 2]
        for frame in frames[:2]:
            content = encode_struct(SETTLED)
            engine.writer.write(encode_frame(Op.SETTLE, frame.request_id, content))
        give(engine, frames[2])
        error = GroupNotFound("g is gone")
        content = encode_error(error)
        engine.writer.write(
            encode_frame(Op.RECEIVE, frames[3].request_id, content, GroupNotFound.code)
        )
        await answered(client, engine)
        assert told.heard == [1, 1, [b"a"], GroupNotFound]

    play(tmp_path, scenario)


@pytest.mark.parametrize("is_told", [False, True])
def test_what_was_leased_for_a_receive_that_is_cancelled_goes_back(
    tmp_path: Path, is_told: bool
) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        told = Told()
        hold = client.receive_for(told, RECEIVE)
        frame = await engine.puts.get()
        if is_told:
            give(engine, frame)
            await answered(client, engine)
        hold.cancel()
        hold.cancel()
        if not is_told:
            assert (await engine.puts.get()).op == Op.CANCEL
            give(engine, frame)
        assert await released(engine) == [(7, True)]
        assert told.heard == ([[b"a"]] if is_told else [])
        await answered(client, engine)
        assert engine.puts.empty()

    play(tmp_path, scenario)


def test_what_was_leased_for_a_receive_that_had_timed_out_goes_back(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        told = Told()
        client.receive_for(told, RECEIVE)
        frame = await engine.puts.get()
        clock.advance(ClientConfig().request_timeout_ms + RECEIVE.wait_ms)
        assert (await engine.puts.get()).op == Op.CANCEL
        assert told.heard == [StoreUnavailable]
        give(engine, frame)
        assert await released(engine) == [(7, True)]
        assert told.heard == [StoreUnavailable]

    play(tmp_path, scenario, clock, sweep_interval_ms=10)


def test_replies_that_cannot_be_read_are_reported_and_the_connection_stays(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        told = Told()
        client.receive_for(told, RECEIVE)
        client.settle_for(told, SETTLE)
        for _ in range(2):
            frame = await engine.puts.get()
            engine.writer.write(encode_frame(frame.op, frame.request_id, b"\0\0"))
        await answered(client, engine)
        assert told.heard == [BadFrame, BadFrame]

    play(tmp_path, scenario)


def test_a_reply_that_nobody_waits_for_and_nobody_can_read_ends_nothing(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        told = Told()
        client.receive_for(told, RECEIVE).cancel()
        frame = await engine.puts.get()
        assert (await engine.puts.get()).op == Op.CANCEL
        engine.writer.write(encode_frame(frame.op, frame.request_id, b"\0\0"))
        await answered(client, engine)
        assert told.heard == []

    play(tmp_path, scenario)


@pytest.mark.parametrize("count", [1, 9])
def test_a_reply_of_more_or_fewer_records_than_it_says_is_reported(
    tmp_path: Path, count: int
) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        told = Told()
        for told_count in (count - 1, count + 1, count):
            client.receive_for(told, RECEIVE)
            frame = await engine.puts.get()
            head = ReceiveHead(lease_generation=7, lease_until_ms=9, attempts=[1] * told_count)
            content = record("a") * count
            for piece in encode_records_frame(Op.RECEIVE, frame.request_id, head, content):
                engine.writer.write(piece)
        await answered(client, engine)
        assert told.heard == [BadFrame, BadFrame, [b"a"] * count]

    play(tmp_path, scenario)


def test_a_lost_connection_is_told_to_both_and_then_nothing_is_sent(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        told = Told()
        client.settle_for(told, SETTLE)
        hold = client.receive_for(told, RECEIVE)
        await engine.puts.get()
        await client.aclose()
        assert told.heard == [OutcomeUnknown, StoreUnavailable]  # a receive changes nothing
        hold.cancel()
        with pytest.raises(StoreError):
            client.settle_for(told, SETTLE)
        with pytest.raises(StoreError):
            client.receive_for(told, RECEIVE)
        assert len(told.heard) == 2

    play(tmp_path, scenario)
    absent = AsyncStoreClient(str(tmp_path / "none"), client_name="t")
    with pytest.raises(StoreUnavailable):
        absent.receive_for(Told(), RECEIVE)
