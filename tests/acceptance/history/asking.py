"""What a run of clients asks before and after: a topic and a group, and what is left of it."""

from __future__ import annotations

from typing import Final

import httpx
from mqservice_client import MQError

from mqservice.supervisor.quickstart import Quickstart
from tests.services import client_of

_PAGE_MAX: Final = 256


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


def read_topic(facts: Quickstart, name: str) -> dict[tuple[int, int], str]:
    """Bodies of all that is in a topic, by queue and offset."""
    topic = f"{facts.base_url}/v1/ns/{facts.namespace}/topics/{name}"
    headers = {"authorization": f"Bearer {facts.api_key}"}
    there: dict[tuple[int, int], str] = {}
    with httpx.Client(headers=headers, timeout=60, trust_env=False) as api:
        for queue in range(int(api.get(topic).json()["queues"])):
            offset, end = 0, 1
            while offset < end:
                asked = {"offset": offset, "max": _PAGE_MAX}
                page = api.get(f"{topic}/queues/{queue}/messages", params=asked).json()
                there |= {(queue, each["offset"]): each["body"] for each in page["messages"]}
                offset, end = page["next_offset"], page["max_offset"]
    return there
