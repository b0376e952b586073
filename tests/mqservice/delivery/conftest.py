"""A server, one per module; each test has topics and keys of its own.

Its engine is one in memory, or the real one in modules with the mark ``real_engine``, which says
what topics are like as ``group_settings`` does of groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mqservice.delivery.plane import DataPlane
from mqservice.delivery.sessions import SessionTimes
from mqservice.lib.clock import Clock, SystemClock
from mqservice.web.cycle import Serve
from tests.mqservice.delivery.engine_serving import real_group, real_topic, serving_engine
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.serving import PATIENT, Server, serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.delivery.whole_requests import whole_client

_numbers = itertools.count()


@pytest.fixture(scope="module")
def clock() -> Clock:
    return SystemClock()


@pytest.fixture(scope="module")
def times() -> SessionTimes:
    return PATIENT


@pytest.fixture(scope="module")
def store(clock: Clock) -> StoreDouble:
    return StoreDouble(clock)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, clock: Clock, times: SessionTimes) -> Iterator[Server]:
    with (
        serving(request.getfixturevalue("store"), times, clock=clock)
        if _settings(request, "real_engine") is None
        else serving_engine(request.getfixturevalue("engine_socket"), times=times)
    ) as running:
        yield running


@pytest.fixture
def topic(server: Server, request: pytest.FixtureRequest) -> str:
    """The name of a topic in namespace acme, with a group ``billing`` beside it."""
    settings = _settings(request, "real_engine")
    if settings is not None:
        return real_topic(server, request.getfixturevalue("engine_socket"), **settings)
    name = f"orders{next(_numbers)}"
    server.topic(name)
    server.group("billing")
    return name


@pytest.fixture
def group(server: Server, engine_socket: str, topic: str, request: pytest.FixtureRequest) -> str:
    """A group of this test alone."""
    settings = _settings(request, "group_settings") or {}
    return real_group(server, engine_socket, f"g-{topic}", **settings)


def _settings(request: pytest.FixtureRequest, marker: str) -> dict[str, Any] | None:
    found = request.node.get_closest_marker(marker)
    return None if found is None else found.kwargs


@pytest.fixture
def api(server: Server) -> Iterator[httpx.Client]:
    """An HTTP client with a key for namespace acme."""
    with server.client() as client:
        yield client


@pytest.fixture(params=["at once", "in parts"])
def sender(server: Server, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """A client that writes a request at once, and one that writes its head before its body."""
    with whole_client(server) if request.param == "at once" else server.client() as client:
        yield client


@pytest.fixture(params=BOTH)
def peer(server: Server, request: pytest.FixtureRequest) -> Iterator[Peer]:
    with Peer(server, request.param) as connected:
        yield connected


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each request was served without a task, in order: False when its head has come, True
    when its body has.
    """
    found: list[bool] = []
    take = DataPlane.take

    def observed(served: DataPlane, *given: Any) -> Serve | None:  # Any: as the real
        serve = take(served, *given)
        if serve is None:
            found.append(False)
            return None

        def serve_observed(body: bytes) -> None:
            found.append(True)
            serve(body)

        return serve_observed

    monkeypatch.setattr(DataPlane, "take", observed)
    return found
