"""Producing over REST: who may, how large, and what comes of it when the engine is away."""

from __future__ import annotations

import socket
from typing import Any

import httpx
import pytest

from mqservice.accounts.scopes import Scope
from mqservice.store import (
    DiskFull,
    NoReplicatedLog,
    OutcomeUnknown,
    ReplicationUnavailable,
    StoreBusy,
    StoreError,
    SyncFailed,
)
from tests.mqservice.delivery.serving import Server
from tests.mqservice.delivery.store_double import StoreDouble


def produce(api: httpx.Client, topic: str, message: dict[str, Any]) -> httpx.Response:
    return api.post(f"/v1/ns/acme/topics/{topic}/messages", json=message)


@pytest.mark.parametrize("authorization", [None, "Bearer nonsense", "Basic eDp5", "Bearer"])
def test_no_key_and_wrong_keys_are_401(
    server: Server, topic: str, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"authorization": authorization}

    response = httpx.post(
        f"{server.url}/v1/ns/acme/topics/{topic}/messages",
        json={"body": "x"},
        headers=headers,
        timeout=60,
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

    foreign = httpx.post(
        f"{server.url}/v1/ns/acme/topics/theirs/messages", headers=headers, timeout=60
    )
    absent = httpx.post(
        f"{server.url}/v1/ns/acme/topics/theirz/messages", headers=headers, timeout=60
    )

    assert foreign.status_code == absent.status_code == 404
    assert foreign.json()["detail"].replace("theirs", "theirz") == absent.json()["detail"]


@pytest.mark.parametrize("name", ["a.b", "a%25b", "x" * 65, "TBW102"])
def test_illegal_topic_names_are_400(api: httpx.Client, name: str) -> None:
    response = api.post(f"/v1/ns/acme/topics/{name}/messages", json={"body": "x"})

    assert (response.status_code, response.json()["code"]) == (400, "ILLEGAL_TOPIC")


def test_a_key_without_the_scope_is_403(server: Server, topic: str) -> None:
    headers = {"authorization": server.key(scopes=frozenset({Scope.CONSUME}))}

    response = httpx.post(
        f"{server.url}/v1/ns/acme/topics/{topic}/messages", headers=headers, timeout=60
    )

    assert (response.status_code, response.json()["code"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "messages", "GET, POST"),
        ("DELETE", "messages", "GET, POST"),
        ("PATCH", "messages", "GET, POST"),
        ("GET", "messages:batch", "POST"),
        ("POST", "messages/01AC", "GET"),
    ],
)
def test_wrong_method_is_405(
    api: httpx.Client, topic: str, method: str, path: str, allowed: str
) -> None:
    response = api.request(method, f"/v1/ns/acme/topics/{topic}/{path}")

    assert (response.status_code, response.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert response.headers["allow"] == allowed


@pytest.mark.parametrize("key", ["", "two words", "x" * 129, "\u00fc"])
def test_what_is_no_key_of_a_request_is_refused(
    api: httpx.Client, topic: str, store: StoreDouble, key: str
) -> None:
    path = f"/v1/ns/acme/topics/{topic}/messages"
    headers = {b"idempotency-key": key.encode()}
    whole = api.post(path, content=b"x", headers=headers)
    batch = api.post(f"{path}:batch", json=[{"body": "x"}], headers=headers)
    own = api.post(path, json={"body": "x", "dedup_id": key})
    assert [r.status_code for r in (whole, batch, own)] == [400] * 3
    assert "Idempotency-Key" in whole.json()["detail"]
    assert own.json()["errors"][0]["pointer"] == "/dedup_id"
    assert whole.json()["stored"] is False
    assert store.records(f"acme%{topic}") == []


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
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(
            f"POST /v1/ns/acme/topics/{topic}/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n"
            f"authorization: {server.key()}\r\ncontent-length: 99999999999\r\n\r\n".encode()
        )
        answer = peer.recv(65536)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"BODY_TOO_LARGE" in answer


def test_a_stream_without_a_length_is_refused_while_it_comes(server: Server, topic: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(
            f"POST /v1/ns/acme/topics/{topic}/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n"
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


def test_engine_down_is_503_and_recovers_on_its_own(
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
        (ReplicationUnavailable("away"), 503, "REPLICATION_UNAVAILABLE", False),
        (NoReplicatedLog("none"), 503, "REPLICATION_UNAVAILABLE", False),
    ],
)
def test_what_the_engine_says_becomes_a_retryable_problem(
    api: httpx.Client,
    topic: str,
    store: StoreDouble,
    error: StoreError,
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
