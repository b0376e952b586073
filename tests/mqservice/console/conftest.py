"""What tests of the live tail share."""

from __future__ import annotations

import pytest

from mqservice.console.tail import consumer
from mqservice.topics.models import Topic
from tests.mqservice.console.tail_sockets import CountedStore, Sockets
from tests.people import People


@pytest.fixture
def tailed() -> CountedStore:
    return CountedStore()


@pytest.fixture
def sockets(tailed: CountedStore, monkeypatch: pytest.MonkeyPatch) -> Sockets:
    monkeypatch.setattr(consumer, "TICK_MS", 10)
    return Sockets(tailed)


@pytest.fixture
def cast_of_tail(transactional_db: None, people: People) -> People:
    Topic.objects.create(namespace=people.acme, name="orders")
    Topic.objects.create(namespace=people.rival, name="theirs")
    return people
