"""What the tests of the console send and consume beside the browser."""

from __future__ import annotations

from typing import Any, Final

from tests.services import Service, client_of

SCRIPT: Final = (
    "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
)


def produce(service: Service, topic: str, body: str, **more: Any) -> str:  # Any: what `send` takes
    """Id of a message that was stored."""
    with client_of(service.facts) as mq:
        return mq.send(topic, body, **{"keys": ["from-rest"], **more}).id


def schedule(service: Service, name: str, **settings: object) -> None:
    """A schedule of the demo's topic; once a year unless it is said otherwise."""
    asked = {"topic": "orders", "cron": "@yearly", "message": {"body": "x"}, **settings}
    with client_of(service.facts) as mq:
        mq.request("PUT", f"schedules/{name}", json=asked)


def receive(service: Service, count: int) -> list[str]:
    """Ids of messages that the demo's group gets, and acks; at most so many."""
    ids: list[str] = []
    with (
        client_of(service.facts, transport="rest") as mq,
        mq.subscribe("orders", "billing", consumer_id="browser-test", prefetch=count) as messages,
    ):
        while len(ids) < count and (message := messages.get("2s")) is not None:
            message.ack()
            ids.append(message.id)
        return ids


def give_up(service: Service, group: str, *bodies: str) -> list[str]:
    """Ids of messages that the group has given up, for ``SCRIPT``, of a topic of its name."""
    return dead_letter(service, group, [(body, SCRIPT) for body in bodies])


def dead_letter(service: Service, group: str, given: list[tuple[str, str]]) -> list[str]:
    """Ids of messages with these bodies that the group has given up, each for its reason."""
    ids: list[str] = []
    reasons = dict(given)
    with client_of(service.facts) as mq:
        mq.topics.create(group, queues=1)
        mq.groups.create(group)
        for body, _ in given:
            mq.send(group, body)
        with mq.subscribe(group, group) as messages:
            while len(ids) < len(given):
                message = messages.get("5s")
                assert message is not None
                message.dead_letter(reasons[message.text])
                message.confirmed("60s")
                ids.append(message.id)
    return ids
