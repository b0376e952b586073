"""Messages that are not acknowledged, through REST and WebSocket on a real engine."""

from __future__ import annotations

import httpx
import pytest

from tests.mqservice.delivery.browsing import browse, dead_letters, put, received, settle
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.resume.resuming import sever
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.wait_until import wait_until

pytestmark = [
    pytest.mark.real_engine(queue_count=1),
    pytest.mark.group_settings(max_reconsume_times=1),
]


MESSAGE: Json = {
    "body_json": {"order": 42},
    "tag": "created",
    "keys": ["k1", "k2"],
    "message_group": "customer-7",
    "properties": {"source": "web"},
}


def test_a_retry_shows_the_message_as_it_was_produced(
    api: httpx.Client, topic: str, group: str
) -> None:
    [stored] = put(api, topic, MESSAGE)
    [first] = received(api, topic, group, wait="20s")
    answer = settle(
        api, group, nack=[{"receipt": first["receipt"], "delay": "0s", "reason": "db down"}]
    )
    [second] = received(api, topic, group, wait="20s")

    assert (answer["nacked"], answer["failed"]) == (1, [])
    assert (first["attempt"], second["attempt"]) == (1, 2)
    for name in ("id", "tag", "keys", "message_group", "properties", "body_json", "born_at"):
        assert second[name] == first[name]
    assert second["id"] == stored["id"]
    assert settle(api, group, ack=[second["receipt"]])["acked"] == 1
    assert received(api, topic, group) == []


def test_what_fails_too_often_is_found_in_the_dead_letters(
    api: httpx.Client, topic: str, group: str
) -> None:
    [stored] = put(api, topic, MESSAGE)
    for reason in ("db down", "bad schema"):
        [message] = received(api, topic, group, wait="20s")
        settle(
            api,
            group,
            nack=[{"receipt": message["receipt"], "delay": "0s", "reason": reason}],
        )
    wait_until(lambda: dead_letters(api, group)["messages"])

    [dead] = dead_letters(api, group)["messages"]
    [by_key] = dead_letters(api, group, key="k2")["messages"]
    by_id = api.get(f"/v1/-/groups/{group}/dlq/{stored['id']}").json()

    assert dead == by_key == by_id
    assert (dead["id"], dead["topic"], dead["attempts"]) == (stored["id"], topic, 2)
    assert (dead["reason"], dead["body_json"], dead["tag"]) == (
        "bad schema",
        {"order": 42},
        "created",
    )
    assert dead["properties"] == {"source": "web"}
    assert stored["stored_at"] <= dead["first_delivered_at"] <= dead["last_delivered_at"]
    assert received(api, topic, group) == []
    assert [message["id"] for message in browse(api, topic)["messages"]] == [stored["id"]]


def test_a_message_is_given_up_at_once_when_asked(
    api: httpx.Client, topic: str, group: str
) -> None:
    put(api, topic, {"body": "good"}, {"body": "bad"})
    good, bad = received(api, topic, group, wait="20s")
    parts = {"receipt": bad["receipt"], "reason": "no such customer"}
    answer = settle(api, group, ack=[good["receipt"]], dead_letter=[parts])
    again = settle(api, group, dead_letter=[parts])
    wait_until(lambda: dead_letters(api, group)["messages"])

    assert (answer["acked"], answer["nacked"], answer["dead_lettered"]) == (1, 0, 1)
    assert (again["dead_lettered"], [one["code"] for one in again["failed"]]) == (
        0,
        ["LEASE_EXPIRED"],
    )
    [dead] = dead_letters(api, group)["messages"]
    assert (dead["body"], dead["reason"], dead["attempts"]) == ("bad", "no such customer", 1)


def test_dead_letters_have_pages_and_none_before_the_first(
    api: httpx.Client, topic: str, group: str
) -> None:
    assert dead_letters(api, group) == {"messages": [], "next_cursor": None, "is_complete": True}
    absent = api.get(f"/v1/-/groups/{group}/dlq/{'0' * 34}")
    assert (absent.status_code, absent.json()["code"]) == (404, "MESSAGE_NOT_FOUND")

    put(api, topic, *[{"body": str(number)} for number in range(5)])
    messages = received(api, topic, group, wait="20s")
    settle(api, group, dead_letter=[{"receipt": message["receipt"]} for message in messages])
    wait_until(lambda: len(dead_letters(api, group)["messages"]) == 5)

    shown: list[str] = []
    cursor: dict[str, str | int] = {}
    while True:
        answer = dead_letters(api, group, limit=2, **cursor)
        shown += [message["body"] for message in answer["messages"]]
        if answer["next_cursor"] is None:
            break
        cursor = {"cursor": answer["next_cursor"]}
    assert shown == ["0", "1", "2", "3", "4"]
    foreign = api.get(f"/v1/-/topics/{topic}/messages", params=cursor)
    assert foreign.json()["code"] == "CURSOR_INVALID"


@pytest.mark.parametrize("path", ["dlq", "dlq/0123"])
def test_dead_letters_of_another_tenant_are_as_absent_as_none(
    api: httpx.Client, server: Server, group: str, path: str
) -> None:
    foreign = api.get(f"/v1/ns/globex/groups/{group}/{path}")
    absent = api.get(f"/v1/-/groups/nobody/{path}")

    assert (foreign.status_code, absent.status_code) == (404, 404)
    assert foreign.json()["code"] == absent.json()["code"] == "GROUP_NOT_FOUND"


@pytest.mark.parametrize("subprotocol", BOTH)
def test_a_socket_retries_and_gives_up(
    server: Server, api: httpx.Client, topic: str, group: str, subprotocol: str
) -> None:
    put(api, topic, {"body": "once"}, {"body": "never"})
    with Peer(server, subprotocol) as peer:
        peer.ask("sub", sid=1, topic=topic, group=group)
        once, never = peer.take(2)
        nacked = peer.ask("nack", sid=1, t=[[once["t"], 0, "again"]])
        dead = peer.ask("dlq", sid=1, t=[[never["t"], "bad schema"]])
        [again] = peer.take(1)
        acked = peer.ask("ack", sid=1, t=[again["t"]])
        wait_until(lambda: dead_letters(api, group)["messages"])

    assert (nacked["r"], dead["r"]) == (
        {"nacked": 1, "failed": []},
        {"dead_lettered": 1, "failed": []},
    )
    assert (again["id"], again["a"], peer.body(again)) == (once["id"], 2, b"once")
    assert acked["r"] == {"acked": 1, "failed": []}
    [letter] = dead_letters(api, group)["messages"]
    assert (letter["body"], letter["reason"]) == ("never", "bad schema")


def test_what_a_socket_holds_when_it_unsubscribes_comes_again_as_the_same_attempt(
    server: Server, api: httpx.Client, topic: str, group: str
) -> None:
    with Peer(server) as peer:
        peer.ask("sub", sid=1, topic=topic, group=group, credit={"msgs": 1, "bytes": 1_000})
        put(api, topic, {"body": "a"}, {"body": "b"})
        [held] = peer.take(1)
        peer.ask("unsub", sid=1)
    messages = received(api, topic, group, max=2, wait="20s")

    assert {(message["body"], message["attempt"]) for message in messages} == {("a", 1), ("b", 1)}
    assert peer.body(held) == b"a"


def test_members_that_leave_in_order_make_no_dead_letters(
    server: Server, api: httpx.Client, topic: str, group: str
) -> None:
    """Two members in turn, as many as there are attempts: one unsubscribes, one closes."""
    put(api, topic, *({"body": str(number)} for number in range(10)))
    credit = {"msgs": 10, "bytes": 1_000}
    with Peer(server) as first:
        first.ask("sub", sid=1, topic=topic, group=group, credit=credit)
        held = first.take(10)
        first.ask("unsub", sid=1)
    with Peer(server, resume_ttl_ms=0) as second:
        second.ask("sub", sid=1, topic=topic, group=group, credit=credit)
        held += second.take(10)
    with Peer(server) as third:
        third.ask("sub", sid=1, topic=topic, group=group, credit=credit)
        held += third.take(10)

    assert [message["a"] for message in held] == [1] * 30
    assert dead_letters(api, group)["messages"] == []


def test_a_client_that_vanishes_uses_up_an_attempt(
    server: Server, api: httpx.Client, topic: str, group: str
) -> None:
    put(api, topic, {"body": "poison"})
    attempts = []
    for _ in range(2):
        with Peer(server, resume_ttl_ms=0) as peer:
            peer.ask("sub", sid=1, topic=topic, group=group)
            [held] = peer.take(1)
            attempts.append(held["a"])
            sever(peer)
    wait_until(lambda: dead_letters(api, group)["messages"])

    [letter] = dead_letters(api, group)["messages"]
    assert (attempts, letter["body"], letter["attempts"]) == ([1, 2], "poison", 2)
