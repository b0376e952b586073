"""Clients of both kinds, and the service that they talk to.

Cases ask for ``service``, and know of it only what a ``Target`` has: another implementation of the
service can take the real one's place.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest
from mqservice_client import Client
from mqservice_client.network import Network
from mqservice_client.testing import FakeService

from tests.clients.python.blocking import blocking
from tests.services import Service, wait_until

OUR_THREADS = ("mqservice", "blocking")
WAIT_S = 30.0
Connect = Callable[..., Client]


class Target(NamedTuple):
    """Where a client connects to. ``network`` leads to a service that has no address.

    ``process``: the real service, which a test may harm if it waits until all is as before.
    """

    base_url: str
    api_key: str
    network: Network | None = None
    process: Service | None = None


class Place(NamedTuple):
    """A topic and a group of one test's own, of one name."""

    topic: str
    group: str


# For modules whose cases hold for the fake as well.
CONTRACT = pytest.mark.parametrize("service", ["real", "fake"], indirect=True, scope="session")


# Of two or three of these each level meets each level of the others in half of the combinations:
# ``make test`` runs those, ``make torture`` the other half. Where there is only the kind, ``make
# test`` runs the asynchronous client: the synchronous one is generated from it.
_LEVELS = {"kind": "async", "transport": "rest", "service": "fake"}


def pytest_itemcollected(item: pytest.Item) -> None:
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return
    params = item.callspec.params
    levels = [params[name] == level for name, level in _LEVELS.items() if name in params]
    if len(levels) > 1:
        is_in_torture = sum(levels) % 2 == 1
    else:
        # A test that a mark gives one of the twins has no other.
        is_given = any("kind" in mark.args for mark in item.iter_markers("parametrize"))
        is_in_torture = params.get("kind") == "sync" and not is_given
    if is_in_torture:
        item.add_marker(pytest.mark.torture)


@pytest.fixture(scope="session")
def service(request: pytest.FixtureRequest) -> Target:
    """The real one, unless the module says that the fake has to pass its cases too."""
    if getattr(request, "param", "real") == "fake":
        fake = FakeService(clock=lambda: time.time_ns() // 1_000_000)
        return Target("http://127.0.0.1:9", "mqk_fake", fake.network())
    # Not by the name of this fixture: pytest would start it anew for each change of the parameter.
    real: Service = request.getfixturevalue("one_service")
    return Target(real.facts.base_url, real.facts.api_key, process=real)


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    """Which of the twins."""
    return str(request.param)


@pytest.fixture
def connect(service: Target, kind: str) -> Iterator[Connect]:
    """Makes clients with arguments of their own; at the end each is closed and has left nothing."""
    with ExitStack() as stack:

        def make(
            base_url: str = service.base_url, api_key: str = service.api_key, **options: Any
        ) -> Client:
            options.setdefault("network", service.network)
            maker = Client if kind == "sync" else blocking
            return stack.enter_context(maker(base_url, api_key, **options))

        yield make
    # A thread whose last work is done ends a moment later.
    wait_until(lambda: not threads_left(), WAIT_S, "no thread is left")


def threads_left() -> list[str]:
    """Of clients and of what runs them here."""
    return [each.name for each in threading.enumerate() if each.name.startswith(OUR_THREADS)]


@pytest.fixture
def mq(connect: Connect) -> Client:
    return connect()


_numbers = itertools.count(1)


def make_place(
    mq: Client, *, topic: dict[str, Any] | None = None, group: dict[str, Any] | None = None
) -> Place:
    """A topic of one queue and a group that begins with its first message, by default."""
    name = f"py-{os.getpid()}-{next(_numbers)}"
    mq.request("PUT", f"topics/{name}", json={"queues": 1, **(topic or {})})
    mq.request("PUT", f"groups/{name}", json={"start_from": "earliest", **(group or {})})
    return Place(name, name)


@pytest.fixture
def place(mq: Client) -> Place:
    return make_place(mq)
