"""The benchmarks' HTTP client: answers in any pieces, refusals, what it does not understand."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from bench.http_client import LeanHttp, RequestFailed


@asynccontextmanager
async def answering(*pieces: bytes, is_ending: bool = False) -> AsyncIterator[LeanHttp]:
    """A client whose server answers the first request with these pieces, one after the other."""
    seen = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if not is_ending:
            await seen.wait()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = await LeanHttp.connect(f"http://127.0.0.1:{port}", key="k")
    try:
        yield client
    finally:
        seen.set()
        client.close()
        server.close()


@pytest.mark.parametrize("cut", [[], [3], [20, 40], [39], list(range(1, 60))])
async def test_an_answer_is_whole_wherever_it_was_cut(cut: Sequence[int]) -> None:
    whole = b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\nx: y\r\n\r\nhello"
    edges = [0, *(at for at in cut if at < len(whole)), len(whole)]
    pieces = [whole[start:end] for start, end in itertools.pairwise(edges)]

    async with answering(*pieces) as client:
        assert await client.post("/", b"{}") == b"hello"


async def test_a_refusal_raises_what_was_said() -> None:
    async with answering(b"HTTP/1.1 429 No\r\ncontent-length: 4\r\n\r\nslow") as client:
        with pytest.raises(RequestFailed, match="slow"):
            await client.post("/", b"{}")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
        b"SSH-2.0\r\n\r\n",
    ],
)
async def test_what_is_not_understood_raises(answer: bytes) -> None:
    async with answering(answer) as client:
        with pytest.raises(RequestFailed):
            await client.post("/", b"{}")


async def test_a_connection_that_ends_raises_instead_of_waiting() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n", is_ending=True) as client:
        with pytest.raises(RequestFailed, match="ended"):
            await client.post("/", b"{}")
        with pytest.raises(RequestFailed, match="ended"):
            await client.post("/", b"{}")
