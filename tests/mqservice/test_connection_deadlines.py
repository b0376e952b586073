"""No connection is held for ever, and none is reset before its client can read the answer.

With real sockets: each case waits until the server closes, which without a deadline it never does.
The deadlines are so short that nobody waits for them.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import select
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from mqservice.web.connection_limits import ConnectionLimits
from mqservice.web.transport import CorkedHttpProtocol
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.store_double import StoreDouble

PATH: Final = "/v1/ns/acme/topics/orders/messages"
MIB: Final = 1024 * 1024
HEAD: Final = f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n"
UPGRADE: Final = (
    "GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
SHORT: Final = ConnectionLimits(
    head_ms_max=100, body_ms_max=100, handshake_ms_max=100, send_ms_max=100,
    unwanted_silence_ms_max=100, unwanted_ms_max=200, closing_ms_max=100,
)  # fmt: skip
# Only what a byte every now and then does not put off may end a connection that trickles.
TRICKLED: Final = ConnectionLimits(
    head_ms_max=100, body_ms_max=100, unwanted_silence_ms_max=60_000, unwanted_ms_max=100
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(StoreDouble()) as running:
        running.topic("orders")
        yield running


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[[ConnectionLimits], None]:
    def limit(limits: ConnectionLimits) -> None:
        monkeypatch.setattr(CorkedHttpProtocol, "limits", limits)

    return limit


def read_to_end(peer: socket.socket, each: Callable[[], None] = lambda: None) -> bytes:
    """All until the server has closed. ``each`` is called whenever there is nothing to read."""
    got = b""
    peer.settimeout(0.02)
    for _ in range(3_000):
        try:
            part = peer.recv(65_536)
        except TimeoutError:
            each()
            continue
        if not part:
            return got
        got += part
    raise AssertionError(f"still open after {got!r}")


def trickle(peer: socket.socket, part: bytes) -> bytes:
    """Send ``part`` again and again until the server takes no more; all that it has answered."""
    got = b""
    waiting = select.poll()
    waiting.register(peer, 0)  # for a reset, which alone ends a lingering close
    peer.setblocking(False)
    for _ in range(3_000):
        try:
            with contextlib.suppress(BlockingIOError):
                got += peer.recv(65_536)
            peer.sendall(part)
        except OSError:  # either may be the first to hear of the reset
            with contextlib.suppress(OSError):  # what came before it can be read all the same
                got += peer.recv(65_536)
            return got
        waiting.poll(20)
    raise AssertionError(f"still open after {got!r}")


def statuses_of(got: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", got)]


HELD: Final = {
    "nothing": ("", [408]),
    "part of a head": (HEAD, [408]),
    "an upgrade with a length": (f"{UPGRADE}content-length: 10\r\n\r\n", [400]),
    "an upgrade with chunks": (f"{UPGRADE}transfer-encoding: chunked\r\n\r\n", [400]),
    "an upgrade by POST": (f"{UPGRADE}\r\n".replace("GET", "POST"), [400]),
    "an upgrade of many headers": (UPGRADE + "a: b\r\n" * 200 + "\r\n", [400]),
    "an upgrade of a long header": (f"{UPGRADE}a: {'b' * 20_000}\r\n\r\n", [400]),
    "an upgrade without a key": (f"{UPGRADE}\r\n", [401]),
    "an upgrade behind a request": (f"{HEAD}content-length: 1\r\n\r\nx{UPGRADE}\r\n", [401]),
    "a body after 401": (f"{HEAD}content-length: 10\r\n\r\n", [401]),
    "chunks after 401": (f"{HEAD}transfer-encoding: chunked\r\n\r\n", [401]),
    "a body after 401 and a close": (
        f"{HEAD}connection: close\r\ncontent-length: 10\r\n\r\n", [401],
    ),
    "a body that is asked for": (
        f"{HEAD}expect: 100-continue\r\ncontent-length: 10\r\n\r\n", [401],
    ),
    "h2c with a body": (
        f"{HEAD}connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAAA\r\n"
        "content-length: 10\r\n\r\n",
        [401],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "statuses"), HELD.values(), ids=HELD.keys())
def test_a_connection_without_a_key_ends_on_its_own(
    server: Server,
    limited: Callable[[ConnectionLimits], None],
    sent: str,
    statuses: list[int],
) -> None:
    limited(SHORT)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(sent.encode())
        got = read_to_end(peer)
    assert statuses_of(got)[:1] == statuses


@pytest.mark.parametrize(
    ("sent", "part", "statuses"),
    [
        (HEAD, b"a", [408]),
        (f"{HEAD}content-length: 10000\r\n\r\n", b"x", [401]),
        (f"{HEAD}transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n", [401]),
        (f"{HEAD}connection: close\r\ncontent-length: 10000\r\n\r\n", b"x", [401]),
    ],
    ids=["head", "body", "chunks", "body and close"],
)
def test_bytes_now_and_then_put_nothing_off(
    server: Server,
    limited: Callable[[ConnectionLimits], None],
    sent: str,
    part: bytes,
    statuses: list[int],
) -> None:
    limited(TRICKLED)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(sent.encode())
        got = trickle(peer, part)
    assert statuses_of(got) == statuses


def test_a_body_that_stops_is_answered_and_let_go(
    server: Server, limited: Callable[[ConnectionLimits], None]
) -> None:
    limited(SHORT)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(f"{HEAD}authorization: {server.key()}\r\ncontent-length: 10\r\n\r\nx".encode())
        assert statuses_of(read_to_end(peer)) == [408]


def test_a_body_that_nobody_wants_is_read_and_its_connection_kept(server: Server) -> None:
    plain = (
        f"{HEAD}authorization: {server.key()}\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(f"{HEAD}content-length: {MIB}\r\n\r\n".encode())
        assert statuses_of(peer.recv(65_536)) == [401]
        peer.sendall(b"x" * MIB + plain.encode())
        assert statuses_of(read_to_end(peer)) == [201]


def test_a_body_that_nobody_wants_has_a_size(
    server: Server, limited: Callable[[ConnectionLimits], None]
) -> None:
    limited(ConnectionLimits(unwanted_bytes_max=MIB))
    for more in ("", "connection: close\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
            peer.sendall(f"{HEAD}{more}content-length: {10**9}\r\n\r\n".encode())
            assert statuses_of(peer.recv(65_536)) == [401]
            with pytest.raises(OSError, match=r"reset|pipe"):
                for _ in range(1_000):
                    peer.sendall(b"x" * MIB)


def test_a_client_that_waits_for_100_is_told_that_its_connection_ends(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(f"{HEAD}expect: 100-continue\r\ncontent-length: 10\r\n\r\n".encode())
        got = peer.recv(65_536)
        assert statuses_of(got) == [401]
        assert b"connection: close" in got.lower()
        # What it sends then may be its next request, or the body it had announced: neither is read.
        peer.sendall(f"{HEAD}authorization: {server.key()}\r\ncontent-length: 1\r\n\r\nx".encode())
        assert read_to_end(peer) == b""


@pytest.mark.parametrize("upgrade", ["h2c", "foo/2", "TLS/1.0"])
def test_a_protocol_that_is_not_spoken_is_not_changed_to(server: Server, upgrade: str) -> None:
    wish = f"connection: upgrade, http2-settings\r\nupgrade: {upgrade}\r\nhttp2-settings: AAAA\r\n"
    one = f"{HEAD}authorization: {server.key()}\r\n{wish}content-length: 1\r\n\r\nx"
    last = f"{HEAD}authorization: {server.key()}\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall((one + last).encode())
        assert statuses_of(read_to_end(peer)) == [201, 201]


def test_a_refusal_waits_for_the_answers_before_it(server: Server) -> None:
    one = f"{HEAD}authorization: {server.key()}\r\ncontent-length: 1\r\n\r\nx"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall((one * 3 + "this is not HTTP\r\n\r\n").encode())
        assert statuses_of(read_to_end(peer)) == [201, 201, 201, 400]


def test_trailers_are_no_headers(server: Server) -> None:
    chunks = "transfer-encoding: chunked\r\nconnection: close\r\n\r\n1\r\nx\r\n0\r\n"
    trailer = f"authorization: {server.key()}\r\ncontent-encoding: gzip\r\n\r\n"
    for authorization, status in (("", 401), (f"authorization: {server.key()}\r\n", 201)):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
            peer.sendall(f"{HEAD}{authorization}{chunks}{trailer}".encode())
            assert statuses_of(read_to_end(peer)) == [status]


# The answer is read after all of the body was sent. --------------------------------------------

EARLY: Final = {
    "401": (PATH, "", 401),
    "404": ("/v1/ns/acme/topics/none/messages", "authorization: {key}\r\n", 404),
    "413": (PATH, "authorization: {key}\r\n", 413),
    "413 of Django": ("/v1/ns/acme/topics/orders", "authorization: {key}\r\n", 413),
    "415": (PATH, "authorization: {key}\r\ncontent-encoding: gzip\r\n", 415),
    "431": (PATH, "a: b\r\n" * 300, 431),
    "400": (PATH, "host: twice\r\n", 400),
}


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
@pytest.mark.parametrize(("path", "headers", "status"), EARLY.values(), ids=EARLY.keys())
def test_an_early_answer_reaches_who_sends_all_of_the_body_first(
    server: Server, path: str, headers: str, status: int, chunked: bool
) -> None:
    head = HEAD.replace(PATH, path) + headers.format(key=server.key()) + "connection: close\r\n"
    if path.endswith("/orders"):
        head = head.replace("POST", "PUT")
    body = b"x" * (10 * MIB)
    if chunked:
        head += "transfer-encoding: chunked\r\n\r\n"
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    else:
        head += f"content-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(head.encode() + body)
        got = read_to_end(peer)
    assert statuses_of(got) == [status]
    assert b"content-type: application/problem+json" in got


def test_an_early_answer_reaches_http_client(server: Server) -> None:
    for _ in range(3):
        peer = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {"authorization": server.key(), "connection": "close"}
        peer.request("POST", PATH, b"x" * (5 * MIB), {**headers, "content-type": "text/plain"})
        assert peer.getresponse().status == 413
        peer.close()


def test_an_early_answer_reaches_who_escapes_all_of_the_largest_body(server: Server) -> None:
    body = json.dumps({"body": "\0" * 4 * MIB})
    peer = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"authorization": server.key(), "content-type": "application/json"}
    peer.request("POST", PATH, body, headers)
    assert peer.getresponse().status == 413
    peer.close()


@pytest.mark.parametrize("expect", ["Expect:", "Expect: 100-continue"])
def test_an_early_answer_reaches_curl(server: Server, tmp_path: Path, expect: str) -> None:
    curl = shutil.which("curl")
    assert curl is not None, "the quick start uses curl, so it has to be here"
    body = tmp_path / "body"
    body.write_bytes(b"x" * (5 * MIB))
    told = subprocess.run(
        [
            *(curl, "-sS", "-o", str(tmp_path / "answer"), "-w", "%{http_code}"),
            *("-H", f"Authorization: {server.key()}", "-H", "Connection: close", "-H", expect),
            *("-H", "Content-Type: text/plain", "--data-binary", f"@{body}"),
            f"http://127.0.0.1:{server.port}{PATH}",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.stdout == "413", told.stderr
    assert b"BODY_TOO_LARGE" in (tmp_path / "answer").read_bytes()


# Connections without a key are counted. --------------------------------------------------------


def test_the_oldest_of_too_many_without_a_key_gives_way(
    server: Server, limited: Callable[[ConnectionLimits], None]
) -> None:
    limited(ConnectionLimits(strangers_of_address_max=3))
    with_key = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    one = f"{HEAD}authorization: {server.key()}\r\ncontent-length: 1\r\n\r\nx".encode()
    with_key.sendall(one)
    assert statuses_of(with_key.recv(65_536)) == [201]
    peers = [with_key]
    try:
        for _ in range(5):
            peers.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
        for gone in peers[1:3]:
            assert read_to_end(gone) == b""
        for kept in (with_key, *peers[3:]):
            kept.settimeout(60)
            kept.sendall(one)
            assert statuses_of(kept.recv(65_536)) == [201]
        assert len(server.application.strangers) == 0
    finally:
        for peer in peers:
            peer.close()
