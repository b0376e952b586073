"""Order by message group through REST and WebSocket on a real engine."""

from __future__ import annotations

import httpx
import pytest

from tests.mqservice.delivery.browsing import put, received, settle
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.wait_until import wait_until

pytestmark = [pytest.mark.real_engine(queue_count=1), pytest.mark.group_settings(is_ordered=True)]


def fill(api: httpx.Client, topic: str, *bodies: str) -> None:
    """``a1`` is of message group ``a``, ``-1`` of none."""
    offers: list[Json] = []
    for body in bodies:
        offer: Json = {"body": body}
        offers.append(offer if body[0] == "-" else {**offer, "message_group": body[0]})
    put(api, topic, *offers)


def bodies(messages: list[Json]) -> list[str]:
    return [message["body"] for message in messages]


def test_receives_share_the_queue_and_each_message_group_has_its_order(
    api: httpx.Client, topic: str, group: str
) -> None:
    fill(api, topic, "a1", "a2", "b1", "-1", "b2")
    first = received(api, topic, group, max=1)
    second = received(api, topic, group)
    assert (bodies(first), bodies(second)) == (["a1"], ["b1", "-1"])
    assert [message["message_group"] for message in second] == ["b", None]
    assert settle(api, group, ack=[second[0]["receipt"]])["failed"] == []
    assert bodies(received(api, topic, group)) == ["b2"]
    assert (
        settle(api, group, nack=[{"receipt": first[0]["receipt"], "delay": "10ms"}])["failed"] == []
    )
    again: list[Json] = []

    def is_back() -> bool:
        again.extend(received(api, topic, group))
        return bool(again)

    wait_until(is_back)
    assert [(one["body"], one["attempt"]) for one in again] == [("a1", 2)]
    assert settle(api, group, ack=[again[0]["receipt"]])["failed"] == []
    assert bodies(received(api, topic, group)) == ["a2"]


@pytest.mark.parametrize("subprotocol", BOTH)
def test_sockets_share_the_queue_and_an_ack_lets_the_message_group_continue(
    server: Server, api: httpx.Client, topic: str, group: str, subprotocol: str
) -> None:
    with Peer(server, subprotocol) as one, Peer(server, subprotocol) as two:
        one.ask("sub", sid=1, topic=topic, group=group, credit={"msgs": 1, "bytes": 10_000})
        fill(api, topic, "a1", "a2")
        (held,) = one.take(1)
        assert one.body(held) == b"a1"
        two.ask("sub", sid=1, topic=topic, group=group, credit={"msgs": 10, "bytes": 10_000})
        fill(api, topic, "b1")
        (other,) = two.take(1)
        assert two.body(other) == b"b1"  # a2 is before it, and waits
        two.ask("ack", sid=1, t=[other["t"]])
        one.ask("ack", sid=1, t=[held["t"]])
        (last,) = two.take(1)
        assert two.body(last) == b"a2"


def test_a_socket_that_vanishes_lets_its_message_group_begin_again(
    server: Server, api: httpx.Client, topic: str, group: str
) -> None:
    fill(api, topic, "a1", "a2")
    with Peer(server, BOTH[0]) as gone:
        gone.ask("sub", sid=1, topic=topic, group=group, lease_ms=1_000)
        assert [gone.body(message) for message in gone.take(1)] == [b"a1"]
    messages: list[Json] = []

    def is_back() -> bool:
        messages.extend(received(api, topic, group))
        return bool(messages)

    wait_until(is_back)
    assert bodies(messages) == ["a1"]


def test_one_request_settles_a_message_group_and_gets_what_comes_next_of_it(
    api: httpx.Client, topic: str, group: str
) -> None:
    fill(api, topic, "a1", "a2", "a3")
    settled: Json = {}
    seen = []
    for _ in range(4):
        messages = received(api, topic, group, max=1, settle=settled)
        seen += bodies(messages)
        settled = {"ack": [message["receipt"] for message in messages]}
    assert seen == ["a1", "a2", "a3"]
