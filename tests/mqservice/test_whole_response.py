"""An answer written at once is byte for byte the one that uvicorn makes of ASGI's two messages."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mqservice.delivery import http
from mqservice.lib.safe_headers import header_lines
from mqservice.web.cycle import Cycle, write_response
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.store_double import StoreDouble

PATH = "/v1/ns/acme/topics/orders/messages"
BODY = "content-length: 1\r\n\r\nx"
# Dates, ids and what is left of a rate are other in each run, and as long.
CHANGES = re.compile(
    rb"(?<=date: )[^\r]+|(?<=x-request-id: )\w+|(?<=ratelimit: )[^\r]+|(?<=\"id\":\")\w+"
    rb"|(?<=\"request_id\":\")\w+|(?<=\"stored_at\":\")[^\"]+|(?<=\"cursor\":\")[^\"]+",
)


def head(
    key: str, *lines: str, path: str = PATH, method: str = "POST", version: str = "1.1"
) -> str:
    given = (
        f"{method} {path} HTTP/{version}", "host: 127.0.0.1", f"authorization: {key}",
        "content-type: text/plain", "mq-queue: 0", *lines, "",
    )  # fmt: skip
    return "\r\n".join(given)


def close(key: str) -> str:
    return f"{head(key, 'connection: close')}{BODY}"


EXCHANGES: dict[str, Callable[[str], str]] = {
    "one, and the connection is closed": close,
    "three on one connection": lambda key: f"{head(key)}{BODY}" * 2 + close(key),
    "HTTP/1.0": lambda key: f"{head(key, version='1.0')}{BODY}",
    "HTTP/1.0 that stays": lambda key: (
        f"{head(key, 'connection: keep-alive', version='1.0')}{BODY}{close(key)}"
    ),
    "a body that is asked for": lambda key: (
        f"{head(key, 'expect: 100-continue')}{BODY}{close(key)}"
    ),
    "reading": lambda key: f"{head(key, method='GET')}\r\n{close(key)}",
    "only the head": lambda key: f"{head(key, method='HEAD')}\r\n{close(key)}",
    "a refusal between": lambda key: f"{head(key, 'mq-queue: 9')}{BODY}{close(key)}",
    "a refusal that closes": lambda key: close(key) + head(key, "content-length: 99999999\r\n"),
}


def all_of(server: Server, sent: str) -> bytes:
    """What the server answers until it closes."""
    got = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as peer:
        peer.sendall(sent.encode())
        while part := peer.recv(65_536):
            got += part
    return CHANGES.sub(b"#", got)


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What each call said, in order."""
    found: list[bool] = []

    def observed(*given: Any) -> bool:  # Any: as the real
        found.append(write_response(*given))
        return found[-1]

    monkeypatch.setattr(http, "write_response", observed)
    return found


@pytest.fixture
def fresh() -> Iterator[Callable[[], Server]]:
    """Servers without any message."""
    running = []

    def start() -> Server:
        running.append(serving(StoreDouble()))
        server = running[-1].__enter__()
        server.topic("orders")
        return server

    yield start
    for each in running:
        each.__exit__(None, None, None)


@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES.keys())
def test_it_is_what_uvicorn_makes_of_two_messages(
    fresh: Callable[[], Server],
    outcomes: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    exchange: Callable[[str], str],
) -> None:
    server = fresh()
    at_once = all_of(server, exchange(server.key()))
    assert any(outcomes), "nothing was written at once"
    monkeypatch.setattr(http, "write_response", lambda *given: False)
    server = fresh()
    assert all_of(server, exchange(server.key())) == at_once
    assert at_once.count(b"HTTP/1.1 201 ") >= 1


def test_it_is_written_at_once_whoever_listens_to_uvicorn_s_log(
    fresh: Callable[[], Server], outcomes: list[bool]
) -> None:
    server = fresh()
    logger, handler = logging.getLogger("uvicorn.access"), logging.NullHandler()
    logger.addHandler(handler)  # as pytest does
    try:
        all_of(server, close(server.key()))
    finally:
        logger.removeHandler(handler)
    assert outcomes == [True]


class Unanswered:
    """A cycle that answers nobody."""

    def __init__(self, **state: bool) -> None:
        self.written: list[bytes] = []
        self.ended = 0
        protocol: Any = SimpleNamespace(  # Any: nothing else is looked at
            scope={"method": "POST"},
            transport=SimpleNamespace(write_now=self.written.append, close=lambda: None),
            flow=SimpleNamespace(write_paused=state.pop("write_paused", False)),
            logger=None,
            access_logger=None,
            access_log=state.pop("access_log", False),
            server_state=SimpleNamespace(default_headers=[(b"date", b"today")]),
            on_response_complete=self._end,
        )
        self.cycle = Cycle(protocol, expects_continue=False, keep_alive=True)
        for name, value in state.items():
            assert hasattr(self.cycle, name)
            setattr(self.cycle, name, value)

    def _end(self) -> None:
        self.ended += 1

    def answer(self, *headers: tuple[bytes, bytes]) -> bool:
        lines = header_lines([(b"content-length", b"2"), *headers])
        return write_response(self.cycle.send, 201, lines, b"{}")


def test_head_and_body_are_one_write_and_the_request_ends_once() -> None:
    cycle = Unanswered()
    assert cycle.answer((b"a", b"b"))
    assert cycle.written == [
        b"HTTP/1.1 201 Created\r\ndate: today\r\ncontent-length: 2\r\na: b\r\n\r\n{}"
    ]
    assert cycle.ended == 1
    assert not cycle.answer()  # one answer is all


@pytest.mark.parametrize("state", ["write_paused", "access_log", "response_started"])
def test_what_is_not_usual_is_left_to_uvicorn(state: str) -> None:
    cycle = Unanswered(**{state: True})
    assert not cycle.answer()
    assert (cycle.written, cycle.ended) == ([], 0)


def test_who_is_gone_gets_nothing() -> None:
    cycle = Unanswered(disconnected=True, write_paused=True)
    assert cycle.answer()
    assert (cycle.written, cycle.ended) == ([], 0)


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\rb", b"\r\n\r\n<html>"])
def test_a_header_with_a_line_break_is_no_header(value: bytes) -> None:
    cycle = Unanswered()
    with pytest.raises(ValueError, match="line break"):
        cycle.answer((b"x-request-id", value))
    assert (cycle.written, cycle.ended) == ([], 0)


async def test_another_send_is_left_alone() -> None:
    async def send(message: object) -> None:
        raise AssertionError

    assert not write_response(send, 200, b"", b"")
