"""A server with an engine in memory, one per module; each test has topics and keys of its own."""

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
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.serving import PATIENT, Server, serving
from tests.mqservice.delivery.store_double import StoreDouble

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
def server(store: StoreDouble, clock: Clock, times: SessionTimes) -> Iterator[Server]:
    with serving(store, times, clock=clock) as running:
        yield running


@pytest.fixture
def topic(server: Server) -> str:
    """The name of a topic in namespace acme, with a group ``billing`` beside it."""
    name = f"orders{next(_numbers)}"
    server.topic(name)
    server.group("billing")
    return name


@pytest.fixture
def api(server: Server) -> Iterator[httpx.Client]:
    """An HTTP client with a key for namespace acme."""
    with httpx.Client(
        base_url=server.url, headers={"authorization": server.key()}, timeout=60
    ) as client:
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
