"""Two web processes before one engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mqservice.delivery.engine_serving import serving_engine
from tests.mqservice.delivery.peers import BOTH
from tests.mqservice.delivery.serving import Server


@pytest.fixture(scope="module")
def other(server: Server, engine_socket: str) -> Iterator[Server]:
    """Another web process before the same engine; it knows the same keys, topics and groups."""
    with serving_engine(engine_socket) as running:
        running.keys, running.topics, running.groups = server.keys, server.topics, server.groups
        yield running


@pytest.fixture
def key(server: Server) -> str:
    return server.key()


@pytest.fixture(params=BOTH)
def subprotocol(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name
