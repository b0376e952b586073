"""The WebSocket protocol, command by command, in both subprotocols over real sockets."""

from __future__ import annotations

import json

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from mqservice.delivery.sessions import SessionTimes
from tests.mqservice.delivery.peers import JSON, Peer, subscribe
from tests.mqservice.delivery.serving import PATIENT, Server
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.delivery.wait_until import wait_until


def test_hello_tells_the_limits(peer: Peer) -> None:
    welcome = peer.welcome

    assert welcome["session"].startswith("s_")
    assert welcome["resumed"] is False
    assert (welcome["ping_ms"], welcome["pong_ms"]) == (PATIENT.ping_ms, PATIENT.pong_ms)
    assert (SessionTimes().ping_ms, SessionTimes().pong_ms) == (25_000, 10_000)
    assert welcome["limits"] == {
        "credit_msgs": 1_000,
        "credit_bytes": 8 * 1024 * 1024,
        "max_frame": 4 * 1024 * 1024,
        "max_commands": 1_000,
    }


def test_without_a_subprotocol_it_is_json(server: Server) -> None:
    with connect(server.ws_url, additional_headers={"authorization": server.key()}) as socket:
        socket.send('{"op":"hello","id":1}')

        assert json.loads(socket.recv(5))["op"] == "welcome"
        assert socket.subprotocol is None


@pytest.mark.parametrize(
    ("headers", "query", "subprotocol", "status", "code"),
    [
        ({}, "", JSON, 401, "UNAUTHENTICATED"),
        ({"authorization": "Bearer wrong"}, "", JSON, 401, "UNAUTHENTICATED"),
        (None, "?ns=other", JSON, 404, "NAMESPACE_NOT_FOUND"),
        (None, "", "mq.v9", 400, "BAD_REQUEST"),
    ],
)
def test_refused_before_the_upgrade_with_a_problem(
    server: Server,
    headers: dict[str, str] | None,
    query: str,
    subprotocol: str,
    status: int,
    code: str,
) -> None:
    if headers is None:
        headers = {"authorization": server.key()}

    with pytest.raises(InvalidStatus) as caught:
        Peer(
            server,
            subprotocol,
            url=server.ws_url + query,
            key=headers.get("authorization", "none"),
        )

    response = caught.value.response
    assert response.status_code == status
    assert response.body is not None
    assert json.loads(bytes(response.body))["code"] == code
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-request-id"]


def test_a_key_of_the_whole_tenant_names_its_namespace(server: Server, topic: str) -> None:
    key = server.key(namespace=None)

    with pytest.raises(InvalidStatus) as caught:
        Peer(server, key=key)
    with Peer(server, key=key, url=server.ws_url + "?ns=acme") as peer:
        answer = peer.ask("pub", topic=topic, m=[{"body": "x"}])

    assert caught.value.response.status_code == 400
    assert answer["op"] == "ok"


def test_other_sockets_are_404(server: Server) -> None:
    with pytest.raises(InvalidStatus) as caught:
        Peer(server, url=server.ws_url + "x")

    assert caught.value.response.status_code == 404


def test_pub_stores_and_answers_like_a_batch(peer: Peer, topic: str, store: StoreDouble) -> None:
    answer = peer.ask(
        "pub", topic=topic, m=[{"body": "a", "tag": "t", "keys": ["k"], "queue": 1}, {"body": "b"}]
    )

    results = answer["r"]["results"]
    assert [(r["index"], r["status"]) for r in results] == [(0, 201), (1, 201)]
    by_id = {record.message_id: record for record in store.records(f"acme%{topic}")}
    first = by_id[results[0]["id"]]
    assert (first.body, first.tag, first.keys, first.queue_id) == (b"a", "t", ["k"], 1)


def test_bodies_arrive_as_they_were(peer: Peer, api: httpx.Client, topic: str) -> None:
    bodies = [b"text", "ünï\n".encode(), bytes(range(256)), b'{"a":1}']
    for body in bodies:
        api.post(f"/v1/-/topics/{topic}/messages", content=body, headers={"mq-queue": "0"})
    subscribe(peer, topic)

    messages = peer.take(len(bodies))

    assert [peer.body(message) for message in messages] == bodies
    assert [message["t"] for message in messages] == [1, 2, 3, 4]
    assert [message["o"] for message in messages] == [0, 1, 2, 3]


def test_a_json_body_is_json_again_on_one_line(
    server: Server, api: httpx.Client, topic: str
) -> None:
    api.post(
        f"/v1/-/topics/{topic}/messages",
        content=b'{"body_json": {"a":\n 1}, "properties": {"p": "1"}}',
        headers={"content-type": "application/json"},
    )
    with Peer(server) as peer:
        subscribe(peer, topic)
        [message] = peer.take(1)

    assert (message["e"], message["b"], message["p"]) == ("json", {"a": 1}, {"p": "1"})


def test_a_message_carries_all_its_fields(peer: Peer, api: httpx.Client, topic: str) -> None:
    message = {
        "body": "x",
        "tag": "t",
        "keys": ["k1", "k2"],
        "message_group": "g",
        "properties": {"p": "1"},
        "queue": 3,
    }
    stored = api.post(f"/v1/-/topics/{topic}/messages", json=message).json()
    subscribe(peer, topic)

    [pushed] = peer.take(1)

    assert pushed["id"] == stored["id"]
    assert (pushed["q"], pushed["o"], pushed["a"]) == (3, 0, 1)
    assert pushed["s"] > 1_700_000_000_000
    assert (pushed["tag"], pushed["keys"], pushed["g"], pushed["p"]) == (
        "t",
        ["k1", "k2"],
        "g",
        {"p": "1"},
    )


def test_an_ack_with_an_id_is_confirmed_and_settles(
    peer: Peer, topic: str, store: StoreDouble
) -> None:
    peer.ask("pub", topic=topic, m=[{"body": str(n), "queue": n % 2} for n in range(6)])
    subscribe(peer, topic)
    tags = [message["t"] for message in peer.take(6)]

    answer = peer.ask("ack", sid=1, t=tags[:4])
    again = peer.ask("ack", sid=1, t=tags[:4])
    unknown = peer.ask("ack", sid=1, t=[999])
    upto = peer.ask("ack", sid=1, upto=tags[-1])

    assert answer["r"] == {"acked": 4, "failed": []}
    assert again["r"] == {"acked": 0, "failed": []}
    assert unknown["r"] == {"acked": 0, "failed": [{"t": 999, "code": "UNKNOWN_TAG"}]}
    assert upto["r"] == {"acked": 2, "failed": []}
    assert all(len(request.acks) <= 2 for request in store.settles), "one lease ref per queue"


def test_acks_of_one_frame_are_one_settle(peer: Peer, topic: str, store: StoreDouble) -> None:
    peer.ask("pub", topic=topic, m=[{"body": str(n), "queue": 0} for n in range(4)])
    subscribe(peer, topic)
    tags = [message["t"] for message in peer.take(4)]
    before = len(store.settles)
    parts = [peer.encode("ack", id=100 + tag, sid=1, t=[tag]) for tag in tags]

    if peer.is_json:
        peer.socket.send("\n".join(str(part) for part in parts))
    else:
        peer.socket.send(b"\x94" + b"".join(p for p in parts if isinstance(p, bytes)))
    answers = [peer.answer(100 + tag) for tag in tags]

    assert all(answer["r"]["acked"] == 1 for answer in answers)
    assert len(store.settles) == before + 1
    assert [lease.queue_offsets for lease in store.settles[-1].acks] == [[0, 1, 2, 3]]


def test_an_ack_without_an_id_is_not_answered(peer: Peer, topic: str, store: StoreDouble) -> None:
    peer.ask("pub", topic=topic, m=[{"body": "x"}])
    subscribe(peer, topic)
    [message] = peer.take(1)

    peer.send("ack", sid=1, t=[message["t"]])
    peer.send("ping")

    assert peer.recv()["op"] == "pong"
    assert store.settles[-1].acks[0].queue_offsets == [message["o"]]


def test_a_second_ack_is_not_confirmed_before_the_first_has_its_outcome(
    peer: Peer, topic: str, store: StoreDouble
) -> None:
    peer.ask("pub", topic=topic, m=[{"body": "x"}])
    subscribe(peer, topic)
    [message] = peer.take(1)
    store.is_settle_held = True
    peer.send("ack", id=50, sid=1, t=[message["t"]])
    wait_until(lambda: store.held_settle_count == 1)
    peer.send("ack", id=51, sid=1, t=[message["t"]])
    assert peer.ask("pub", topic=topic, m=[{"body": "y", "queue": 9}])["op"] == "err"

    store.is_connected = False
    store.is_settle_held = False
    answers = [peer.answer(50), peer.answer(51)]
    store.is_connected = True
    third = peer.ask("ack", sid=1, t=[message["t"]])

    assert (answers[0]["op"], answers[0]["code"]) == ("err", "OUTCOME_UNKNOWN")
    assert answers[1]["r"] == {
        "acked": 0,
        "failed": [{"t": message["t"], "code": "OUTCOME_UNKNOWN"}],
    }
    assert third["r"] == {"acked": 1, "failed": []}


def test_a_nack_brings_the_message_back(peer: Peer, topic: str, store: StoreDouble) -> None:
    peer.ask("pub", topic=topic, m=[{"body": "x"}])
    subscribe(peer, topic)
    [first] = peer.take(1)

    peer.send("nack", sid=1, t=[[first["t"], 0, "db down"]])
    [second] = peer.take(1)
    nack = store.settles[-1].nacks[0]
    answer = peer.ask("nack", sid=1, t=[[second["t"], 0, None], [77]])

    assert (second["id"], second["a"]) == (first["id"], 2)
    assert second["t"] > first["t"]
    assert nack.reason == "db down"
    assert answer["r"] == {"nacked": 1, "failed": [{"t": 77, "code": "UNKNOWN_TAG"}]}


def test_extend_moves_the_end_of_the_lease(peer: Peer, topic: str, store: StoreDouble) -> None:
    peer.ask("pub", topic=topic, m=[{"body": "x"}])
    subscribe(peer, topic, lease_ms=1_500)
    [message] = peer.take(1)

    answer = peer.ask("extend", sid=1, t=[message["t"], 50], ms=60_000)

    assert answer["r"] == {"extended": 1, "failed": [{"t": 50, "code": "LEASE_EXPIRED"}]}
    assert store.settles[-1].extends[0].lease_ms == 60_000


def test_unsub_gives_back_and_drain_lets_settle(peer: Peer, topic: str, store: StoreDouble) -> None:
    peer.ask("pub", topic=topic, m=[{"body": "x"}, {"body": "y"}])
    subscribe(peer, topic, sid=5)
    tags = [message["t"] for message in peer.take(2)]

    draining = peer.ask("unsub", sid=5, drain=True)
    acked = peer.ask("ack", sid=5, t=tags[:1])
    ended = peer.ask("unsub", sid=5)
    gone = peer.ask("ack", sid=5, t=tags)

    assert draining["r"] == {"outstanding": 2}
    assert acked["r"]["acked"] == 1
    assert ended["r"] == {"outstanding": 0}
    assert (gone["op"], gone["code"]) == ("err", "NOT_FOUND")
    assert store.leased_count("acme%billing") == 0


def test_ping_is_answered_by_pong(peer: Peer) -> None:
    peer.send("ping")

    assert peer.recv()["op"] == "pong"
