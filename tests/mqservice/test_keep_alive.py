"""A connection that pauses has one timer, however many requests there were before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from uvicorn.server import ServerState

from mqservice.asgi import application
from mqservice.web.__main__ import KEEP_ALIVE_SECONDS, server_config
from mqservice.web.transport import CorkedHttpProtocol


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

    def call_later(self, seconds: float, work: Callable[[], None], *given: object) -> Timer:
        self.timers.append(Timer(self.now_s + seconds, lambda: work(*given)))
        return self.timers[-1]

    def fire_next(self) -> None:
        timer = self.timers.pop(0)
        self.now_s = timer.at_s
        timer.work()


class Transport:
    """Of nobody."""

    def __init__(self) -> None:
        self.closes: list[str] = []

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default

    def is_closing(self) -> bool:
        return bool(self.closes)

    def close(self) -> None:
        self.closes.append("close")

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def protocol(loop: Loop, transport: Transport) -> CorkedHttpProtocol:
    config = server_config(application)
    config.load()
    made = CorkedHttpProtocol(
        config=config, server_state=ServerState(), app_state={}, _loop=cast(Any, loop)
    )
    made.connection_made(cast(Any, transport))
    loop.timers.clear()  # that of the first head
    return made


def test_the_pause_counts_from_the_last_answer_and_costs_one_timer(
    protocol: CorkedHttpProtocol, loop: Loop, transport: Transport
) -> None:
    for _ in range(3):
        protocol._unset_keepalive_if_required()  # as what comes does
        protocol.on_response_complete()
        loop.now_s += 10
    assert [timer.at_s for timer in loop.timers] == [1_000 + KEEP_ALIVE_SECONDS]
    loop.fire_next()
    assert transport.closes == []
    assert [timer.at_s for timer in loop.timers] == [1_020 + KEEP_ALIVE_SECONDS]
    loop.fire_next()
    assert transport.closes == ["close"]
    assert loop.timers == []


def test_a_request_that_is_under_way_is_no_pause(
    protocol: CorkedHttpProtocol, loop: Loop, transport: Transport
) -> None:
    protocol.on_response_complete()
    protocol._unset_keepalive_if_required()
    loop.fire_next()
    assert transport.closes == []
    assert loop.timers == []
    loop.now_s += 1_000
    protocol.on_response_complete()
    assert [timer.at_s for timer in loop.timers] == [loop.now_s + KEEP_ALIVE_SECONDS]


@pytest.mark.parametrize("exc", [None, ConnectionResetError()])
def test_a_connection_that_has_ended_has_no_timer(
    protocol: CorkedHttpProtocol, loop: Loop, exc: Exception | None
) -> None:
    protocol.on_response_complete()
    (timer,) = loop.timers
    protocol.connection_lost(exc)
    assert timer.is_cancelled
