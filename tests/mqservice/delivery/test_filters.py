"""Filters over REST and WebSocket, before a real engine."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from mqservice.errors import problem_from_store
from mqservice.store import FilterInvalid, SubscriptionConflict
from tests.engine import running_engine
from tests.mqservice.delivery.browsing import receive
from tests.mqservice.delivery.peers import BOTH, Peer, subscribe
from tests.mqservice.delivery.serving import Json, Server

pytestmark = pytest.mark.real_engine(queue_count=2)


@pytest.fixture(scope="module")
def engine_socket() -> Iterator[str]:
    with running_engine() as socket_path:
        yield socket_path


def put(api: httpx.Client, topic: str, *messages: Json) -> None:
    offers = [{"body": str(number), **message} for number, message in enumerate(messages)]
    assert api.post(f"/v1/-/topics/{topic}/messages:batch", json=offers).status_code == 201


def bodies(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return sorted(message["body"] for message in response.json()["messages"])


def test_receive_by_tags_settles_the_others(api: httpx.Client, topic: str) -> None:
    put(api, topic, {"tag": "created"}, {"tag": "paid"}, {}, {"tag": "lost"})

    wanted = receive(api, topic, filter=" paid || created", consumer_id="c")

    assert bodies(wanted) == ["0", "1"]
    receipts = [message["receipt"] for message in wanted.json()["messages"]]
    settled = api.post("/v1/-/groups/billing:settle", json={"ack": receipts})
    assert settled.json()["acked"] == 2
    assert bodies(receive(api, topic, consumer_id="c")) == []  # all others were passed over


def test_receive_by_sql_sees_properties_tag_and_keys(api: httpx.Client, topic: str) -> None:
    put(
        api,
        topic,
        {"properties": {"amount": "12.5", "region": "eu"}, "tag": "paid", "keys": ["k1"]},
        {"properties": {"amount": "7", "region": "eu"}, "tag": "paid", "keys": ["k1"]},
        {"properties": {"amount": "99", "region": "us"}, "tag": "paid", "keys": ["k1"]},
        {"properties": {"amount": "99", "region": "eu"}, "tag": "void", "keys": ["k1"]},
        {"properties": {"amount": "99"}, "tag": "paid", "keys": ["k1"]},
        {"properties": {"amount": "99", "region": "eu"}, "tag": "paid"},
    )
    sql = "amount > 10 AND region = 'eu' AND TAGS = 'paid' AND KEYS CONTAINS 'k1'"

    assert bodies(receive(api, topic, filter={"sql": sql})) == ["0"]


def test_a_filter_is_refused_with_place_and_reason(api: httpx.Client, topic: str) -> None:
    problem = receive(api, topic, filter={"sql": "amount >> 5"}).json()

    assert (problem["status"], problem["code"]) == (400, "ILLEGAL_FILTER")
    assert "'>' at character 9: expected" in problem["detail"]
    assert problem["errors"][0]["pointer"] == "/filter/sql"


def test_another_filter_is_a_conflict_until_its_readers_are_gone(
    api: httpx.Client, topic: str
) -> None:
    put(api, topic, {"tag": "a"}, {"tag": "b"})
    assert receive(api, topic, filter="a", consumer_id="first").status_code == 200

    for other in ({"filter": "b"}, {}, {"filter": {"sql": "TAGS = 'a'"}}):
        refused = receive(api, topic, **other).json()
        assert (refused["status"], refused["code"]) == (409, "SUBSCRIPTION_CONFLICT")
        assert "with the tag filter a;" in refused["detail"]
        assert refused["retryable"] is True
        assert 0 < refused["retry_after_ms"] <= 120_000
    assert receive(api, topic, filter="a").status_code == 200


def test_receives_that_name_no_consumer_keep_nobody_from_another_filter(
    api: httpx.Client, topic: str
) -> None:
    put(api, topic, {"tag": "a"}, {"tag": "b"}, {"tag": "b"})
    assert bodies(receive(api, topic, filter="a")) == ["0"]  # which is not settled
    for other in ({"filter": "b"}, {}, {"filter": {"sql": "TAGS = 'a'"}}):
        assert receive(api, topic, **other).status_code == 200


@pytest.mark.parametrize(
    ("body", "query", "expected"),
    [
        ({"filter": "a || b"}, {"filter": "a || b"}, ["0", "1"]),
        ({"tag": "a || b"}, {"tag": "a || b"}, ["0", "1"]),
        ({"filter": "*"}, {"filter": "*"}, ["0", "1", "2", "3"]),
        ({"filter": {"sql": "n > 5"}}, {"filter": '{"sql": "n > 5"}'}, ["1", "2", "3"]),
        ({"filter": {"sql": "n > 5"}, "tag": "a || b"}, {"sql": "n > 5", "tag": "a||b"}, ["1"]),
    ],
)
def test_filter_and_tag_mean_the_same_in_a_receive_and_a_browse(
    api: httpx.Client, topic: str, body: Json, query: dict[str, str], expected: list[str]
) -> None:
    tags: tuple[Json, ...] = ({"tag": "a"}, {"tag": "b"}, {"tag": "c"}, {})
    put(
        api,
        topic,
        *[{**tag, "properties": {"n": str(9 * bool(at))}} for at, tag in enumerate(tags)],
    )

    found = api.get(f"/v1/ns/acme/topics/{topic}/messages", params=query).json()["messages"]

    assert sorted(each["body"] for each in found) == expected
    assert sorted(bodies(receive(api, topic, **body))) == expected


def test_a_lone_consumer_changes_its_filter(api: httpx.Client, topic: str) -> None:
    assert bodies(receive(api, topic, filter="a", consumer_id="first")) == []
    assert bodies(receive(api, topic, filter="b", consumer_id="first")) == []
    put(api, topic, {"tag": "a"}, {"tag": "b"})
    assert bodies(receive(api, topic, filter="b", consumer_id="first", wait="20s")) == ["1"]


@pytest.mark.parametrize("subprotocol", BOTH)
def test_subscriptions_push_only_what_they_want(
    server: Server, api: httpx.Client, topic: str, subprotocol: str
) -> None:
    with Peer(server, subprotocol) as peer:
        subscribe(peer, topic, filter={"sql": "region IS NOT NULL"})
        put(api, topic, {"tag": "a"}, {"properties": {"region": "eu"}}, {"tag": "b"})
        [message] = peer.take(1)
        assert peer.body(message) == b"1"
        peer.ask("ack", sid=1, t=[message["t"]])


@pytest.mark.parametrize("subprotocol", BOTH)
def test_a_conflict_is_the_answer_to_sub_and_ends_with_the_other_one(
    server: Server, topic: str, subprotocol: str
) -> None:
    with Peer(server, subprotocol) as peer, Peer(server, subprotocol) as other:
        subscribe(peer, topic, filter="a || b")
        subscribe(other, topic, filter="b||a", sid=7)  # the same
        own = peer.ask("sub", sid=2, topic=topic, group="billing", filter="b")
        refused = other.ask("sub", sid=1, topic=topic, group="billing")
        assert [answer["code"] for answer in (own, refused)] == ["SUBSCRIPTION_CONFLICT"] * 2
        assert "with the tag filter a || b;" in refused["msg"]

        peer.ask("unsub", sid=1)
        other.ask("unsub", sid=7)
        subscribe(other, topic)

    with Peer(server, subprotocol) as later:  # those who have gone count no more
        subscribe(later, topic, filter="c")


def test_a_subscription_that_never_had_credit_is_a_member_too(server: Server, topic: str) -> None:
    with Peer(server) as peer, Peer(server) as other:
        subscribe(peer, topic, filter="a", credit={"msgs": 0, "bytes": 0})
        refused = other.ask("sub", sid=1, topic=topic, group="billing", filter="b")
        assert refused["code"] == "SUBSCRIPTION_CONFLICT"


def test_a_receive_and_a_subscription_agree_as_well(
    server: Server, api: httpx.Client, topic: str
) -> None:
    with Peer(server) as peer:
        subscribe(peer, topic, filter="a")
        assert receive(api, topic, filter="b").status_code == 409
        put(api, topic, {"tag": "b"}, {"tag": "a"})
        assert [peer.body(message) for message in peer.take(1)] == [b"1"]


def test_thousands_that_nobody_wants_are_passed_within_one_wait(
    api: httpx.Client, topic: str
) -> None:
    for _ in range(12):
        put(api, topic, *[{"tag": "noise", "queue": 0}] * 1_000)
    put(api, topic, {"tag": "signal", "queue": 0})

    assert bodies(receive(api, topic, filter="signal", wait="20s")) == ["0"]


def test_what_the_engine_refuses_has_its_code_and_its_words() -> None:
    invalid = problem_from_store(FilterInvalid("'x' at character 3: expected"))
    conflict = problem_from_store(SubscriptionConflict("with another filter"))

    assert (invalid.status, invalid.code) == (400, "ILLEGAL_FILTER")
    assert invalid.detail == "'x' at character 3: expected"
    assert (conflict.status, conflict.code) == (409, "SUBSCRIPTION_CONFLICT")
