"""The commands' HTTP against a server that answers byte by byte what a test says."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

import pytest

from mqservice.cli.http import CHUNK_BYTES, Connections, NoResponse, NotConnected

WAIT_MS = 20_000


class Wire:
    """Answers each request with the next of ``answers``; None closes without a word."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = deque(answers)
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.connection_count = 0
        self.port = 0
        self.closes_after = False
        self.served: list[asyncio.Task[None]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        task = asyncio.current_task()
        assert task is not None
        self.served.append(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                self.bodies.append(await reader.readexactly(_length(head)))
                answer = self.answers.popleft()
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
                if self.closes_after:
                    break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    def connections(self, connections_max: int = 4) -> Connections:
        return Connections(
            f"http://127.0.0.1:{self.port}/base",
            headers={"authorization": "Bearer k"},
            connections_max=connections_max,
            connect_timeout_ms=WAIT_MS,
            may_use_proxy=False,
        )


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


@contextlib.asynccontextmanager
async def wire(*answers: bytes | None) -> AsyncIterator[tuple[Wire, Connections]]:
    told = Wire(*answers)
    server = await asyncio.start_server(told.serve, "127.0.0.1", 0)
    told.port = server.sockets[0].getsockname()[1]
    connections = told.connections()
    try:
        yield told, connections
    finally:
        await connections.aclose()
        server.close()
        await asyncio.gather(*told.served)


def answer(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def get(connections: Connections) -> tuple[int, bytes]:
    response = await connections.request("GET", "/x?y=1", timeout_ms=WAIT_MS)
    return response.status, response.content


async def test_requests_after_one_another_share_a_connection() -> None:
    async with wire(answer(b"one"), answer(b"no", "404 Not Found")) as (told, connections):
        assert await get(connections) == (200, b"one")
        assert await get(connections) == (404, b"no")
        assert told.connection_count == 1
        head = told.heads[0].decode()
        assert head.startswith("GET /base/x?y=1 HTTP/1.1\r\n")
        assert f"host: 127.0.0.1:{told.port}\r\n" in head
        assert "authorization: Bearer k\r\n" in head
        assert "content-length" not in head


async def test_a_body_is_sent_whole_and_an_empty_post_says_so() -> None:
    body = bytes(range(256)) * (CHUNK_BYTES // 100)
    async with wire(answer(b""), answer(b"")) as (told, connections):
        await connections.request("PUT", "/x", timeout_ms=WAIT_MS, content=body)
        await connections.request("POST", "/x", timeout_ms=WAIT_MS)
        assert told.bodies == [body, b""]
        assert b"content-length: 0\r\n" in told.heads[1]


@pytest.mark.parametrize(
    ("bytes_sent", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
         (200, b"abcde")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
        (b"HTTP/1.1 204 No Content\r\n\r\nnull", (204, b"")),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + answer(b"late"), (200, b"late")),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"late"), (200, b"late")),
    ],
)  # fmt: skip
async def test_each_way_to_end_a_response(bytes_sent: bytes, expected: tuple[int, bytes]) -> None:
    async with wire(bytes_sent, answer(b"next")) as (_, connections):
        assert await get(connections) == expected
        assert await get(connections) == (200, b"next")


async def test_a_body_without_a_length_ends_with_the_connection() -> None:
    async with wire(b"HTTP/1.1 200 OK\r\n\r\nall of it") as (told, connections):
        told.closes_after = True
        assert await get(connections) == (200, b"all of it")


@pytest.mark.parametrize(
    "bytes_sent",
    [
        None,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        b"HTTP/1.1 2",
        b"220 mail ready\r\n",
    ],
)
async def test_what_is_no_whole_response_is_none(bytes_sent: bytes | None) -> None:
    async with wire(bytes_sent) as (told, connections):
        told.closes_after = True
        with pytest.raises(NoResponse):
            await get(connections)


async def test_silence_ends_after_the_timeout() -> None:
    async with wire(b"") as (_, connections):
        with pytest.raises(NoResponse, match="timed out"):
            await connections.request("GET", "/", timeout_ms=1)


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again() -> None:
    async with wire(answer(b"one"), answer(b"two")) as (told, connections):
        told.closes_after = True
        assert await get(connections) == (200, b"one")
        while not connections._idle[0]._reader.at_eof():
            await asyncio.sleep(0)
        assert await get(connections) == (200, b"two")
        assert told.connection_count == 2


async def test_connection_close_is_obeyed() -> None:
    ends = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"
    async with wire(ends, answer(b"y")) as (told, connections):
        assert await get(connections) == (200, b"x")
        assert await get(connections) == (200, b"y")
        assert told.connection_count == 2


async def test_nobody_listening_is_known_before_anything_is_sent() -> None:
    told = Wire()
    told.port = 1
    with pytest.raises(NotConnected):
        await get(told.connections())


async def test_a_header_that_would_be_two_is_never_sent() -> None:
    async with wire(answer(b"")) as (told, connections):
        with pytest.raises(ValueError, match="mq-tag"):
            await connections.request(
                "GET", "/", timeout_ms=WAIT_MS, headers={"mq-tag": "a\r\nx-evil: 1"}
            )
        assert told.heads == []


async def test_no_more_connections_than_allowed() -> None:
    async with wire(*[answer(b"x")] * 6) as (told, _):
        connections = told.connections(connections_max=2)
        await asyncio.gather(*(get(connections) for _ in range(6)))
        await connections.aclose()
        assert told.connection_count <= 2


async def test_a_proxy_of_the_environment_gets_the_whole_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with wire(answer(b"through"), answer(b"direct")) as (told, _):
        monkeypatch.setenv("HTTP_PROXY", f"http://me:pass@127.0.0.1:{told.port}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")

        def to(base_url: str) -> Connections:
            return Connections(
                base_url, headers={}, connections_max=1, connect_timeout_ms=WAIT_MS,
                may_use_proxy=True,
            )  # fmt: skip

        far, near = to("http://mq.example:81"), to(f"http://127.0.0.1:{told.port}")
        assert await get(far) == (200, b"through")
        assert await get(near) == (200, b"direct")
        await far.aclose()
        await near.aclose()
        assert told.heads[0].startswith(b"GET http://mq.example:81/x?y=1 HTTP/1.1\r\n")
        assert b"proxy-authorization: Basic bWU6cGFzcw==\r\n" in told.heads[0]
        assert told.heads[1].startswith(b"GET /x?y=1 HTTP/1.1\r\n")


async def test_https_goes_through_a_tunnel_of_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with wire(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n") as (
        told, _,
    ):  # fmt: skip
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{told.port}")
        connections = Connections(
            "https://mq.example", headers={"authorization": "Bearer k"}, connections_max=1,
            connect_timeout_ms=WAIT_MS, may_use_proxy=True,
        )  # fmt: skip
        with pytest.raises(NotConnected, match="responded with 407"):
            await get(connections)
        assert told.heads[0].startswith(b"CONNECT mq.example:443 HTTP/1.1\r\n")
        assert b"Bearer" not in told.heads[0]
