"""Receives that bring along what becomes of messages before them: one request instead of two."""

from __future__ import annotations

import httpx
import msgspec
import pytest

from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.delivery.test_receive_settle import put, receive, settle

NOTHING = {"acked": 0, "nacked": 0, "extended": [], "dead_lettered": 0, "failed": []}


def fill(api: httpx.Client, topic: str, count: int) -> None:
    put(api, topic, *({"body": f"m{number}", "queue": 0} for number in range(count)))


def received(api: httpx.Client, topic: str, **options: object) -> tuple[list[str], list[str]]:
    """Bodies and receipts."""
    messages: list[Json] = receive(api, topic, **options).json()["messages"]
    return [each["body"] for each in messages], [each["receipt"] for each in messages]


def test_one_request_settles_what_came_and_gets_what_comes_next(
    api: httpx.Client, topic: str, store: StoreDouble
) -> None:
    fill(api, topic, 5)
    _, [first, second] = received(api, topic, max=2)

    answer = receive(
        api, topic, max=2, settle={"ack": [first], "extend": [{"receipt": second, "lease": "2m"}]}
    ).json()

    assert [each["body"] for each in answer["messages"]] == ["m2", "m3"]
    [extended] = answer["settled"].pop("extended")
    assert extended["receipt"] == second
    assert answer["settled"] == {"acked": 1, "nacked": 0, "dead_lettered": 0, "failed": []}
    assert settle(api, ack=[first]).json()["acked"] == 1, "done already is done"
    assert len(store.settles) == 2


def test_receipts_that_had_no_effect_are_told_beside_the_messages(
    api: httpx.Client, topic: str
) -> None:
    fill(api, topic, 1)
    answer = receive(api, topic, settle={"ack": ["r1"], "extend": [{"receipt": "r2"}]}).json()
    assert [each["body"] for each in answer["messages"]] == ["m0"]
    assert [(each["receipt"], each["code"]) for each in answer["settled"]["failed"]] == [
        ("r1", "RECEIPT_INVALID"),
        ("r2", "RECEIPT_INVALID"),
    ]


def test_what_is_settled_is_told_only_who_asks(api: httpx.Client, topic: str) -> None:
    assert "settled" not in receive(api, topic).json()
    assert receive(api, topic, settle={}).json()["settled"] == NOTHING


def test_messagepack_tells_what_was_settled_too(api: httpx.Client, topic: str) -> None:
    fill(api, topic, 1)
    _, receipts = received(api, topic)
    response = api.post(
        f"/v1/ns/acme/topics/{topic}/groups/billing:receive",
        json={"wait": "0s", "settle": {"ack": receipts}},
        headers={"accept": "application/msgpack"},
    )
    assert msgspec.msgpack.decode(response.content)["settled"] == {**NOTHING, "acked": 1}


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"max": 0}, "/max"),
        ({"lease": "1ms"}, "/lease"),
        ({"settle": {"nack": [{"receipt": "r", "delay": "400d"}]}}, "/settle/nack/0/delay"),
        ({"settle": {"extend": [{"receipt": "r", "lease": "1ms"}]}}, "/settle/extend/0/lease"),
        ({"settle": {"dead_letter": [{"receipt": "r", "reason": "x" * 1_001}]}},
         "/settle/dead_letter/0/reason"),
        ({"settle": {"ack": ["r"] * 1_001}}, "/settle"),
        ({"settle": {"ack_upto": ["r"] * 17}}, "/settle/ack_upto"),
        ({"settle": {"consumer_id": "worker-1"}}, "/settle/consumer_id"),
        ({"settle": {"ack": [1]}}, "/settle/ack/0"),
    ],
)  # fmt: skip
def test_a_wrong_request_neither_settles_nor_receives(
    api: httpx.Client, topic: str, store: StoreDouble, options: Json, pointer: str
) -> None:
    fill(api, topic, 2)
    _, receipts = received(api, topic, max=1)
    settled_before = len(store.settles)
    wanted: Json = options.get("settle", {})
    options = {**options, "settle": {**wanted, "ack": wanted.get("ack", []) + receipts}}

    response = receive(api, topic, **options)

    assert response.status_code == 400
    assert [each["pointer"] for each in response.json()["errors"]] == [pointer]
    assert len(store.settles) == settled_before
    assert received(api, topic)[0] == ["m1"]


def test_a_settlement_that_fails_receives_nothing(
    api: httpx.Client, topic: str, store: StoreDouble
) -> None:
    fill(api, topic, 2)
    _, receipts = received(api, topic, max=1)
    store.is_connected = False
    response = receive(api, topic, settle={"ack": receipts})
    assert (response.status_code, response.json()["retryable"]) == (503, True)
    store.is_connected = True
    answer = receive(api, topic, settle={"ack": receipts}).json()
    assert [each["body"] for each in answer["messages"]] == ["m1"]
    assert answer["settled"]["acked"] == 1


def test_receipts_of_another_group_settle_nothing(
    server: Server, api: httpx.Client, topic: str
) -> None:
    server.group("audit")
    fill(api, topic, 1)
    _, [receipt] = received(api, topic)
    answer = api.post(
        f"/v1/ns/acme/topics/{topic}/groups/audit:receive",
        json={"wait": "0s", "settle": {"ack": [receipt]}},
    ).json()
    assert [each["code"] for each in answer["settled"]["failed"]] == ["RECEIPT_INVALID"]
