"""The WebSocket with commands that are wrong, frames that are none, and an engine that is away."""

from __future__ import annotations

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

from mqservice.accounts.scopes import Scope
from tests.mqservice.delivery.peers import JSON, MSGPACK, Peer, closed, subscribe
from tests.mqservice.delivery.serving import Server
from tests.mqservice.delivery.store_double import StoreDouble


def test_an_unknown_op_is_an_err_and_the_socket_continues(server: Server) -> None:
    with Peer(server, JSON) as peer:
        peer.socket.send('{"op":"dance","id":7}')
        json_err = peer.recv()
        assert peer.ask("pub", topic="x y", m=[])["code"] == "ILLEGAL_TOPIC"
    with Peer(server, MSGPACK) as peer:
        peer.socket.send(msgspec.msgpack.encode([99, 7]))
        pack_err = peer.recv()

    for err in (json_err, pack_err):
        assert (err["op"], err["id"], err["code"], err["retryable"]) == (
            "err",
            7,
            "UNKNOWN_OP",
            False,
        )
        assert "hello 1, pub 3" in err["msg"]
    assert "'dance'" in json_err["msg"]


@pytest.mark.parametrize(
    ("content", "command_id", "detail"),
    [
        ('{"op":"ack","id":3,"sid":1,"t":["x"]}', 3, "Expected `int`, got `str` at /t/0"),
        ('{"op":"ack","id":3,"t":[1]}', 3, "missing required field `sid` at /sid"),
        ('{"op":"ack","sid":1,"colour":2}', None, "unknown field `colour` at /colour"),
        ('{"op":"sub","id":4,"sid":1,"topic":"a","group":"b","from":{}}', 4, "at /from"),
        ('{"op":"pub","id":5,"topic":"a","m":[{}],"key":""}', 5, "1 to 128 visible"),
        ('{"op":"hello","id":6}', 6, "hello was already sent"),
        ('{"op":"credit","sid":1,"msgs":-1}', None, "must not be negative"),
    ],
)
def test_a_wrong_field_is_an_err_with_its_place(
    server: Server, content: str, command_id: int | None, detail: str
) -> None:
    with Peer(server) as peer:
        peer.socket.send(content)
        err = peer.recv()

    assert (err["op"], err["id"], err["code"]) == ("err", command_id, "BAD_REQUEST")
    assert detail in err["msg"]


def test_a_wrong_position_is_an_err_with_its_id(server: Server) -> None:
    with Peer(server, MSGPACK) as peer:
        peer.socket.send(msgspec.msgpack.encode([7, 3, 1, ["x"]]))
        err = peer.recv()

    assert (err["id"], err["code"]) == (3, "BAD_REQUEST")
    assert "/3/0" in err["msg"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "absent"}, "TOPIC_NOT_FOUND"),
        ({"topic": "a.b"}, "ILLEGAL_TOPIC"),
        ({"group": "absent"}, "GROUP_NOT_FOUND"),
        ({"group": "%RETRY%x"}, "ILLEGAL_GROUP"),
        ({"lease_ms": 10}, "ILLEGAL_LEASE"),
        ({"filter": "a | b"}, "ILLEGAL_FILTER"),
        ({"filter": {"sql": "a = = b"}}, "ILLEGAL_FILTER"),
        ({"mode": "reader"}, "BAD_REQUEST"),
        ({"credit": {"msgs": -1, "bytes": 0}}, "BAD_REQUEST"),
    ],
)
def test_sub_refusals(peer: Peer, topic: str, fields: dict[str, object], code: str) -> None:
    answer = peer.ask("sub", **{"sid": 1, "topic": topic, "group": "billing", **fields})

    assert (answer["op"], answer["code"]) == ("err", code)


def test_a_sid_is_used_once(peer: Peer, topic: str) -> None:
    subscribe(peer, topic)

    answer = peer.ask("sub", sid=1, topic=topic, group="billing")

    assert (answer["op"], answer["code"]) == ("err", "CONFLICT")


def test_pub_refusals_point_into_the_frame(peer: Peer, topic: str, store: StoreDouble) -> None:
    illegal = peer.ask("pub", topic=topic, m=[{"body": "x"}, {"body": "x", "tag": "|"}])
    empty = peer.ask("pub", topic=topic, m=[])
    no_body = peer.ask("pub", topic=topic, m=[{"body": ""}])

    assert illegal["code"] == "ILLEGAL_TAG"
    assert illegal["msg"].endswith(" at /m/1/tag")
    assert empty["code"] == "BAD_REQUEST"
    assert empty["msg"].endswith(" at /m")
    assert no_body["msg"].endswith(" at /m/0")
    assert store.records(f"acme%{topic}") == []


def test_scopes_hold_on_the_socket(server: Server, topic: str) -> None:
    with Peer(server, key=server.key(scopes=frozenset({Scope.PRODUCE}))) as producer:
        refused = producer.ask("sub", sid=1, topic=topic, group="billing")
    with Peer(server, key=server.key(scopes=frozenset({Scope.CONSUME}))) as consumer:
        refused_pub = consumer.ask("pub", topic=topic, m=[{"body": "x"}])

    assert (refused["code"], refused_pub["code"]) == ("FORBIDDEN", "FORBIDDEN")


def test_engine_down_is_a_retryable_err(peer: Peer, topic: str, store: StoreDouble) -> None:
    peer.ask("pub", topic=topic, m=[{"body": "x"}])
    subscribe(peer, topic)
    [message] = peer.take(1)
    store.is_connected = False
    try:
        pub = peer.ask("pub", topic=topic, m=[{"body": "y"}])
        ack = peer.ask("ack", sid=1, t=[message["t"]])
    finally:
        store.is_connected = True
    acked = peer.ask("ack", sid=1, t=[message["t"]])

    assert (pub["code"], pub["retryable"]) == ("ENGINE_UNAVAILABLE", True)
    assert (ack["code"], ack["retryable"]) == ("OUTCOME_UNKNOWN", True)
    assert acked["r"]["acked"] == 1


def test_a_subscription_survives_the_engine(peer: Peer, topic: str, store: StoreDouble) -> None:
    subscribe(peer, topic)
    store.is_connected = False
    peer.send("ping")
    assert peer.recv()["op"] == "pong"
    store.is_connected = True

    peer.ask("pub", topic=topic, m=[{"body": "after"}])

    assert [peer.body(message) for message in peer.take(1)] == [b"after"]


def test_a_command_before_hello_is_refused(server: Server, topic: str) -> None:
    with Peer(server, hello=False) as peer:
        answer = peer.ask("pub", topic=topic, m=[{"body": "x"}])

        assert (answer["code"], "hello first" in answer["msg"]) == ("BAD_REQUEST", True)
        assert peer.ask("hello")["op"] == "welcome"


@pytest.mark.parametrize(
    ("subprotocol", "content"),
    [
        (JSON, "nonsense"),
        (JSON, '{"op":"ack"'),
        (JSON, "[1,2]"),
        (JSON, "[" * 50_000),
        (MSGPACK, b"\xc1"),
        (MSGPACK, b"\x93\x07\x01"),
        (MSGPACK, b"\x81\xa2op\x07"),
        (MSGPACK, b"\x91" * 50_000),
        (MSGPACK, "text"),
    ],
)
def test_a_broken_frame_closes_with_4400(
    server: Server, subprotocol: str, content: str | bytes
) -> None:
    with Peer(server, subprotocol) as peer:
        peer.socket.send(content)

        code, reason = closed(peer)

    assert code == 4400
    assert reason


def test_a_frame_too_large_closes_with_4413(peer: Peer) -> None:
    peer.socket.send("x" * (4 * 1024 * 1024 + 1) if peer.is_json else b"x" * (4 * 1024 * 1024 + 1))

    code, reason = closed(peer)

    assert (code, "at most 4194304" in reason) == (4413, True)


def test_a_frame_far_too_large_is_cut_off_by_the_protocol(server: Server) -> None:
    def overfill(peer: Peer) -> None:
        peer.socket.send("x" * (8 * 1024 * 1024 + 1))
        peer.read_on()

    with Peer(server) as peer, pytest.raises(ConnectionClosed):
        overfill(peer)
