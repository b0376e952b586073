"""Answers of a receive by columns are, byte by byte, those of one message after the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from mqservice.delivery.bodies import JSON_PROPERTY
from mqservice.delivery.receive.received_messages import messages_of
from mqservice.delivery.tokens.receipts import Receipts
from mqservice.lib.signing import Signer
from mqservice.store import Received, ReceiveHead, StoreMessage, encode_record

COUNT = 12
TEXTS = ["täxt".encode()] * COUNT
MIXED = ["täxt".encode(), *[b"\xff"] * (COUNT - 1)]
JSON = [b'{"a":\n1}', *[b"[]"] * (COUNT - 1)]
RETRIED = {"RETRY_TOPIC": "acme%orders", "ORIGIN_MESSAGE_ID": "m-0", "a": "b"}


def received(bodies: list[bytes], first_until_ms: int, **fields: Any) -> Received:  # Any: fields'
    records = [
        bytearray(
            encode_record(
                StoreMessage(
                    topic="acme%orders",
                    queue_id=number % 3,
                    body=body,
                    message_id=f"m-{number:03}",
                    born_timestamp_ms=1_700_000_000_000 + number,
                    born_host=("127.0.0.1", 1),
                    **fields,
                )
            )
        )
        for number, body in enumerate(bodies)
    ]
    for number, record in enumerate(records):
        record[20:28] = (1_000 + number).to_bytes(8)
        record[56:64] = (1_700_000_001_000 + number).to_bytes(8)
    attempts = [number % 4 + 1 for number in range(len(bodies))]
    head = ReceiveHead(
        lease_generation=3,
        lease_until_ms=1_700_000_030_000,
        attempts=attempts,
        first_until_ms=first_until_ms,
    )
    return Received(head, content=b"head" + b"".join(records), at=4)


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize(
    ("client_id", "first_until_ms"), [("", 0), ("client-1", 1_700_000_020_000)]
)
@pytest.mark.parametrize(
    ("bodies", "fields", "are_alike"),
    [
        (TEXTS, {}, True),
        (MIXED, {"tag": "paid"}, True),
        (TEXTS, {"properties": {"a": "b"}}, True),
        (JSON, {"properties": {JSON_PROPERTY: "json"}}, True),
        (JSON, {"properties": {JSON_PROPERTY: "json", "a": "b"}, "tag": "paid"}, True),
        (TEXTS, {"properties": RETRIED, "reconsume_times": 2}, True),
        (TEXTS, {"keys": ["k", "l"]}, False),
        (TEXTS, {"message_group": "g"}, False),
        (TEXTS[:3], {}, False),
    ],
)
def test_answers_are_the_same(
    bodies: list[bytes],
    fields: dict[str, Any],  # Any: of ``StoreMessage``
    are_alike: bool,
    client_id: str,
    first_until_ms: int,
    as_bytes: bool,
) -> None:
    context: Any = SimpleNamespace(  # Any: as much of a context, and of a group, as it takes
        receipts=Receipts(Signer("a secret of at least 32 characters", "receipt"))
    )
    group: Any = SimpleNamespace(
        engine_name="acme%billing", is_broadcast=bool(client_id), max_reconsume_times=16
    )
    what = received(bodies, first_until_ms, **fields)
    assert (what.columns is not None) == are_alike
    one_by_one = Received(what.head, what.records)
    for encode in (msgspec.json.encode, msgspec.msgpack.encode):
        answers = [
            encode(messages_of(context, each, group=group, as_bytes=as_bytes, client_id=client_id))
            for each in (what, one_by_one)
        ]
        assert answers[0] == answers[1]
        assert b"RETRY_TOPIC" not in answers[0]
        assert JSON_PROPERTY.encode() not in answers[0]
