"""Topics and groups put many at a time: durable, refusals at their places, a lost engine told."""

from __future__ import annotations

import pytest

from storage_engine.client import (
    BadRequest,
    GroupConfig,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
    TopicConfig,
)
from tests.storage_engine.engines import Engine

COUNT = 300  # more than go out at once


def configs(count: int = COUNT) -> list[TopicConfig | GroupConfig]:
    topics = [TopicConfig(topic=f"t{at}", queue_count=1) for at in range(count)]
    groups = [GroupConfig(group=f"g{at}", lease_ms=7_000 + at) for at in range(count)]
    return [*topics, *groups]


def test_all_are_there_after_a_kill() -> None:
    with Engine() as engine:
        with engine.client() as client:
            assert client.put_all(configs()) == [None] * 2 * COUNT
        engine.kill()
        engine.start()
        with engine.client() as client:
            topics = {each.topic for each in client.topic_list().topics}
            leases = {each.group: each.lease_ms for each in client.group_list().groups}
    assert {f"t{at}" for at in range(COUNT)} <= topics
    assert {name: leases[name] for name in leases if name.startswith("g")} == {
        f"g{at}": 7_000 + at for at in range(COUNT)
    }


def test_a_refusal_stands_at_its_place_and_the_others_are_done() -> None:
    wanted = configs(3)
    wanted[1] = TopicConfig(topic="bad", queue_count=100_000)
    wanted[4] = GroupConfig(group="bad", batch_per_group=0)
    with Engine() as engine, engine.client() as client:
        found = client.put_all(wanted)
        assert [type(each) for each in found] == [
            type(None), BadRequest, type(None), type(None), BadRequest, type(None),
        ]  # fmt: skip
        assert "queue_count is 100000" in str(found[1])
        assert {"t0", "t2"} <= {each.topic for each in client.topic_list().topics}
        assert client.put_all([]) == []
        client.ping()  # nothing of the replies was left behind


def test_the_last_word_on_one_name_counts() -> None:
    wanted = [TopicConfig(topic="t", queue_count=count) for count in (1, 5, 3)]
    with Engine() as engine, engine.client() as client:
        assert client.put_all(wanted) == [None, None, None]
        counts = {each.topic: each.queue_count for each in client.topic_list().topics}
    assert counts["t"] == 3


def test_an_engine_that_is_gone_is_reported() -> None:
    with Engine() as engine, engine.client() as client:
        client.ping()
        engine.kill()
        with pytest.raises(StoreError) as caught:
            client.put_all(configs(1))
    assert isinstance(caught.value, OutcomeUnknown | StoreUnavailable)
