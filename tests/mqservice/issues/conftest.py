"""A desk on the engine that all tests share, as that of tasks."""

from __future__ import annotations

import pytest

from tests.mqservice.tasks.desk import Desk, open_desk
from tests.people import People


@pytest.fixture
def desk(people: People, engine: str) -> Desk:
    return open_desk(people.acme)
