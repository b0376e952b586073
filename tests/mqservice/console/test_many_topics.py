"""Pages of a namespace with ten thousand topics: as large as with a few, and asking as little."""

from __future__ import annotations

from typing import Final

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from mqservice.topics.models import Topic
from tests.people import People

ROOT: Final = "/console/acme"
TOPIC_COUNT: Final = 10_000
PAGE_BYTES_MAX: Final = 160 * 1024
QUERIES_MAX: Final = 40
# Those that list topics, or offer them.
PAGES: Final = (
    "", "topics", "topics?q=topic-0", "topics?sort=messages", "topics/topic-00001", "messages",
    "tail", "search?q=topic", "groups",
    "new-group", "new-alert", "new-alert?kind=lag", "new-schedule", "new-mask", "new-key",
    "scheduled", "dead-letters", "definitions", "usage", "quick-start", "masking",
    "topics/topic-00001/publish", "search.json?q=topic", "search.json?q=publish+topic",
)  # fmt: skip


@pytest.fixture
def many(people: People, alice: Client) -> Client:
    Topic.objects.bulk_create(
        Topic(namespace=people.acme, name=f"topic-{index:05}") for index in range(TOPIC_COUNT)
    )
    return alice


def test_every_page_is_bounded(many: Client, engine: str) -> None:
    found = []
    for path in PAGES:
        with CaptureQueriesContext(connection) as queries:
            answer = many.get(f"{ROOT}/{path}")
        if answer.status_code != 200:
            found.append(f"{path} answers {answer.status_code}")
        if len(answer.content) > PAGE_BYTES_MAX:
            found.append(f"{path} has {len(answer.content):,} bytes")
        if len(queries) > QUERIES_MAX:
            found.append(f"{path} asks {len(queries)} times")
    assert found == []
