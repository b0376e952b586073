"""A subscription that has no credit for long is a member of its group all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mqservice.delivery.limits import ANNOUNCE_MS
from mqservice.store import SubscribeReply, SubscribeRequest
from tests.mqservice.delivery.peers import Peer, subscribe
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.delivery.wait_until import wait_until


class Noting(StoreDouble):
    """Remembers who announced itself."""

    def __init__(self) -> None:
        super().__init__()
        self.announced: list[str] = []

    async def subscribe(self, request: SubscribeRequest) -> SubscribeReply:
        self.announced.append(request.member_id)
        return await super().subscribe(request)


@pytest.fixture
def store() -> Noting:
    return Noting()


@pytest.fixture
def server(store: Noting) -> Iterator[Server]:
    with serving(store) as running:
        yield running


def ticked(server: Server, after_ms: int) -> None:
    """As if so much time had passed at the next tick."""
    now_ms = server.context.clock.monotonic_ms() + after_ms
    wall_ms = server.context.clock.now_ms()

    def tick() -> None:
        for session in server.context.sessions.open_sessions:
            session.tick(now_ms, wall_ms)

    server.call(tick)


def test_it_announces_itself_while_it_has_no_credit(
    server: Server, topic: str, store: Noting
) -> None:
    with Peer(server) as idle, Peer(server) as waiting:
        subscribe(idle, topic, credit={"msgs": 0, "bytes": 0})
        subscribe(waiting, topic)
        first, second = store.announced
        ticked(server, ANNOUNCE_MS - 1_000)
        assert store.announced == [first, second]
        ticked(server, ANNOUNCE_MS + 1_000)
        wait_until(lambda: len(store.announced) == 3)

    assert store.announced[2] == first
    assert second != first
