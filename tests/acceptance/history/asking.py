"""What a run of clients asks before and after: a topic and a group, and what is left of it."""

from __future__ import annotations

from mqservice_client import MQError

from mqservice.supervisor.quickstart import Quickstart
from tests.services import client_of


def make_topic_and_group(facts: Quickstart, name: str, group: dict[str, object]) -> None:
    """Of one name, unless they are there."""
    with client_of(facts) as mq:
        mq.topics.create(name, queues=4)
        mq.request("PUT", f"groups/{name}", json=group)


def is_drained(facts: Quickstart, name: str) -> bool:
    """Whether the group has nothing before it; False too while the service does not answer."""
    with client_of(facts, timeout="1s") as mq:
        try:
            lag = mq.groups.lag(name)
        except MQError:
            return False
    return (lag.lag, lag.retry.waiting, lag.retry.scheduled) == (0, 0, 0)
