"""Bytes that are not quite HTTP, bodies that are bombs: one request in is one handled, or none."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mqservice.body_guard import BodyGuard
from mqservice.delivery.http import Message
from mqservice.web.transport import HEAD_BYTES_MAX, HEADERS_MAX
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.store_double import StoreDouble

PATH = "/v1/ns/acme/topics/orders/messages"
STORED = "acme%orders"
MIB = 1024 * 1024
CPU_S_MAX = 2.0  # the aim is 0.2
MEMORY_BYTES_MAX = 50 * MIB
CONTROL = "/v1/ns/acme/topics/bomb"
DEPTH = 100_000

# What follows the request line, host, key and content type. {inner} is a whole second request.
CHUNKED = "transfer-encoding: chunked\r\n"
ONE = "content-length: 1\r\n"
REFUSED = {
    "length and chunks": f"content-length: 5\r\n{CHUNKED}\r\n0\r\n\r\n{{inner}}",
    "chunks and length": f"{CHUNKED}content-length: 4\r\n\r\n0\r\n\r\n{{inner}}",
    "two lengths": f"{ONE}content-length: 200\r\n\r\nx{{inner}}",
    "one length twice": f"{ONE}{ONE}\r\nx",
    "a list of lengths": "content-length: 1, 1\r\n\r\nx",
    "a signed length": "content-length: +1\r\n\r\nx",
    "a negative length": "content-length: -1\r\n\r\nx",
    "a hex length": "content-length: 0x1\r\n\r\nx",
    "an encoding before chunks": "transfer-encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    "an encoding after chunks": "transfer-encoding: chunked, gzip\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    "identity": f"transfer-encoding: identity\r\n{ONE}\r\nx",
    "almost chunked": "transfer-encoding: xchunked\r\n\r\n1\r\nx\r\n0\r\n\r\n{inner}",
    "hidden chunked": "transfer-encoding: \x0bchunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    "two encodings": f"{CHUNKED}transfer-encoding: identity\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    "chunked twice": f"{CHUNKED}{CHUNKED}\r\n1\r\nx\r\n0\r\n\r\n",
    "a signed chunk": f"{CHUNKED}\r\n+1\r\nx\r\n0\r\n\r\n",
    "a hex chunk": f"{CHUNKED}\r\n0x1\r\nx\r\n0\r\n\r\n",
    "a chunk beyond 64 bits": f"{CHUNKED}\r\nffffffffffffffffff\r\nx\r\n0\r\n\r\n",
    "chunks by LF": f"{CHUNKED}\r\n1\nx\n0\n\n",
    "a length in the trailer": f"{CHUNKED}\r\n1\r\nx\r\n0\r\ncontent-length: 9\r\n\r\n{{inner}}",
    "a folded line": f"x-a: b\r\n c\r\n{ONE}\r\nx",
    "a folded encoding": f"{ONE}x-a: b\r\n {CHUNKED}\r\nx",
    "a space before the colon": "content-length : 1\r\n\r\nx",
    "a spaced encoding": f"{ONE}transfer-encoding : chunked\r\n\r\nx",
    "a bare CR": f"x-a: b\rtransfer-encoding: chunked\r\n{ONE}\r\nx",
    "a NUL": f"x-a: b\0c\r\n{ONE}\r\nx",
    "a control character": f"x-a: b\x01c\r\n{ONE}\r\nx",
    "a name that is none": f"x(a: b\r\n{ONE}\r\nx",
    "no name": f": b\r\n{ONE}\r\nx",
    "two hosts": f"host: y\r\n{ONE}\r\nx",
    "two keys": f"authorization: Bearer mqk_other\r\n{ONE}\r\nx",
    "two content types": f"content-type: application/json\r\n{ONE}\r\nx",
    "two keys of a request": f"idempotency-key: a\r\nidempotency-key: b\r\n{ONE}\r\nx",
}


@pytest.fixture(scope="module")
def store() -> StoreDouble:
    return StoreDouble()


@pytest.fixture(scope="module")
def server(store: StoreDouble) -> Iterator[Server]:
    with serving(store) as running:
        running.topic("orders")
        yield running


@pytest.fixture(scope="module")
def key(server: Server) -> str:
    return server.key()


def head(key: str, version: str = "1.1", end: str = "\r\n") -> str:
    lines = (
        f"POST {PATH} HTTP/{version}", "host: 127.0.0.1", f"authorization: {key}",
        "content-type: text/plain", "",
    )  # fmt: skip
    return end.join(lines)


def answers_of(server: Server, sent: bytes) -> tuple[list[int], bytes]:
    """Statuses of all answers until the server closes, and the bytes."""
    got = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(sent)
        while part := peer.recv(65_536):
            got += part
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", got)], got


@pytest.mark.parametrize("rest", REFUSED.values(), ids=REFUSED.keys())
def test_what_can_be_read_in_two_ways_is_not_read_at_all(
    server: Server, store: StoreDouble, key: str, rest: str
) -> None:
    before = len(store.records(STORED))
    inner = f"{head(key)}content-length: 3\r\n\r\nEVL"
    sent = (head(key) + rest.replace("{inner}", inner)).encode("latin-1")
    statuses, got = answers_of(server, sent)
    assert statuses == [400]
    assert b"content-type: application/problem+json" in got
    assert b'"code":"BAD_REQUEST"' in got
    assert len(store.records(STORED)) == before


def test_a_header_that_is_there_twice_is_named(server: Server, key: str) -> None:
    sent = head(key) + REFUSED["two keys of a request"]
    _, got = answers_of(server, sent.encode())
    assert b"the header idempotency-key is there more than once; send it once" in got


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("{lf}content-length: 1\n\nx", 400),
        ("{old}transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 400),
        ("{new}content-length: 1\r\n\r\nx", 505),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    ],
    ids=["lines by LF", "chunks in HTTP/1.0", "a later HTTP", "HTTP/2", "TLS"],
)
def test_another_protocol_is_refused(
    server: Server, store: StoreDouble, key: str, sent: str, status: int
) -> None:
    before = len(store.records(STORED))
    filled = sent.format(lf=head(key, end="\n"), old=head(key, "1.0"), new=head(key, "9.9"))
    assert answers_of(server, filled.encode("latin-1"))[0] == [status]
    assert len(store.records(STORED)) == before


def test_as_many_requests_are_handled_as_were_sent(
    server: Server, store: StoreDouble, key: str
) -> None:
    before = len(store.records(STORED))
    plain = f"{head(key)}content-length: 1\r\n\r\na"
    chunked = f"{head(key)}{CHUNKED}\r\n1;ext=1\r\nb\r\n0\r\n\r\n"
    last = f"{head(key)}content-length: 1\r\nconnection: close\r\n\r\nc"
    statuses, _ = answers_of(server, (plain + chunked + last).encode())
    assert statuses == [201, 201, 201]
    found = [record.body for record in store.records(STORED)][before:]
    assert sorted(found) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("count", "text"), [(HEADERS_MAX + 1, "a: b\r\n"), (10_000, "a: b\r\n"), (3, "x" * 30_000)]
)
def test_a_flood_of_headers_is_refused(server: Server, key: str, count: int, text: str) -> None:
    lines = text * count if text.endswith("\n") else f"a: {text}\r\n" * count
    sent = f"{head(key)}{lines}content-length: 1\r\n\r\nx".encode()
    assert answers_of(server, sent)[0] == [431]
    assert len(sent) > HEAD_BYTES_MAX or count > HEADERS_MAX


def memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096


BOMBS = {
    "depth of arrays": b'{"body_json":' + b"[" * DEPTH + b"]" * DEPTH + b"}",
    "depth of objects": b'{"a":' * DEPTH + b"1" + b"}" * DEPTH,
    "many names": b"{" + b",".join(b'"k%d":1' % n for n in range(60_000)) + b"}",
    "a long number": b'{"queue":' + b"9" * 100_000 + b"}",
    "a number beyond floats": b'{"queue":1e400}',
    "not a number": b'{"queue":NaN}',
    "an encoded lone surrogate": b'{"body":"\\ud800"}',
    "not UTF-8": b'{"body":"\xff"}',
    "UTF-16": '{"body":"x"}'.encode("utf-16"),
}


@pytest.mark.parametrize("content", BOMBS.values(), ids=BOMBS.keys())
def test_json_bombs_are_refused_quickly_and_leave_nothing(
    server: Server, store: StoreDouble, key: str, content: bytes
) -> None:
    headers = {"authorization": key, "content-type": "application/json"}
    before, stored = memory_bytes(), len(store.records(STORED))
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as http:
        for path in (PATH, f"{PATH}:batch"):
            began = time.process_time()
            answer = http.post(path, content=content)
            assert answer.status_code in (400, 413), answer.text[:200]
            assert time.process_time() - began < CPU_S_MAX
    assert memory_bytes() - before < MEMORY_BYTES_MAX
    assert len(store.records(STORED)) == stored


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
@pytest.mark.parametrize("path", [PATH, CONTROL])
def test_nothing_is_unpacked(server: Server, key: str, path: str, encoding: str) -> None:
    headers = {
        "authorization": key, "content-type": "application/json", "content-encoding": encoding,
    }  # fmt: skip
    method = "POST" if path == PATH else "PUT"
    answer = httpx.request(
        method, server.url + path, content=b"\x1f\x8b\x08", headers=headers, timeout=60
    )
    assert (answer.status_code, answer.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_body_for_django_is_refused_by_its_length_or_while_it_comes(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(
            f"PUT {CONTROL} HTTP/1.1\r\nhost: 127.0.0.1\r\n".encode()
            + b"content-length: 99999999\r\n\r\n"
        )
        assert peer.recv(65_536).startswith(b"HTTP/1.1 413 ")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(f"PUT {CONTROL} HTTP/1.1\r\nhost: 127.0.0.1\r\n{CHUNKED}\r\n".encode())
        chunk = b"80000\r\n" + b"x" * 0x80000 + b"\r\n"
        for _ in range(3):
            peer.sendall(chunk)
        answer = peer.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"BODY_TOO_LARGE" in answer
    assert b"connection: close" in answer


def test_a_body_with_a_request_in_it_is_one_request(server: Server, key: str) -> None:
    inner = f"{head(key)}content-length: 3\r\n\r\nEVL"
    sent = (
        "GET /v1/quotas HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
        f"content-length: {len(inner)}\r\n\r\n{inner}"
    )
    assert answers_of(server, sent.encode())[0] == [401]


async def test_a_body_that_comes_too_slowly_is_not_waited_for() -> None:
    parts = [b"x"]

    async def receive() -> Message:
        if not parts:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": parts.pop(), "more_body": True}

    guard = BodyGuard({"headers": []}, receive, bytes_max=MIB, arrival_ms_max=5)
    kinds = [(await guard.receive())["type"] for _ in range(3)]
    assert kinds == ["http.request", "http.disconnect", "http.disconnect"]
    assert guard.refusal is not None
    assert guard.refusal.code == "REQUEST_TIMEOUT"
