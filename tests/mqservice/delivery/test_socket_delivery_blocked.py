"""A consumer is told when its group has as many messages in flight as may be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from mqservice.store import AsyncStoreClient
from tests.engine import running_engine
from tests.mqservice.delivery.browsing import put
from tests.mqservice.delivery.engine_serving import real_topic
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.serving import PATIENT, Server, serving
from tests.mqservice.delivery.wait_until import wait_until

FEW = {"MQ_ENGINE_INFLIGHT_COUNT_MAX": "2"}


@pytest.fixture(scope="module")
def few_socket() -> Iterator[str]:
    with running_engine(FEW) as path:
        yield path


@pytest.fixture(scope="module")
def server(few_socket: str) -> Iterator[Server]:
    store = AsyncStoreClient(few_socket, client_name="test")
    with serving(store, replace(PATIENT, tick_ms=50)) as running:
        running.call(store.start)
        wait_until(lambda: store.is_connected)
        yield running


@pytest.mark.parametrize("subprotocol", BOTH)
def test_inflight_is_told_until_messages_come_again(
    server: Server, few_socket: str, subprotocol: str
) -> None:
    topic = real_topic(server, few_socket, queue_count=1)
    with (
        Peer(server, subprotocol) as peer,
        server.client() as api,
    ):
        put(api, topic, *[{"body": str(number)} for number in range(3)])
        credit = {"msgs": 100, "bytes": 100_000}
        peer.ask("sub", sid=1, topic=topic, group="billing", credit=credit)
        first, second = peer.take(2)
        assert peer.recv() == {"op": "flow", "sid": 1, "state": "inflight"}
        peer.ask("ack", sid=1, t=[first["t"]])
        [third] = peer.take(1)
        assert peer.body(third) == b"2"
        assert peer.recv() == {"op": "flow", "sid": 1, "state": "open"}
        peer.ask("ack", sid=1, t=[second["t"], third["t"]])
