"""Each way of closing ends, by a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from mqservice.web.connection_limits import ConnectionLimits
from mqservice.web.corked_transport import CorkedTransport
from mqservice.web.unauthenticated import UnauthenticatedConnections

LIMITS = ConnectionLimits(
    unwanted_silence_ms_max=5_000, unwanted_ms_max=30_000, unwanted_bytes_max=100,
    closing_ms_max=30_000,
)  # fmt: skip


class Timer:
    def __init__(self, at_s: float, work: Callable[[], None]) -> None:
        self.at_s, self.work = at_s, work
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """Time that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, seconds: float, work: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now_s + seconds, work))
        return self.timers[-1]

    def call_soon(self, work: Callable[[], None]) -> None:
        self.call_later(0, work)

    def pass_to(self, now_s: float) -> None:
        """Do what is due until then."""
        while due := [t for t in self.timers if not t.is_cancelled and t.at_s <= now_s]:
            timer = min(due, key=lambda each: each.at_s)
            self.timers.remove(timer)
            self.now_s = timer.at_s
            timer.work()
        self.now_s = now_s


class Former:
    """The protocol before."""

    def __init__(self) -> None:
        self.lost: list[Exception | None] = []

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Below:
    """A connection's transport, whose client takes nothing while ``unsent_bytes`` is more."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.written = b""
        self.unsent_bytes = 0
        self.protocol: Any = Former()  # Any: whichever is set

    def write(self, data: bytes) -> None:
        self.written += data

    def get_protocol(self) -> object:
        return self.protocol

    def set_protocol(self, protocol: object) -> None:
        self.protocol = protocol

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return "close" in self.calls or "abort" in self.calls

    def is_reading(self) -> bool:
        return "resume_reading" in self.calls

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self.calls.append(name)


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def below() -> Below:
    return Below()


def corked_over(below: Below, loop: Loop, *, is_unread: bool = True) -> CorkedTransport:
    return CorkedTransport(
        cast(Any, below), cast(Any, loop), limits=LIMITS, is_request_unread=lambda: is_unread
    )


def test_an_answer_to_an_unread_request_is_sent_and_what_comes_is_read(
    below: Below, loop: Loop
) -> None:
    corked = corked_over(below, loop)
    corked.write(b"answer")
    corked.close()
    assert (below.written, below.calls) == (b"answer", ["write_eof", "resume_reading"])
    assert corked.is_closing()
    corked.write(b"more")
    corked.write_now(b"more")
    corked.close()
    loop.pass_to(1_001)
    assert (below.written, below.calls) == (b"answer", ["write_eof", "resume_reading"])


def test_a_connection_whose_request_was_read_is_closed_at_once(below: Below, loop: Loop) -> None:
    corked = corked_over(below, loop, is_unread=False)
    corked.close()
    assert (below.calls, loop.timers) == (["close"], [])


def test_lingering_ends_when_nothing_comes(below: Below, loop: Loop) -> None:
    corked_over(below, loop).close()
    loop.pass_to(1_004)
    below.protocol.data_received(b"x")
    loop.pass_to(1_008.9)
    assert "close" not in below.calls
    loop.pass_to(1_009)
    assert below.calls[-1] == "close"


def test_lingering_ends_although_something_comes_every_second(below: Below, loop: Loop) -> None:
    corked_over(below, loop).close()
    for second in range(1, 30):
        loop.pass_to(1_000 + second)
        below.protocol.data_received(b"x")
    assert "close" not in below.calls
    loop.pass_to(1_030)
    assert below.calls[-1] == "close"


@pytest.mark.parametrize("is_much", [True, False], ids=["much has come", "the client has ended"])
def test_lingering_ends_at_once_when(below: Below, loop: Loop, is_much: bool) -> None:
    corked_over(below, loop).close()
    if is_much:
        below.protocol.data_received(b"x" * 100)
        assert "close" not in below.calls
        below.protocol.data_received(b"x")
    else:
        below.protocol.eof_received()
    assert below.calls[-1] == "close"
    loop.pass_to(2_000)
    assert below.calls.count("close") == 1


def test_who_had_the_connection_hears_that_it_is_lost(below: Below, loop: Loop) -> None:
    former = below.protocol
    corked_over(below, loop).close()
    below.protocol.connection_lost(None)
    assert former.lost == [None]
    loop.pass_to(2_000)
    assert "close" not in below.calls


@pytest.mark.parametrize("is_unread", [True, False])
def test_a_client_that_takes_nothing_is_cut_off(below: Below, loop: Loop, is_unread: bool) -> None:
    below.unsent_bytes = 1
    corked = corked_over(below, loop, is_unread=is_unread)
    corked.close()
    loop.pass_to(1_005 if is_unread else 1_000)
    assert below.calls[-1] == "close"
    loop.pass_to(1_034.9 if is_unread else 1_029.9)
    assert "abort" not in below.calls
    loop.pass_to(1_035)
    assert below.calls[-1] == "abort"


def test_a_connection_that_is_lost_is_not_cut_off_again(below: Below, loop: Loop) -> None:
    below.unsent_bytes = 1
    corked = corked_over(below, loop, is_unread=False)
    corked.close()
    corked.lost()
    loop.pass_to(2_000)
    assert "abort" not in below.calls


class Peer:
    def __init__(self, name: str, ended: list[str]) -> None:
        self.name, self._ended = name, ended

    def give_way(self) -> None:
        self._ended.append(self.name)


def test_strangers_are_bounded_by_address_and_in_all() -> None:
    ended: list[str] = []
    strangers = UnauthenticatedConnections()

    def add(name: str, address: str | None) -> Peer:
        peer = Peer(name, ended)
        strangers.add(peer, address, of_address_max=2, count_max=4)
        return peer

    first, second = add("a1", "a"), add("a2", "a")
    add("a3", "a")
    assert ended == ["a1"]
    strangers.remove(first)  # as it does when it is lost
    strangers.remove(second)  # it has shown a key
    add("a4", "a")
    assert ended == ["a1"]
    add("proxy 1", None)
    add("proxy 2", None)
    assert (ended, len(strangers)) == (["a1"], 4)
    add("proxy 3", None)
    add("b1", "b")
    assert (ended, len(strangers)) == (["a1", "a3", "a4"], 4)
