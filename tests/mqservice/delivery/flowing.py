"""Sessions whose time only a test moves: nothing of them ends because a machine stands still."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

import pytest
from websockets.exceptions import ConnectionClosed

from mqservice.delivery.sessions import SessionTimes
from tests.clock import ManualClock
from tests.mqservice.delivery.peers import Peer
from tests.mqservice.delivery.serving import Json
from tests.mqservice.delivery.wait_until import wait_until

TIMES: Final = SessionTimes(
    ping_ms=400, pong_ms=40_000, hello_ms=400, stall_ms=600, grace_ms=600, tick_ms=50
)


def fill(peer: Peer, topic: str, count: int, body_bytes: int = 10) -> None:
    for start in range(0, count, 100):
        offers: list[Json] = [
            {"body": "x" * body_bytes, "queue": 0} for _ in range(min(100, count - start))
        ]
        assert peer.ask("pub", topic=topic, m=offers)["op"] == "ok"


def subscribe(peer: Peer, topic: str, msgs: int, bytes_count: int, **fields: object) -> None:
    credit = {"msgs": msgs, "bytes": bytes_count}
    answer = peer.ask("sub", sid=1, topic=topic, group="billing", credit=credit, **fields)
    assert answer["op"] == "ok", answer
    assert answer["r"]["credit"] == credit


def pushed_before_pong(peer: Peer) -> int:
    """How many messages are pushed until the answer to a ping; what is not sent by then is held."""
    frames = [frame for _ in range(3) for frame in before_pong(peer)]
    return sum(len(frame.get("m", ())) for frame in frames)


def before_pong(peer: Peer) -> list[Json]:
    """What comes until the answer to a ping; by then the server has heard what was sent before."""
    peer.send("ping")
    return list(iter(peer.recv, {"op": "pong"}))


def frames_during_pings(peer: Peer, clock: ManualClock, count: int) -> list[Json]:
    """All else that comes until the server has pinged ``count`` times; but what flows is told."""
    frames: list[Json] = []
    for _ in range(count):
        clock.advance(TIMES.ping_ms)
        frames += iter(peer.recv, {"op": "ping"})
        frames += before_pong(peer)
    return [frame for frame in frames if frame["op"] != "flow"]


def pass_time_until(is_so: Callable[[], bool], clock: ManualClock) -> None:
    """Little by little, so that what ends first is told first."""

    def is_so_now() -> bool:
        clock.advance(10)
        return is_so()

    wait_until(is_so_now)


def flow_of(peer: Peer) -> Json:
    """The next of the frames that say why messages come or not."""
    while (frame := peer.recv())["op"] != "flow":
        pass
    return frame


def is_pinged(peer: Peer) -> bool:
    with contextlib.suppress(TimeoutError):
        return bool(peer.recv(0.001)["op"] == "ping")
    return False


def close_code(peer: Peer) -> int:
    with pytest.raises(ConnectionClosed) as caught:
        peer.read_on()
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code
