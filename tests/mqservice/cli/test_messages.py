"""Bodies stay the same bytes in every form the command line writes and reads."""

from __future__ import annotations

import msgspec
import pytest

from mqservice.cli.errors import ResponseMalformed, UsageError
from mqservice.cli.messages import (
    Delivered,
    Outgoing,
    encode_line,
    parse_browsed,
    parse_line,
)

BODIES = [
    b"",
    b"plain",
    "π ☃ 🐇".encode(),
    b'quo"te \\ back',
    b"\x00\x01\x1f\x7f",
    b"line\nbreak\r\n",
    b"\xff\xfe\x00binary",
    bytes(range(256)),
    b"\xef\xbb\xbfbyte order mark",
    b'{"a": 1,  "b":[ ]}',
]


@pytest.mark.parametrize("body", BODIES)
def test_line_of_consume_is_the_same_message_for_produce(body: bytes) -> None:
    delivered = Delivered(
        id="01",
        queue=3,
        offset=7,
        attempt=1,
        body=body,
        tag="t",
        keys=["k1", "k2"],
        message_group="g",
        properties={"a": "b"},
        stored_at="2026-11-21T09:00:00.123Z",
    )
    line = encode_line(delivered, topic="orders")
    assert line.count(b"\n") == 1
    assert parse_line(line, line_number=1) == Outgoing(
        body=body, tag="t", keys=["k1", "k2"], message_group="g", properties={"a": "b"}
    )


def test_json_body_is_taken_as_it_is_written() -> None:
    message = parse_line(b'{"body_json": {"b": 1,  "a":2.50} }', line_number=1)
    assert message.body == b'{"b": 1,  "a":2.50}'


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b'{"tag":"x"}', "exactly one of"),
        (b'{"body":"x","body_b64":"eA=="}', "exactly one of"),
        (b'{"body_b64":"%%%"}', "not base64"),
        (b'{"body":"x","colour":"red"}', "unknown field `colour`"),
        (b'{"body":1}', "Expected `str"),
        (b"hello", "--format lines"),
        (b'{"body":"\xff"}', "line 17"),
    ],
)
def test_line_that_is_no_message_is_refused_with_its_number(line: bytes, complaint: str) -> None:
    with pytest.raises(UsageError, match="line 17") as refused:
        parse_line(line, line_number=17)
    assert complaint in str(refused.value)


def test_browsed_bodies_of_all_three_forms() -> None:
    common = {"id": "01", "queue": 0, "offset": 1}
    content = msgspec.json.encode(
        {
            "messages": [
                {**common, "body": "té"},
                {**common, "body_b64": "/wA="},
                {**common, "body_json": {"order": 42}, "tag": None, "born_at": "x"},
            ],
            "next_cursor": None,
        }
    )
    assert [message.body for message in parse_browsed(content).messages] == [
        "té".encode(),
        b"\xff\x00",
        b'{"order":42}',
    ]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"messages":[{"id":"1"}]}', b"<html>"])
def test_answer_that_is_not_as_documented_is_malformed(content: bytes) -> None:
    with pytest.raises(ResponseMalformed, match="page"):
        parse_browsed(content)
