"""Broadcast groups through REST and WebSocket on a real engine."""

from __future__ import annotations

import httpx
import pytest

from mqservice.store import (
    Dispatch,
    GroupStatsRequest,
    OffsetResetRequest,
    ResetTo,
    StoreClient,
)
from tests.mqservice.delivery.browsing import put, receive, received, settle
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.resume.resuming import TTL_MS, resume_of, sever, subscribed
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.wait_until import wait_until

pytestmark = [
    pytest.mark.real_engine(queue_count=2),
    pytest.mark.group_settings(dispatch=Dispatch.BROADCAST),
]

LEASE = "5s"  # nobody who keeps it alive is as slow as that

CREDIT = {"msgs": 100, "bytes": 10_000}


def bodies(messages: list[Json]) -> list[str]:
    return sorted(message["body"] for message in messages)


def receipts(messages: list[Json]) -> list[str]:
    return [message["receipt"] for message in messages]


def dropped_count(engine_socket: str, group: str) -> int:
    with StoreClient(engine_socket, client_name="test") as client:
        return client.group_stats(GroupStatsRequest(group=f"acme%{group}")).dropped_count


def fill(api: httpx.Client, topic: str, *texts: str) -> None:
    put(api, topic, *[{"body": text, "queue": at % 2} for at, text in enumerate(texts)])


def test_every_client_receives_every_message_over_rest(
    api: httpx.Client, topic: str, group: str
) -> None:
    fill(api, topic, "a", "b", "c")
    for name in ("10.0.0.7@4711#1", "host:2"):
        messages = received(api, topic, group, client_id=name)
        assert bodies(messages) == ["a", "b", "c"]
        assert {message["max_attempts"] for message in messages} == {1}
        assert settle(api, group, ack=receipts(messages))["acked"] == 3
        assert received(api, topic, group, client_id=name) == []
    fill(api, topic, "d")
    assert bodies(received(api, topic, group, client_id="host:2")) == ["d"]


@pytest.mark.parametrize(
    "options", [{}, {"client_id": ""}, {"client_id": "a b"}, {"client_id": "x" * 129},
                {"client_id": None}, {"client_id": "ü"}, {"client_id": "a\x00"}]
)  # fmt: skip
def test_clients_must_say_who_they_are(
    api: httpx.Client, topic: str, group: str, options: Json
) -> None:
    response = receive(api, topic, group, **options)
    problem = response.json()
    assert (response.status_code, problem["code"]) == (400, "BAD_REQUEST")
    assert [item["pointer"] for item in problem["errors"]] == ["/client_id"]


def test_other_groups_have_no_clients(api: httpx.Client, topic: str) -> None:
    response = receive(api, topic, "billing", client_id="a")
    assert response.status_code == 400
    assert [item["pointer"] for item in response.json()["errors"]] == ["/client_id"]


def test_the_engine_refuses_what_a_stale_route_lets_through(
    server: Server, engine_socket: str, api: httpx.Client, topic: str, group: str
) -> None:
    server.group(group)  # as it was before it was deleted and made anew
    wait_until(lambda: receive(api, topic, group).status_code == 400)
    assert (
        "client_id must name the client that reads" in receive(api, topic, group).json()["detail"]
    )


def test_receipts_settle_for_their_own_client_alone(
    api: httpx.Client, topic: str, group: str
) -> None:
    fill(api, topic, "a", "b")
    mine = received(api, topic, group, client_id="mine")
    other = received(api, topic, group, client_id="other")
    # One call may hold receipts of both; each counts for whom it was given to.
    answer = settle(
        api,
        group,
        ack=[mine[0]["receipt"], other[0]["receipt"]],
        extend=[{"receipt": other[1]["receipt"], "lease": "5m"}],
        nack=[{"receipt": mine[1]["receipt"]}],
    )
    assert (answer["acked"], answer["nacked"], answer["failed"]) == (2, 1, [])
    assert [each["receipt"] for each in answer["extended"]] == [other[1]["receipt"]]
    again = settle(api, group, ack=[mine[1]["receipt"], other[1]["receipt"]])
    assert again["acked"] == 2  # what was dropped is settled as well


def test_a_receipt_whose_client_was_changed_is_no_receipt(
    api: httpx.Client, topic: str, group: str
) -> None:
    fill(api, topic, "a")
    (message,) = received(api, topic, group, client_id="aaaa")
    text = message["receipt"]
    at = 4 * (29 // 3)  # the client id begins in this group of four characters
    forged = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
    answer = settle(api, group, ack=[forged])
    assert [failed["code"] for failed in answer["failed"]] == ["RECEIPT_INVALID"]
    assert settle(api, group, ack=[text])["acked"] == 1


def test_what_fails_is_dropped_and_counted(
    engine_socket: str, api: httpx.Client, topic: str, group: str
) -> None:
    fill(api, topic, "a", "b", "c")
    messages = received(api, topic, group, client_id="a", lease="1s")
    settle(api, group, nack=[{"receipt": messages[0]["receipt"], "delay": "1h"}])
    settle(api, group, dead_letter=[{"receipt": messages[1]["receipt"]}])
    wait_until(lambda: dropped_count(engine_socket, group) == 3)  # the last lease has ended
    assert received(api, topic, group, client_id="a") == []
    assert bodies(received(api, topic, group, client_id="b")) == ["a", "b", "c"]
    dead = api.get(f"/v1/-/groups/{group}/dlq").json()
    assert dead["messages"] == []


def test_each_client_may_bring_another_filter(api: httpx.Client, topic: str, group: str) -> None:
    put(api, topic, {"body": "a", "tag": "red"}, {"body": "b", "tag": "blue"})
    for name, wanted in (("red", "a"), ("blue", "b")):
        messages = received(api, topic, group, client_id=name, filter=name)
        assert bodies(messages) == [wanted]


def test_a_client_that_goes_away_while_it_waits_loses_nothing(
    server: Server, api: httpx.Client, topic: str, group: str
) -> None:
    with (
        server.client() as gone,
        pytest.raises(httpx.ReadTimeout),
    ):
        gone.post(
            f"/v1/-/topics/{topic}/groups/{group}:receive",
            json={"wait": "20s", "client_id": "a"},
            timeout=httpx.Timeout(60, read=0.2),
        )
    fill(api, topic, "a")
    assert bodies(received(api, topic, group, client_id="a", wait="20s")) == ["a"]


@pytest.mark.parametrize("subprotocol", BOTH)
def test_every_client_is_pushed_every_message(
    server: Server, api: httpx.Client, topic: str, group: str, subprotocol: str
) -> None:
    with Peer(server, subprotocol) as one, Peer(server, subprotocol) as two:
        for name, peer in (("one", one), ("two", two)):
            answer = peer.ask("sub", sid=1, topic=topic, group=group, client_id=name, credit=CREDIT)
            assert answer["op"] == "ok", answer
        fill(api, topic, "a", "b", "c")
        for peer in (one, two):
            messages = peer.take(3)
            assert sorted(message["b"] for message in messages) in (
                ["a", "b", "c"],
                [b"a", b"b", b"c"],
            )
            answer = peer.ask("ack", sid=1, t=[message["t"] for message in messages])
            assert answer["r"]["acked"] == 3
    for name in ("one", "two"):
        assert received(api, topic, group, client_id=name) == []


@pytest.mark.parametrize("subprotocol", BOTH)
def test_subscriptions_must_say_which_client_they_are(
    server: Server, topic: str, group: str, subprotocol: str
) -> None:
    with Peer(server, subprotocol) as peer:
        for fields in ({}, {"client_id": "a b"}, {"client_id": ""}):
            answer = peer.ask("sub", sid=1, topic=topic, group=group, **fields)
            assert (answer["op"], answer["code"]) == ("err", "BAD_REQUEST")
            assert "client" in answer["msg"]
        answer = peer.ask("sub", sid=1, topic=topic, group="billing", client_id="a")
        assert (answer["op"], answer["code"]) == ("err", "BAD_REQUEST")
        assert peer.ask("sub", sid=1, topic=topic, group=group, client_id="a")["op"] == "ok"


@pytest.mark.parametrize("subprotocol", BOTH)
def test_two_sockets_of_one_client_share_its_messages(
    server: Server, api: httpx.Client, topic: str, group: str, subprotocol: str
) -> None:
    fill(api, topic, *"abcdef")
    with Peer(server, subprotocol) as one, Peer(server, subprotocol) as two:
        held: list[list[Json]] = []
        for peer in (one, two):
            peer.ask(
                "sub", sid=1, topic=topic, group=group, client_id="same",
                credit={"msgs": 3, "bytes": 10_000},
            )  # fmt: skip
            held.append(peer.take(3))
        assert len({message["id"] for messages in held for message in messages}) == 6
        for peer, messages in zip((one, two), held, strict=True):
            peer.ask("ack", sid=1, t=[message["t"] for message in messages])
    assert received(api, topic, group, client_id="same") == []


@pytest.mark.parametrize("subprotocol", BOTH)
def test_a_socket_that_breaks_drops_nothing_of_what_it_holds(
    server: Server,
    engine_socket: str,
    api: httpx.Client,
    topic: str,
    group: str,
    subprotocol: str,
) -> None:
    fill(api, topic, "a", "b", "c")
    with Peer(server, subprotocol) as peer:
        peer.ask("sub", sid=1, topic=topic, group=group, client_id="a", credit=CREDIT)
        messages = peer.take(3)
        peer.ask("nack", sid=1, t=[[messages[0]["t"], None, None]])
    with Peer(server, subprotocol) as peer:
        peer.ask("sub", sid=1, topic=topic, group=group, client_id="a", credit=CREDIT)
        again = peer.take(2)
        assert {each["id"] for each in again} == {each["id"] for each in messages[1:]}
        assert {each["a"] for each in again} == {1}
    assert dropped_count(engine_socket, group) == 1


@pytest.mark.parametrize("subprotocol", BOTH)
def test_a_reset_of_one_client_is_told_to_its_sockets_alone(
    server: Server, engine_socket: str, api: httpx.Client, topic: str, group: str, subprotocol: str
) -> None:
    fill(api, topic, "a")
    with Peer(server, subprotocol) as one, Peer(server, subprotocol) as two:
        for name, peer in (("one", one), ("two", two)):
            credit = {"msgs": 1, "bytes": 10_000}
            peer.ask("sub", sid=1, topic=topic, group=group, client_id=name, credit=credit)
            peer.take(1)
        reset = OffsetResetRequest(
            group=f"acme%{group}", topic=f"acme%{topic}", to=ResetTo.EARLIEST, client_id="one"
        )
        with StoreClient(engine_socket, client_name="admin") as admin:
            admin.offset_reset(reset)
        lost = one.recv()
        assert (lost["op"], lost["t"], lost["why"]) == ("lost", [1], "reset")
        [again] = one.take(1)
        assert again["t"] == 2
        assert two.ask("ack", sid=1, t=[1])["r"] == {"acked": 1, "failed": []}


@pytest.mark.parametrize("subprotocol", BOTH)
def test_a_resumed_session_continues_as_the_same_client(
    server: Server, engine_socket: str, api: httpx.Client, topic: str, group: str, subprotocol: str
) -> None:
    key = server.key()
    fill(api, topic, "a", "b", "c")
    with Peer(server, subprotocol, key=key, resume_ttl_ms=TTL_MS) as peer:
        subscribed(peer, topic, group, 3, client_id="one")
        peer.ask("ack", sid=1, t=[2])
        peer.ask("nack", sid=1, t=[[3, None, None]])
        sever(peer)
    assert bodies(received(api, topic, group, client_id="two")) == ["a", "b", "c"]
    resume = resume_of(peer, [[1, 0, []]])
    with Peer(server, subprotocol, key=key, resume=resume, resume_ttl_ms=TTL_MS) as again:
        assert again.welcome["resumed"] is True
        assert [message["t"] for message in again.take(1)] == [1]
        assert again.ask("ack", sid=1, t=[1])["r"] == {"acked": 1, "failed": []}
        fill(api, topic, "d")
        assert len(again.take(1)) == 1
    assert dropped_count(engine_socket, group) == 1


def test_a_repeated_receive_gets_the_same_of_its_own_client(
    api: httpx.Client, topic: str, group: str
) -> None:
    fill(api, topic, "a", "b")
    one = received(api, topic, group, client_id="one", attempt_id="x")
    two = received(api, topic, group, client_id="two", attempt_id="x")
    assert receipts(received(api, topic, group, client_id="one", attempt_id="x")) == receipts(one)
    assert settle(api, group, ack_upto=[receipts(one)[-1]])["acked"] == 2
    assert receipts(received(api, topic, group, client_id="two", attempt_id="x")) == receipts(two)
    assert settle(api, group, ack_upto=[receipts(two)[-1]])["acked"] == 2


def test_what_an_ack_upto_cannot_ack_is_named_by_receipts_of_the_client(
    api: httpx.Client, topic: str, group: str
) -> None:
    put(api, topic, *[{"body": text, "queue": 0} for text in "ab"])
    messages = received(api, topic, group, client_id="one")
    settle(api, group, nack=[{"receipt": receipts(messages)[0]}])
    answer = settle(api, group, ack_upto=[receipts(messages)[1]])
    assert (answer["acked"], answer["failed"]) == (1, [])


def test_a_consumer_of_a_client_is_heard_of_without_a_receipt(
    engine_socket: str, api: httpx.Client, topic: str, group: str
) -> None:
    fill(api, topic, "a")
    who = {"consumer_id": "worker", "client_id": "one"}
    kept = received(api, topic, group, lease=LEASE, auto_extend="1m", **who)
    received(api, topic, group, lease=LEASE, client_id="clock")

    def lease_of_another_has_ended() -> bool:
        assert settle(api, group, **who)["failed"] == []
        return dropped_count(engine_socket, group) > 0

    wait_until(lease_of_another_has_ended)
    assert settle(api, group, ack=receipts(kept))["acked"] == 1
    assert dropped_count(engine_socket, group) == 1
    answer = api.post(f"/v1/-/groups/{group}:settle", json={**who, "client_id": "a b"})
    assert answer.json()["errors"][0]["pointer"] == "/client_id"


def test_one_client_too_many_is_told_so(
    server: Server, api: httpx.Client, topic: str, group: str
) -> None:
    for number in range(1_000):
        assert receive(api, topic, group, client_id=f"c{number}").status_code == 200
    response = receive(api, topic, group, client_id="one more")
    assert response.status_code == 400  # a blank is none of the signs allowed
    response = receive(api, topic, group, client_id="one.more")
    assert (response.status_code, response.json()["code"]) == (403, "QUOTA_EXCEEDED")
    with Peer(server) as peer:
        answer = peer.ask("sub", sid=1, topic=topic, group=group, client_id="one.more")
        assert (answer["op"], answer["code"]) == ("err", "QUOTA_EXCEEDED")
    assert receive(api, topic, group, client_id="c7").status_code == 200


def test_a_receive_settles_for_the_client_that_its_receipts_name(
    api: httpx.Client, topic: str, group: str
) -> None:
    fill(api, topic, "a", "b")
    for name in ("a", "b"):
        held = receipts(received(api, topic, group, client_id=name, max=2))
        answer = receive(api, topic, group, client_id=name, settle={"ack": held}).json()
        assert answer["messages"] == []
        assert (answer["settled"]["acked"], answer["settled"]["failed"]) == (2, [])
