"""The table of operations: one handler for each, and the same answers to what is in no row."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage_engine.errors import BadRequest
from storage_engine.server import server as server_module
from storage_engine.server.server import Server
from storage_engine.server.store_calls import StoreCalls, store_calls
from storage_engine.store import Store
from storage_engine.wire.frames import FrameDecoder, decode_error, encode_frame, encode_struct
from storage_engine.wire.operations import Op
from storage_engine.wire.protocol import Empty
from tests.storage_engine.doubles import OpenStore


async def test_server_does_not_start_without_a_handler_for_each_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_trace(store: Store) -> StoreCalls:
        calls = store_calls(store)
        del calls._calls[Op.TRACE]
        return calls

    monkeypatch.setattr(server_module, "store_calls", without_trace)
    async with OpenStore(tmp_path / "s") as store:
        with pytest.raises(AssertionError, match=r"\['TRACE'\]"):
            Server(store.store)


@pytest.mark.parametrize(
    ("number", "detail"),
    [(int(Op.NOTICE), "only the engine may send notices"), (27, "opcode 27 is unknown")],
)
async def test_number_that_no_client_may_send_is_a_bad_request(
    number: int, detail: str, tmp_path: Path
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        server = Server(store.store)
        await server.start(str(tmp_path / "socket"))
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "socket"))
        writer.write(encode_frame(number, 5, encode_struct(Empty())))
        (frame,) = FrameDecoder(1_000).feed(await reader.read(1_000))
        error = decode_error(frame.status, frame.payload)
        assert (frame.op, frame.request_id, type(error)) == (number, 5, BadRequest)
        assert error.message == detail
        writer.close()
        await server.stop()
