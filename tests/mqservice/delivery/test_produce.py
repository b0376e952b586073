"""Producing one message over REST: JSON, raw, and each way in which it is refused."""

from __future__ import annotations

import base64
import json
import socket
from typing import Any

import httpx
import pytest

from mqservice.accounts.access import Scope
from mqservice.store import DiskFull, OutcomeUnknown, StoreBusy, SyncFailed
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
        "transaction_id": None,
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
        (b'{"body":"x","queue":4}', "/queue", "BAD_REQUEST", "queues 0 to 3"),
        (b'{"body":"x","queue":-1}', "/queue", "BAD_REQUEST", "queues 0 to 3"),
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
        ({"mq-colour": "red"}, "mq-colour is not known"),
        ({"mq-queue": "first"}, "not a queue number"),
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


@pytest.mark.parametrize("authorization", [None, "Bearer nonsense", "Basic eDp5", "Bearer"])
def test_no_key_and_wrong_keys_are_401(
    server: Server, topic: str, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"authorization": authorization}

    response = httpx.post(
        f"{server.url}/v1/ns/acme/topics/{topic}/messages", json={"body": "x"}, headers=headers
    )

    assert (response.status_code, response.json()["code"]) == (401, "UNAUTHENTICATED")
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "path", ["/v1/ns/acme/topics/absent/messages", "/v1/ns/other/topics/{}/messages"]
)
def test_unknown_namespace_and_topic_are_404(api: httpx.Client, topic: str, path: str) -> None:
    response = api.post(path.format(topic), json={"body": "x"})

    assert (response.status_code, response.json()["code"]) == (404, "TOPIC_NOT_FOUND")


def test_a_foreign_topic_looks_like_an_absent_one(server: Server, topic: str) -> None:
    server.topic("theirs", tenant_id=2, namespace="acme")
    headers = {"authorization": server.key(namespace=None)}

    foreign = httpx.post(f"{server.url}/v1/ns/acme/topics/theirs/messages", headers=headers)
    absent = httpx.post(f"{server.url}/v1/ns/acme/topics/theirz/messages", headers=headers)

    assert foreign.status_code == absent.status_code == 404
    assert foreign.json()["detail"].replace("theirs", "theirz") == absent.json()["detail"]


@pytest.mark.parametrize("name", ["a.b", "a%25b", "x" * 65, "TBW102"])
def test_illegal_topic_names_are_400(api: httpx.Client, name: str) -> None:
    response = api.post(f"/v1/ns/acme/topics/{name}/messages", json={"body": "x"})

    assert (response.status_code, response.json()["code"]) == (400, "ILLEGAL_TOPIC")


def test_a_key_without_the_scope_is_403(server: Server, topic: str) -> None:
    headers = {"authorization": server.key(scopes=frozenset({Scope.CONSUME}))}

    response = httpx.post(f"{server.url}/v1/ns/acme/topics/{topic}/messages", headers=headers)

    assert (response.status_code, response.json()["code"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_wrong_method_is_405(api: httpx.Client, topic: str, method: str) -> None:
    response = api.request(method, f"/v1/ns/acme/topics/{topic}/messages")

    assert (response.status_code, response.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert response.headers["allow"] == "POST"


def test_content_encoding_is_415(api: httpx.Client, topic: str) -> None:
    response = api.post(
        f"/v1/ns/acme/topics/{topic}/messages", content=b"x", headers={"content-encoding": "gzip"}
    )

    assert (response.status_code, response.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_body_above_the_topics_limit_is_413(
    api: httpx.Client, topic: str, store: StoreDouble
) -> None:
    raw = api.post(f"/v1/ns/acme/topics/{topic}/messages", content=b"x" * (64 * 1024 + 1))
    text = produce(api, topic, {"body": "x" * (64 * 1024 + 1)})

    for response in (raw, text):
        assert (response.status_code, response.json()["code"]) == (413, "BODY_TOO_LARGE")
        assert response.json()["stored"] is False
    assert store.records(f"acme%{topic}") == []


def test_a_declared_length_is_refused_before_the_body_is_read(server: Server, topic: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as peer:
        peer.sendall(
            f"POST /v1/ns/acme/topics/{topic}/messages HTTP/1.1\r\nhost: x\r\n"
            f"authorization: {server.key()}\r\ncontent-length: 99999999999\r\n\r\n".encode()
        )
        answer = peer.recv(65536)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"BODY_TOO_LARGE" in answer


def test_a_stream_without_a_length_is_refused_while_it_comes(server: Server, topic: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as peer:
        peer.sendall(
            f"POST /v1/ns/acme/topics/{topic}/messages HTTP/1.1\r\nhost: x\r\n"
            f"authorization: {server.key()}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )
        chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
        for _ in range(3):
            peer.sendall(chunk)
        answer = peer.recv(65536)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer


@pytest.mark.parametrize(
    ("message_type", "group", "is_fine"),
    [("fifo", None, False), ("fifo", "g", True), ("normal", "g", False), ("normal", None, True)],
)
def test_a_message_must_fit_the_topics_type(
    server: Server,
    api: httpx.Client,
    topic: str,
    message_type: str,
    group: str | None,
    is_fine: bool,
) -> None:
    server.topic(f"{topic}x", message_type=message_type)

    response = produce(api, f"{topic}x", {"body": "x", "message_group": group})

    if is_fine:
        assert response.status_code == 201
    else:
        assert (response.status_code, response.json()["code"]) == (409, "MESSAGE_TYPE_CONFLICT")


def test_engine_down_is_503_and_recovers_by_itself(
    api: httpx.Client, topic: str, store: StoreDouble
) -> None:
    store.is_connected = False
    try:
        down = produce(api, topic, {"body": "x"})
    finally:
        store.is_connected = True
    up = produce(api, topic, {"body": "x"})

    problem = down.json()
    assert (down.status_code, problem["code"]) == (503, "ENGINE_UNAVAILABLE")
    assert (problem["retryable"], problem["stored"]) == (True, False)
    assert down.headers["retry-after"] == "1"
    assert "secret" not in down.text
    assert up.status_code == 201
    assert len(store.records(f"acme%{topic}")) == 1


@pytest.mark.parametrize(
    ("error", "status", "code", "stored"),
    [
        (OutcomeUnknown("broke"), 503, "OUTCOME_UNKNOWN", None),
        (SyncFailed("EIO"), 503, "OUTCOME_UNKNOWN", None),
        (StoreBusy("full"), 503, "STORAGE_BUSY", False),
        (DiskFull("ENOSPC"), 507, "STORAGE_FULL", False),
    ],
)
def test_what_the_engine_says_becomes_a_retryable_problem(
    api: httpx.Client,
    topic: str,
    store: StoreDouble,
    error: DiskFull | OutcomeUnknown | StoreBusy | SyncFailed,
    status: int,
    code: str,
    stored: bool | None,
) -> None:
    store.put_error = error
    try:
        response = produce(api, topic, {"body": "x"})
    finally:
        store.put_error = None

    problem = response.json()
    assert (response.status_code, problem["code"], problem["retryable"]) == (status, code, True)
    assert problem.get("stored") is stored
    assert "retry-after" in response.headers
