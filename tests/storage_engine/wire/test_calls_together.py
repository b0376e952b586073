"""Requests about many groups or topics at a time: replies in order, refusals at their places."""

from __future__ import annotations

import pytest

from storage_engine.client import (
    GroupConfig,
    GroupNotFound,
    GroupRef,
    GroupStats,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
    TopicConfig,
    TopicNotFound,
    TopicRef,
    TopicStats,
)
from tests.storage_engine.engines import Engine

COUNT = 40  # more than go out at once


def test_each_has_its_reply_or_why_there_is_none() -> None:
    with Engine() as engine, engine.client() as client:
        client.put_all([
            *(TopicConfig(topic=f"t{at}", queue_count=1 + at % 3) for at in range(COUNT)),
            *(GroupConfig(group=f"g{at}") for at in range(COUNT)),
        ])  # fmt: skip
        gone = 20
        client.topic_delete(TopicRef(topic=f"t{gone}"))
        client.group_delete(GroupRef(group=f"g{gone}"))
        topics = client.topic_stats_all([TopicRef(topic=f"t{at}") for at in range(COUNT)])
        groups = client.group_stats_all([GroupRef(group=f"g{at}") for at in range(COUNT)])
        assert client.topic_stats_all([]) == client.group_stats_all([]) == []
        client.ping()  # nothing of the replies was left behind
    assert isinstance(topics.pop(gone), TopicNotFound)
    assert isinstance(groups.pop(gone), GroupNotFound)
    present = [at for at in range(COUNT) if at != gone]
    assert [len(each.queues) for each in topics if isinstance(each, TopicStats)] == [
        1 + at % 3 for at in present
    ]
    assert [each.group for each in groups if isinstance(each, GroupStats)] == [
        f"g{at}" for at in present
    ]


def test_an_engine_that_is_gone_is_reported() -> None:
    with Engine() as engine, engine.client() as client:
        client.ping()
        engine.kill()
        with pytest.raises(StoreError) as caught:
            client.group_stats_all([GroupRef(group="g")])
    assert isinstance(caught.value, OutcomeUnknown | StoreUnavailable)
