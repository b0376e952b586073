"""What one connection can make the engine hold in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage_engine.server import server as server_module
from storage_engine.server.server import Server
from storage_engine.wire.async_client import AsyncStoreClient
from storage_engine.wire.deliveries import ReceiveRequest
from storage_engine.wire.frames import FrameDecoder, encode_frame, encode_struct
from storage_engine.wire.groups import Dispatch, GroupConfig
from storage_engine.wire.operations import Op
from storage_engine.wire.reads import PullRequest
from tests.storage_engine.doubles import WAIT_S, OpenStore

BODY = bytes(2_000)
REQUESTS = 400
REPLY_BYTES = 16 * 2_000  # about


async def test_pulls_that_come_together_are_answered_as_the_client_reads(tmp_path: Path) -> None:
    limit = 4 * REPLY_BYTES
    limits = {"segment_bytes": 64 * 1_024, "reply_buffer_bytes_max": limit}
    async with OpenStore(tmp_path / "s", limits=limits) as store:
        store.topic()
        await store.put_bodies(*[BODY] * 16)
        read_bytes: list[int] = []
        read_records = store.store.read_records

        def counted(records: list[tuple[int, int]]) -> bytes:
            content = read_records(records)
            read_bytes.append(len(content))
            return content

        store.store.read_records = counted  # type: ignore[method-assign]
        server = Server(store.store)
        path = str(tmp_path / "socket")
        await server.start(path)
        reader, writer = await asyncio.open_unix_connection(path, limit=1_024)
        request = PullRequest(
            topic="t", queue_id=0, queue_offset=0, messages_max=16, bytes_max=1 << 20
        )
        payload = encode_struct(request)
        writer.write(b"".join(encode_frame(Op.PULL, at, payload) for at in range(REQUESTS)))
        while not read_bytes:
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        # The socket and the other end take some more than the limit.
        assert sum(read_bytes) < 20 * limit
        decoder = FrameDecoder(1 << 20)
        ids: list[int] = []
        while len(ids) < REQUESTS:
            content = await asyncio.wait_for(reader.read(65_536), WAIT_S)
            for frame in decoder.feed(content):
                assert frame.status == 0
                assert Op.PULL.decode_head(frame.payload)[0].next_offset == 16
                ids.append(frame.request_id)
        assert ids == list(range(REQUESTS))
        writer.close()
        await server.stop()


async def test_a_connection_remembers_only_so_many_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A web process keeps its connection for ever, and clients name themselves as they like."""
    monkeypatch.setattr(server_module, "_MEMBERSHIPS_MAX", 3)
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.store.catalog.group_put(GroupConfig(group="g", dispatch=Dispatch.EXCLUSIVE))
        server = Server(store.store)
        path = str(tmp_path / "socket")
        await server.start(path)
        left: list[str] = []
        monkeypatch.setattr(
            store.store.consumption.delivery, "leave", lambda *name: left.append(name[2])
        )
        client = AsyncStoreClient(path, client_name="test")
        await client.wait_connected(60_000)
        for member_id in ("a", "b", "c", "b", "d", "e"):
            await client.receive(
                ReceiveRequest(
                    group="g", topic="t", member_id=member_id, messages_max=1, bytes_max=1 << 20,
                    wait_ms=0, lease_ms=1_000,
                )
            )  # fmt: skip
        await client.aclose()
        while server.connections:
            await asyncio.sleep(0)
        assert left == ["b", "d", "e"]
        await server.stop()
