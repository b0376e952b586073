"""PostgreSQL and the engine agree on topics, also when one of them fails."""

from __future__ import annotations

from typing import NoReturn

import pytest
from django.db import OperationalError
from pytest_django import Settings

from mqservice.lib.names import MAIN_SHARD
from mqservice.lib.problem import Problem
from mqservice.store import StoreClient, TopicConfig, TopicRef, blocking_client
from mqservice.topics.models import Topic
from mqservice.topics.services import TopicChange, put_topic
from storage_engine.wire.operations import Op
from tests.people import People


def test_failed_engine_call_takes_the_row_back(people: People) -> None:
    with pytest.raises(Problem) as caught:
        put_topic(people.acme, "orders", TopicChange())
    assert caught.value.code == "ENGINE_UNAVAILABLE"
    assert not Topic.objects.exists()


def test_failed_growth_leaves_the_row_as_it_was(
    people: People, engine: str, settings: Settings
) -> None:
    put_topic(people.acme, "growing", TopicChange(queue_count=2))
    settings.MQ_ENGINE_SOCKET = "/nonexistent/engine.sock"
    with pytest.raises(Problem):
        put_topic(people.acme, "growing", TopicChange(queue_count=4))
    topic = Topic.objects.get(name="growing")
    assert (topic.queue_count, topic.revision) == (2, 1)


def test_same_call_finishes_what_a_crash_before_the_commit_left(
    people: People, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an engine that got the topic and a database that failed right after
    def put_then_fail(self: StoreClient, request: TopicConfig) -> NoReturn:
        self.call(Op.TOPIC_PUT, request)
        raise OperationalError("the server closed the connection")

    with monkeypatch.context() as patch:
        patch.setattr(StoreClient, "topic_put", put_then_fail)
        with pytest.raises(OperationalError):
            put_topic(people.acme, "crashed", TopicChange(queue_count=2))
    assert not Topic.objects.filter(name="crashed").exists()
    # When the client tries again
    topic, is_new = put_topic(people.acme, "crashed", TopicChange(queue_count=2))
    # Then both sides have it
    assert is_new
    with blocking_client(MAIN_SHARD) as client:
        assert len(client.topic_stats(TopicRef(topic=topic.engine_name)).queues) == 2


def test_topics_of_two_namespaces_with_one_name_are_two(people: People, engine: str) -> None:
    put_topic(people.acme, "shared", TopicChange(queue_count=1))
    put_topic(people.rival, "shared", TopicChange(queue_count=2))
    with blocking_client(MAIN_SHARD) as client:
        assert len(client.topic_stats(TopicRef(topic="acme%shared")).queues) == 1
        assert len(client.topic_stats(TopicRef(topic="rival%shared")).queues) == 2
