"""Exclusive and ordered groups through REST and WebSocket on a real engine."""

from __future__ import annotations

import httpx
import pytest

from mqservice.store import Dispatch
from tests.mqservice.delivery.browsing import put, receive, received
from tests.mqservice.delivery.engine_serving import serving_engine
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.wait_until import wait_until

pytestmark = [
    pytest.mark.real_engine(queue_count=4),
    pytest.mark.group_settings(dispatch=Dispatch.EXCLUSIVE, is_ordered=True),
]

QUEUES = 4


def fill(api: httpx.Client, topic: str, name: str) -> None:
    put(api, topic, *[{"body": f"{queue}{name}", "queue": queue} for queue in range(QUEUES)])


def test_consumers_of_an_exclusive_group_have_names(
    api: httpx.Client, topic: str, group: str
) -> None:
    for options in ({}, {"consumer_id": ""}, {"consumer_id": "a b"}, {"consumer_id": "x" * 65}):
        response = receive(api, topic, group, **options)
        problem = response.json()
        assert (response.status_code, problem["code"]) == (400, "BAD_REQUEST")
        assert [item["pointer"] for item in problem["errors"]] == ["/consumer_id"]


def test_each_consumer_gets_its_own_queues(api: httpx.Client, topic: str, group: str) -> None:
    for name in ("left", "right"):
        assert received(api, topic, group, consumer_id=name) == []
    fill(api, topic, "a")
    got = {
        name: {message["queue"] for message in received(api, topic, group, consumer_id=name)}
        for name in ("left", "right")
    }
    assert got == {"left": {0, 1}, "right": {2, 3}}


def test_an_ordered_queue_waits_for_its_batch(api: httpx.Client, topic: str, group: str) -> None:
    put(api, topic, *[{"body": body, "queue": 0} for body in "abc"])
    first = received(api, topic, group, consumer_id="one", max=2)
    assert [message["body"] for message in first] == ["a", "b"]
    assert received(api, topic, group, consumer_id="one", max=2) == []
    api.post(f"/v1/-/groups/{group}:settle", json={"ack": [one["receipt"] for one in first]})
    last = received(api, topic, group, consumer_id="one", max=2)
    assert [message["body"] for message in last] == ["c"]


@pytest.mark.parametrize("subprotocol", BOTH)
def test_a_socket_that_leaves_hands_its_queues_over_at_once(
    server: Server, api: httpx.Client, topic: str, group: str, subprotocol: str
) -> None:
    with Peer(server, subprotocol) as stays:
        stays.ask("sub", sid=1, topic=topic, group=group, credit={"msgs": 100, "bytes": 10_000})
        with Peer(server, subprotocol) as leaves:
            leaves.ask("sub", sid=1, topic=topic, group=group)
            fill(api, topic, "a")
            mine, others = stays.take(2), leaves.take(2)
            assert {m["q"] for m in mine} | {m["q"] for m in others} == set(range(QUEUES))
            for peer, messages in ((stays, mine), (leaves, others)):
                peer.ask("ack", sid=1, t=[message["t"] for message in messages])
        fill(api, topic, "b")
        assert {message["q"] for message in stays.take(QUEUES)} == set(range(QUEUES))


def test_a_web_process_that_dies_takes_its_consumers_with_it(
    engine_socket: str, api: httpx.Client, topic: str, group: str
) -> None:
    with serving_engine(engine_socket) as other:
        other.topic(topic, queue_count=QUEUES)
        other.group(group, is_exclusive=True)
        with other.client() as gone:
            assert received(gone, topic, group, consumer_id="a") == []
        assert received(api, topic, group, consumer_id="b") == []
        fill(api, topic, "a")
        assert len(received(api, topic, group, consumer_id="b")) == QUEUES // 2
    messages: list[Json] = []

    def has_the_rest() -> bool:
        messages.extend(received(api, topic, group, consumer_id="b"))
        return len(messages) == QUEUES // 2

    wait_until(has_the_rest)


@pytest.mark.parametrize("subprotocol", BOTH)
def test_a_socket_that_drains_hands_its_queues_over_with_its_batch(
    server: Server, api: httpx.Client, topic: str, group: str, subprotocol: str
) -> None:
    fill(api, topic, "a")
    fill(api, topic, "b")
    with Peer(server, subprotocol) as drains, Peer(server, subprotocol) as heir:
        credit = {"msgs": 3 * QUEUES, "bytes": 10_000}
        drains.ask("sub", sid=1, topic=topic, group=group, credit=credit)
        held = drains.take(2 * QUEUES)
        drained = drains.ask("unsub", sid=1, drain=True)
        heir.ask("sub", sid=1, topic=topic, group=group)
        fill(api, topic, "c")
        heir.send("ping")
        assert heir.recv()["op"] == "pong", "each queue waits for its batch"
        of_one = [message["t"] for message in held if message["q"] == 1]
        others = [message["t"] for message in held if message["q"] != 1]
        drains.ask("ack", sid=1, t=of_one)
        [first] = heir.take(1)
        assert drains.ask("ack", sid=1, t=others)["r"] == {"acked": len(others), "failed": []}
        rest = heir.take(QUEUES - 1)

    assert drained["r"] == {"outstanding": 2 * QUEUES}
    assert first["q"] == 1
    assert {message["o"] for message in [first, *rest]} == {2}
