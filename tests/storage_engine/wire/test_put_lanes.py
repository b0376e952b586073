"""Puts to replicated topics and to others do not wait for each other on one connection."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage_engine.errors import StoreBusy
from storage_engine.records.record import encode_record
from storage_engine.wire.async_client import AsyncStoreClient
from storage_engine.wire.client_types import PutResult
from storage_engine.wire.put_lane import REPLICATED_FRAMES_MAX
from tests.storage_engine.doubles import WAIT_S, message
from tests.storage_engine.replicated_log.memory_log import SharedLog
from tests.storage_engine.replication.nodes import Node
from tests.storage_engine.replication.test_deposed_server import served
from tests.storage_engine.wire.test_client_puts import SlowEngine, play, record, texts

Result = asyncio.Future[list[PutResult]]


def replicated(client: AsyncStoreClient, *texts: str) -> Result:
    future: Result = asyncio.get_running_loop().create_future()
    client.put_for(future, [record(text) for text in texts], is_replicated=True)
    return future


def test_a_frame_of_replicated_puts_holds_up_no_other(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        slow, quick = replicated(client, "r"), client.put([record("s")])
        first = await engine.puts.get()
        assert texts(first) == ["r"]
        engine.answer(await engine.puts.get())
        await quick
        later = client.put([record("s2")])
        engine.answer(await engine.puts.get())
        await later
        assert not slow.done()
        engine.answer(first)
        await slow

    play(tmp_path, scenario)


def test_replicated_puts_share_a_frame_once_enough_are_under_way(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        puts: list[Result] = []
        frames = []
        for number in range(REPLICATED_FRAMES_MAX):
            puts.append(replicated(client, str(number)))
            frames.append(await engine.puts.get())
        puts += [replicated(client, "a"), replicated(client, "b" * 600), replicated(client, "c")]
        local = client.put([record("s")])
        frame = await engine.puts.get()
        assert texts(frame) == ["s"]  # so nothing was sent before it
        engine.answer(frame)
        await local
        engine.answer(frames[0])
        together = await engine.puts.get()
        assert texts(together) == ["a", "b" * 600, "c"]
        for frame in (*frames[1:], together):
            engine.answer(frame)
        await asyncio.gather(*puts)

    play(tmp_path, scenario, put_hold_bytes=512)


def test_bytes_that_wait_for_the_log_refuse_only_replicated_puts(tmp_path: Path) -> None:
    async def scenario(client: AsyncStoreClient, engine: SlowEngine) -> None:
        waiting = replicated(client, "r" * 600)
        await engine.puts.get()
        with pytest.raises(StoreBusy):
            replicated(client, "refused")
        local = client.put([record("s")])
        engine.answer(await engine.puts.get())
        await local
        waiting.cancel()

    play(tmp_path, scenario, put_inflight_bytes_max=512)


async def test_an_engine_answers_a_put_to_the_disk_before_one_to_the_log(tmp_path: Path) -> None:
    """They come in one read, in frames of one record each."""
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    async with served(node) as client:
        shared.hold()
        slow: Result = asyncio.get_running_loop().create_future()
        client.put_for(slow, [encode_record(message(b"r"))], is_replicated=True)
        for topic in "sa":
            quick = client.put([encode_record(message(b"x", topic=topic))])
            (result,) = await asyncio.wait_for(quick, WAIT_S)
            assert result.error is None
        assert not slow.done()
        shared.heal()
        (result,) = await asyncio.wait_for(slow, WAIT_S)
        assert result.error is None
    await node.stop()
