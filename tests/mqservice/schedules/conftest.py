"""Schedules over a topic of a real engine, and what they have put there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mqservice.accounts.models import Namespace
from mqservice.lib.names import MAIN_SHARD
from mqservice.schedules.models import Schedule
from mqservice.schedules.quota_charges import Charges
from mqservice.schedules.runs import plan
from mqservice.schedules.sending import sweep
from mqservice.store import PullRequest, Record, TopicConfig, TopicRef, blocking_client
from mqservice.topics.models import Topic
from tests.clock import ManualClock
from tests.people import People

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
Make = Callable[..., Schedule]


@dataclass
class Desk:
    """``clock`` begins at a whole hour."""

    namespace: Namespace
    clock: ManualClock
    charges: Charges

    def make_topic(self, name: str = "ticks", **settings: Any) -> Topic:
        # Any: whatever the columns hold
        topic = Topic.objects.create(
            namespace=self.namespace, name=name, **{"queue_count": 1, **settings}
        )
        with blocking_client(MAIN_SHARD) as client:
            client.topic_put(TopicConfig(topic=topic.engine_name, queue_count=1))
        return topic

    def make(self, name: str = "nightly", **fields: Any) -> Schedule:
        """One that is planned from now on; its columns by name."""
        schedule = Schedule(
            **{
                "namespace": self.namespace, "name": name, "topic": "ticks",
                "cron": "0 * * * *", "body": b"tick", **fields,
            }
        )  # fmt: skip
        plan(schedule, self.clock.now_ms())
        schedule.save()
        return schedule

    def tick(self, later_ms: int = 0) -> None:
        """A sweep, after so long."""
        self.clock.advance(later_ms)
        sweep(self.clock, by=self.charges)

    def stored(self, topic: str = "ticks") -> list[Record]:
        name = f"{self.namespace.name}%{topic}"
        with blocking_client(MAIN_SHARD) as client:
            [queue] = client.topic_stats(TopicRef(topic=name)).queues
            _, records = client.pull(
                PullRequest(
                    topic=name,
                    queue_id=0,
                    queue_offset=queue.min_offset,  # not 0 where a topic of the name was deleted
                    messages_max=100,
                    bytes_max=1 << 20,
                )
            )
        return list(records)

    def planned(self) -> list[str]:
        """For which times something was stored, in the order of the queue."""
        return [record.properties["mq_planned_at"] for record in self.stored()]


@pytest.fixture
def desk(people: People, engine: str) -> Desk:
    return open_desk(people.acme)


def open_desk(namespace: Namespace) -> Desk:
    clock = ManualClock()  # 2027-01-15T08:00:00Z
    desk = Desk(namespace, clock, Charges(clock))
    desk.make_topic()
    return desk
