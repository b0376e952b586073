"""Two web processes before one engine, and a topic and a group of the test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mqservice.store import GroupConfig, StoreClient
from tests.mqservice.delivery.engine_serving import real_topic, serving_engine
from tests.mqservice.delivery.peers import BOTH
from tests.mqservice.delivery.serving import Server


@pytest.fixture(scope="module")
def server(engine_socket: str) -> Iterator[Server]:
    with serving_engine(engine_socket) as running:
        yield running


@pytest.fixture(scope="module")
def other(server: Server, engine_socket: str) -> Iterator[Server]:
    """Another web process before the same engine; it knows the same keys, topics and groups."""
    with serving_engine(engine_socket) as running:
        running.keys, running.topics, running.groups = server.keys, server.topics, server.groups
        yield running


@pytest.fixture
def topic(server: Server, engine_socket: str) -> str:
    return real_topic(server, engine_socket, queue_count=2)


@pytest.fixture
def key(server: Server) -> str:
    return server.key()


@pytest.fixture(params=BOTH)
def subprotocol(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def group(server: Server, engine_socket: str, topic: str) -> str:
    """A group of this test alone."""
    name = f"r-{topic}"
    with StoreClient(engine_socket, client_name="setup") as client:
        client.group_put(GroupConfig(group=f"acme%{name}"))
    server.group(name)
    return name
