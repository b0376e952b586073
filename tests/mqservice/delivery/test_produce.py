"""Producing one message over REST: JSON, raw, and each way in which it is refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

from tests.mqservice.delivery.serving import Server
from tests.mqservice.delivery.store_double import StoreDouble


def produce(api: httpx.Client, topic: str, message: dict[str, Any]) -> httpx.Response:
    return api.post(f"/v1/ns/acme/topics/{topic}/messages", json=message)


def test_produce_answers_where_the_message_is(
    api: httpx.Client, topic: str, store: StoreDouble
) -> None:
    response = produce(
        api,
        topic,
        {
            "body": "héllo",
            "tag": "created",
            "keys": ["order-42"],
            "properties": {"source": "web"},
            "queue": 2,
        },
    )

    assert response.status_code == 201
    answer = response.json()
    [record] = store.records(f"acme%{topic}")
    assert answer == {
        "id": record.message_id,
        "topic": topic,
        "queue": 2,
        "offset": 0,
        "stored_at": answer["stored_at"],
        "durability": "synced",
        "deliver_at": None,
        "recall_handle": None,
        "duplicate": False,
    }
    assert len(answer["id"]) == 34
    assert answer["stored_at"].endswith("Z")
    assert record.body == "héllo".encode()
    assert (record.tag, record.keys, record.properties) == (
        "created",
        ["order-42"],
        {"source": "web"},
    )


def test_every_answer_has_a_request_id_and_a_given_one_comes_back(
    api: httpx.Client, topic: str
) -> None:
    own = produce(api, topic, {"body": "x"}).headers["x-request-id"]
    refused = produce(api, topic, {}).headers["x-request-id"]
    given = api.post(
        f"/v1/ns/acme/topics/{topic}/messages",
        content=b"x",
        headers={"x-request-id": "my-request-1"},
    )

    assert len(own) == 26
    assert own != refused
    assert given.headers["x-request-id"] == "my-request-1"


def test_an_async_topic_answers_buffered(server: Server, api: httpx.Client, topic: str) -> None:
    server.topic(f"{topic}fast", durability="async")

    assert produce(api, f"{topic}fast", {"body": "x"}).json()["durability"] == "buffered"


def test_a_replicated_topic_answers_replicated(server: Server, api: httpx.Client) -> None:
    server.topic("copied", durability="replicated")

    assert produce(api, "copied", {"body": "x"}).json()["durability"] == "replicated"
    later = produce(api, "copied", {"body": "x", "delay_ms": 60_000}).json()
    assert later["durability"] == "replicated"


def test_raw_body_is_stored_bit_for_bit_with_its_headers(
    api: httpx.Client, topic: str, store: StoreDouble
) -> None:
    body = bytes(range(256))

    response = api.post(
        f"/v1/-/topics/{topic}/messages",
        content=body,
        headers={
            "content-type": "application/octet-stream",
            "mq-tag": "created",
            "mq-keys": "a, b",
            "mq-message-group": "customer-7",
            "mq-prop-source": "web",
        },
    )

    assert response.status_code == 201
    [record] = store.records(f"acme%{topic}")
    assert record.body == body
    assert (record.tag, record.keys, record.message_group, record.properties) == (
        "created",
        ["a", "b"],
        "customer-7",
        {"source": "web"},
    )


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ({"body_json": {"order": 42}}, b'{"order": 42}'),
        ({"body_json": None}, b"null"),
        ({"body_b64": base64.b64encode(b"\x00\xff").decode()}, b"\x00\xff"),
        ({"body": "text"}, b"text"),
    ],
)
def test_each_form_of_a_body(
    api: httpx.Client, topic: str, store: StoreDouble, message: dict[str, Any], body: bytes
) -> None:
    content = json.dumps(message).encode()

    response = api.post(
        f"/v1/ns/acme/topics/{topic}/messages",
        content=content,
        headers={"content-type": "application/json; charset=utf-8"},
    )

    assert response.status_code == 201
    assert store.records(f"acme%{topic}")[0].body == body


def test_messages_of_one_group_share_a_queue_and_others_go_round(
    api: httpx.Client, topic: str
) -> None:
    grouped = {
        produce(api, topic, {"body": "x", "message_group": "customer-7"}).json()["queue"]
        for _ in range(4)
    }
    ungrouped = {produce(api, topic, {"body": "x"}).json()["queue"] for _ in range(4)}

    assert len(grouped) == 1
    assert ungrouped == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("content", "pointer", "item_code", "detail"),
    [
        (b"{", "", "INVALID_JSON", "at byte 1"),
        (b'{"body": x}', "", "INVALID_JSON", "at byte 9"),
        (b"", "", "INVALID_JSON", "at byte 0"),
        (b'{"body":"\xff"}', "", "INVALID_JSON", "byte 9 is not valid UTF-8"),
        (b'{"body_json":"\xff"}', "/body_json", "INVALID_JSON", "not valid UTF-8"),
        (b"[" * 100_000, "", "INVALID_VALUE", "Expected `object`"),
        (b'{"body_json":' + b"[" * 100_000, "", "INVALID_JSON", ""),
        (b"[1]", "", "INVALID_VALUE", "Expected `object`, got `array`"),
        (b'{"body":1}', "/body", "INVALID_VALUE", "Expected `str | null`, got `int`"),
        (b'{"body":"x","keys":["a",1]}', "/keys/1", "INVALID_VALUE", "got `int`"),
        (b'{"body":"x","properties":{"a":1}}', "/properties", "INVALID_VALUE", "got `int`"),
        (b'{"body":"x","colour":1}', "/colour", "INVALID_VALUE", "unknown field"),
        (b'{"body":"x","transaction":null}', "/transaction", "INVALID_VALUE", "unknown field"),
        (b'{"body_b64":"@@"}', "/body_b64", "BODY_NOT_BASE64", "base64"),
        (b"{}", "", "BODY_COUNT", "exactly one"),
        (b'{"body":"x","body_json":1}', "", "BODY_COUNT", "exactly one"),
        (b'{"body":"x","body_b64":"eA=="}', "", "BODY_COUNT", "exactly one"),
        (b'{"body":""}', "", "BODY_EMPTY", "empty"),
        (b'{"body":"x","message_group":" "}', "/message_group", "ILLEGAL_MESSAGE_GROUP", "blank"),
    ],
)
def test_bad_request_points_at_the_place(
    api: httpx.Client, topic: str, content: bytes, pointer: str, item_code: str, detail: str
) -> None:
    response = api.post(
        f"/v1/ns/acme/topics/{topic}/messages",
        content=content,
        headers={"content-type": "application/json"},
    )

    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    [item] = problem["errors"]
    assert (problem["code"], problem["retryable"], problem["stored"]) == (
        "BAD_REQUEST",
        False,
        False,
    )
    assert (item["pointer"], item["code"]) == (pointer, item_code)
    assert detail in item["detail"]
    assert problem["instance"] == f"/v1/ns/acme/topics/{topic}/messages"
    assert problem["request_id"] == response.headers["x-request-id"]


@pytest.mark.parametrize(
    ("field", "value", "status", "code", "pointer"),
    [
        ("tag", "", 400, "ILLEGAL_TAG", "/tag"),
        ("tag", "  ", 400, "ILLEGAL_TAG", "/tag"),
        ("tag", "a||b", 400, "ILLEGAL_TAG", "/tag"),
        ("tag", "a\x01b", 400, "ILLEGAL_TAG", "/tag"),
        ("tag", "ü" * 128, 400, "ILLEGAL_TAG", "/tag"),
        ("keys", ["ok", ""], 400, "ILLEGAL_KEY", "/keys/1"),
        ("keys", ["a b"], 400, "ILLEGAL_KEY", "/keys/0"),
        ("keys", ["a\x7f"], 400, "ILLEGAL_KEY", "/keys/0"),
        ("keys", ["k" * 256], 400, "ILLEGAL_KEY", "/keys/0"),
        ("keys", [str(n) for n in range(17)], 400, "ILLEGAL_KEY", "/keys"),
        ("properties", {"": "x"}, 400, "ILLEGAL_PROPERTY", "/properties/"),
        ("properties", {"KEYS": "x"}, 400, "ILLEGAL_PROPERTY", "/properties/KEYS"),
        ("properties", {"__MQ_BODY": "json"}, 400, "ILLEGAL_PROPERTY", "/properties/__MQ_BODY"),
        ("properties", {"a/b": "x\n"}, 400, "ILLEGAL_PROPERTY", "/properties/a~1b"),
        ("properties", {"a": "x\x02"}, 400, "ILLEGAL_PROPERTY", "/properties/a"),
        ("properties", {"a": "x" * 16_384}, 413, "PROPERTIES_TOO_LARGE", "/properties"),
        (
            "properties",
            {str(n): "x" for n in range(129)},
            413,
            "PROPERTIES_TOO_LARGE",
            "/properties",
        ),
    ],
)
def test_illegal_tag_key_and_property(
    api: httpx.Client,
    topic: str,
    store: StoreDouble,
    field: str,
    value: object,
    status: int,
    code: str,
    pointer: str,
) -> None:
    response = produce(api, topic, {"body": "x", field: value})

    problem = response.json()
    assert (response.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert [item["pointer"] for item in problem["errors"]] == [pointer]
    assert problem["stored"] is False
    assert store.records(f"acme%{topic}") == []


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        ({"mq-colour": "red"}, "mq-colour is unknown"),
        ({"mq-queue": "first"}, "must be a queue number"),
        ({"mq-tag": b"\xff"}, "not valid UTF-8"),
    ],
)
def test_raw_headers_that_mean_nothing_are_refused(
    api: httpx.Client, topic: str, headers: dict[str, str | bytes], detail: str
) -> None:
    response = api.post(
        f"/v1/ns/acme/topics/{topic}/messages",
        content=b"x",
        headers=[
            (name.encode(), v.encode() if isinstance(v, str) else v) for name, v in headers.items()
        ],
    )

    assert (response.status_code, response.json()["code"]) == (400, "BAD_REQUEST")
    assert detail in response.json()["detail"]
