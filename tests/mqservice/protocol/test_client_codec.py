"""Frames as the API page writes them, in both subprotocols."""

from __future__ import annotations

import msgspec
import pytest

from mqservice.protocol import client_codec, frames
from mqservice.protocol.client_codec import Unknown, body_of
from mqservice.protocol.frames import FrameBroken, Subprotocol

JSON, PACK = Subprotocol.JSON, Subprotocol.MSGPACK


def messages_in_json(form: str) -> bytes:
    head = '"t":1,"id":"x","q":0,"o":1,"s":5,"a":1,"tag":null,"keys":[],"g":null,"p":{}'
    return f'{{"op":"msgs","sid":1,"m":[{{{head},{form}}}]}}'.encode()


def pack(*values: object) -> bytes:
    return msgspec.msgpack.encode(list(values))


@pytest.mark.parametrize(
    ("frame", "as_json", "as_pack"),
    [
        (
            frames.Hello(id=1, client="py/1.0", max_frame=1_048_576, resume_ttl_ms=0),
            {
                "op": "hello",
                "id": 1,
                "client": "py/1.0",
                "max_frame": 1_048_576,
                "resume_ttl_ms": 0,
            },
            [1, 1, "py/1.0", None, 1_048_576, 0],
        ),
        (
            frames.Subscribe(
                id=3, sid=1, topic="orders", group="billing", credit=frames.Credit(100, 1_048_576)
            ),
            {
                "op": "sub",
                "id": 3,
                "sid": 1,
                "topic": "orders",
                "group": "billing",
                "credit": {"msgs": 100, "bytes": 1_048_576},
            },
            [4, 3, 1, "orders", "billing", None, None, None, None, [100, 1_048_576], *[None] * 4],
        ),
        (
            frames.Subscribe(id=3, sid=1, topic="orders", group="news", client_id="a#1"),
            {
                "op": "sub",
                "id": 3,
                "sid": 1,
                "topic": "orders",
                "group": "news",
                "client_id": "a#1",
            },
            [4, 3, 1, "orders", "news", *[None] * 6, "a#1", None, None],
        ),
        (
            frames.AddCredit(sid=1, msgs=50, bytes=524_288),
            {"op": "credit", "sid": 1, "msgs": 50, "bytes": 524_288},
            [5, 1, 50, 524_288, None],
        ),
        (
            frames.Ack(id=4, sid=1, t=[17, 18]),
            {"op": "ack", "id": 4, "sid": 1, "t": [17, 18]},
            [7, 4, 1, [17, 18], None],
        ),
        (
            frames.Ack(sid=1, t=[17]),
            {"op": "ack", "sid": 1, "t": [17]},
            [7, None, 1, [17], None],
        ),
        (frames.Unsubscribe(id=7, sid=1), {"op": "unsub", "id": 7, "sid": 1}, [15, 7, 1, False]),
        (frames.Pong(), {}, [17]),
    ],
)
def test_commands_are_written_as_documented(
    frame: msgspec.Struct, as_json: object, as_pack: object
) -> None:
    text = client_codec.encode(frame, JSON)
    assert msgspec.json.decode(text) == as_json
    assert msgspec.msgpack.decode(client_codec.encode(frame, PACK)) == as_pack


def test_messages_in_messagepack_keep_their_bytes() -> None:
    row = [17, "01AC", 3, 88_123, 1_732_180_000_000, 1, "created", ["order-42"], None, {}, b"\xff"]
    (push,) = client_codec.decode(pack(6, 1, [row]), PACK)
    assert isinstance(push, frames.PackMessages)
    message = push.m[0]
    assert (message.t, message.id, message.q, message.o, message.a) == (17, "01AC", 3, 88_123, 1)
    assert (message.tag, message.keys, message.g, message.p) == ("created", ["order-42"], None, {})
    assert body_of(message) == b"\xff"


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ('"b":"té\\n","e":"text"', "té\n".encode()),
        ('"b":"/wA=","e":"b64"', b"\xff\x00"),
        ('"b":{"order": 42},"e":"json"', b'{"order": 42}'),
    ],
)
def test_messages_in_json_say_how_the_body_is_written(form: str, body: bytes) -> None:
    (push,) = client_codec.decode(messages_in_json(form), JSON)
    assert isinstance(push, frames.JsonMessages)
    assert body_of(push.m[0]) == body


@pytest.mark.parametrize("form", ['"b":"%%","e":"b64"', '"b":1,"e":"text"'])
def test_body_that_is_not_what_it_says_is_malformed(form: str) -> None:
    (push,) = client_codec.decode(messages_in_json(form), JSON)
    assert isinstance(push, frames.JsonMessages)
    with pytest.raises(FrameBroken, match="message x"):
        body_of(push.m[0])


def test_several_frames_share_a_websocket_message() -> None:
    text = b'{}\n{"op":"ok","id":4,"r":{"acked":2}}\n{"op":"flow","sid":1,"state":"credit"}\n'
    assert [type(push).__name__ for push in client_codec.decode(text, JSON)] == [
        "Ping",
        "JsonOk",
        "JsonFlow",
    ]
    outer = msgspec.msgpack.encode([[16], [18, 4, {"acked": 2}], [12, 1, "credit"]])
    assert [type(push).__name__ for push in client_codec.decode(outer, PACK)] == [
        "PackPing",
        "PackOk",
        "PackFlow",
    ]


def test_outer_array_of_more_than_fifteen_frames() -> None:
    outer = msgspec.msgpack.encode([[16]] * 20)
    assert len(client_codec.decode(outer, PACK)) == 20


def test_welcome_in_messagepack_has_its_limits_last() -> None:
    content = pack(2, 1, "s_1", None, False, 25_000, 10_000, [1_000, 8_388_608, 4_194_304])
    (push,) = client_codec.decode(content, PACK)
    assert isinstance(push, frames.Welcome)
    assert (push.session, push.ping_ms, push.limits.credit_msgs) == ("s_1", 25_000, 1_000)


def test_pushes_of_newer_services_are_passed_over() -> None:
    assert isinstance(client_codec.decode(b'{"op":"check","txn":"x"}', JSON)[0], Unknown)
    assert isinstance(client_codec.decode(pack(13, "x"), PACK)[0], Unknown)
    (push,) = client_codec.decode(b'{"op":"ok","id":1,"r":null,"new":true}', JSON)
    assert isinstance(push, frames.Ok)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"op":"ok"}', b'{"op":"msgs","sid":"x"}'])
def test_json_that_is_no_frame_is_malformed(content: bytes) -> None:
    with pytest.raises(FrameBroken, match=r"mq\.v1\.json"):
        client_codec.decode(content, JSON)


@pytest.mark.parametrize("content", [b"", b"\xc1", b"\x90", b"\x93\x06\x01", pack(18, "x")])
def test_messagepack_that_is_no_frame_is_malformed(content: bytes) -> None:
    with pytest.raises(FrameBroken, match=r"mq\.v1\.msgpack"):
        client_codec.decode(content, PACK)
