"""Producing a batch over REST: an array or NDJSON, all of it or none, per-message results."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from mqservice.store import DiskFull
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.store_double import StoreDouble

NDJSON = {"content-type": "application/x-ndjson"}


def post_batch(
    api: httpx.Client, topic: str, content: bytes, headers: dict[str, str] | None = None
) -> httpx.Response:
    return api.post(
        f"/v1/ns/acme/topics/{topic}/messages:batch",
        content=content,
        headers=headers or {"content-type": "application/json"},
    )


def test_a_batch_answers_in_the_order_of_the_request(
    api: httpx.Client, topic: str, store: StoreDouble
) -> None:
    messages = [{"body": f"m{n}", "queue": n % 4} for n in range(10)]

    response = post_batch(api, topic, json.dumps(messages).encode())

    assert response.status_code == 201
    results: list[Json] = response.json()["results"]
    assert [result["index"] for result in results] == list(range(10))
    assert {result["status"] for result in results} == {201}
    by_id = {record.message_id: record for record in store.records(f"acme%{topic}")}
    for n, result in enumerate(results):
        record = by_id[result["id"]]
        assert (record.body, record.queue_id) == (f"m{n}".encode(), n % 4)
        assert (result["queue"], result["offset"]) == (record.queue_id, record.queue_offset)
        assert result["durability"] == "synced"


def test_ndjson_is_the_same_with_one_message_a_line(
    api: httpx.Client, topic: str, store: StoreDouble
) -> None:
    response = post_batch(api, topic, b'{"body":"a"}\n\n{"body":"b"}\r\n{"body":"c"}', NDJSON)

    assert response.status_code == 201
    assert len(response.json()["results"]) == 3
    assert {r.body for r in store.records(f"acme%{topic}")} == {b"a", b"b", b"c"}


@pytest.mark.parametrize(
    ("content", "headers", "code", "items"),
    [
        (b"[]", None, "BAD_REQUEST", [("", "BATCH_EMPTY")]),
        (b"", NDJSON, "BAD_REQUEST", [("", "BATCH_EMPTY")]),
        (b"{}", None, "BAD_REQUEST", [("", "INVALID_VALUE")]),
        (b'[{"body":"x"},{"body":', None, "BAD_REQUEST", [("", "INVALID_JSON")]),
        (b'[{"body":"x"},{"b":1}]', None, "BAD_REQUEST", [("/1/b", "INVALID_VALUE")]),
        (b'[{"body_b64":"#"}]', None, "BAD_REQUEST", [("/0/body_b64", "BODY_NOT_BASE64")]),
        (
            b'[{"body":"x","tag":"|"},{"body":"x"},{"body":"x","keys":[""]}]',
            None,
            "ILLEGAL_TAG",
            [("/0/tag", "ILLEGAL_TAG"), ("/2/keys/0", "ILLEGAL_KEY")],
        ),
        (b'{"body":"x"}\n{"body":\n', NDJSON, "BAD_REQUEST", [("/1", "INVALID_JSON")]),
        (b'{"body":"x"}\n{"body":2}\n', NDJSON, "BAD_REQUEST", [("/1/body", "INVALID_VALUE")]),
        (
            json.dumps([{"body": "x"}] * 1_001).encode(),
            None,
            "BAD_REQUEST",
            [("/1000", "BATCH_TOO_LONG")],
        ),
    ],
)
def test_a_fault_in_one_message_refuses_them_all(
    api: httpx.Client,
    topic: str,
    store: StoreDouble,
    content: bytes,
    headers: dict[str, str] | None,
    code: str,
    items: list[tuple[str, str]],
) -> None:
    response = post_batch(api, topic, content, headers)

    problem = response.json()
    assert (response.status_code, problem["code"], problem["stored"]) == (400, code, False)
    assert [(item["pointer"], item["code"]) for item in problem["errors"]] == items
    assert store.records(f"acme%{topic}") == []


def test_no_more_than_twenty_faults_are_listed(api: httpx.Client, topic: str) -> None:
    response = post_batch(api, topic, json.dumps([{"body": ""}] * 50).encode())

    assert len(response.json()["errors"]) == 20


def test_other_media_types_are_415(api: httpx.Client, topic: str) -> None:
    response = post_batch(api, topic, b"x", {"content-type": "text/plain"})

    assert (response.status_code, response.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


def test_bodies_above_the_batch_limit_are_413(
    server: Server, api: httpx.Client, topic: str
) -> None:
    server.topic(f"{topic}big", body_bytes_max=4 * 1024 * 1024)
    messages = [{"body": "x" * (1024 * 1024)}] * 5

    response = post_batch(api, f"{topic}big", json.dumps(messages).encode())

    assert (response.status_code, response.json()["code"]) == (413, "BODY_TOO_LARGE")


def test_what_the_engine_refuses_shows_in_its_own_result(
    api: httpx.Client, topic: str, store: StoreDouble
) -> None:
    store.refused_bodies[b"poison"] = DiskFull("ENOSPC")

    response = post_batch(api, topic, b'[{"body":"fine"},{"body":"poison"}]')

    fine, refused = response.json()["results"]
    assert response.status_code == 207
    assert fine["status"] == 201
    assert refused == {
        "index": 1,
        "status": 507,
        "code": "STORAGE_FULL",
        "detail": refused["detail"],
        "retryable": True,
        "stored": False,
    }


def test_all_refused_is_one_problem(api: httpx.Client, topic: str, store: StoreDouble) -> None:
    store.refused_bodies[b"poison"] = DiskFull("ENOSPC")

    response = post_batch(api, topic, b'[{"body":"poison"}]')

    assert (response.status_code, response.json()["code"]) == (507, "STORAGE_FULL")


def test_engine_down_stores_nothing_of_a_batch(
    api: httpx.Client, topic: str, store: StoreDouble
) -> None:
    store.is_connected = False
    try:
        response = post_batch(api, topic, b'[{"body":"a"},{"body":"b"}]')
    finally:
        store.is_connected = True

    problem: dict[str, Any] = response.json()  # Any: a problem's fields differ in type
    assert (response.status_code, problem["code"]) == (503, "ENGINE_UNAVAILABLE")
    assert (problem["retryable"], problem["stored"]) == (True, False)
    assert store.records(f"acme%{topic}") == []
