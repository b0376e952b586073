"""Topics over REST: create, change, read, list, and each way to be refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django import Settings

from mqservice.lib.names import MAIN_SHARD
from mqservice.store import Durability, TopicRef, blocking_client
from mqservice.topics.models import Topic
from tests.people import People

Api = Callable[[str], Client]
JSON = "application/json"


def put(client: Client, name: str, body: str = "{}", ns: str = "acme", **headers: str):  # type: ignore[no-untyped-def]  # the client's own answer type
    return client.put(
        f"/v1/ns/{ns}/topics/{name}", data=body, content_type=JSON, headers=headers or None
    )


def test_created_topic_is_in_postgresql_and_in_the_engine(engine: str, acme: Client) -> None:
    response = put(acme, "orders", '{"queues": 3, "durability": "async", "retention": "1d"}')
    assert response.status_code == 201
    assert response["ETag"] == '"1"'
    body = response.json()
    assert (body["name"], body["namespace"], body["queues"]) == ("orders", "acme", 3)
    assert (body["durability"], body["retention"], body["retention_ms"]) == (
        "async", "1d", 86_400_000,
    )  # fmt: skip
    with blocking_client(MAIN_SHARD) as client:
        assert len(client.topic_stats(TopicRef(topic="acme%orders")).queues) == 3
        (config,) = [one for one in client.topic_list().topics if one.topic == "acme%orders"]
    assert (config.durability, config.retention_ms) == (Durability.ASYNC, 86_400_000)


def test_same_put_again_changes_nothing(engine: str, acme: Client) -> None:
    first = put(acme, "again", '{"queues": 2}')
    second = put(acme, "again", '{"queues": 2}')
    assert (first.status_code, second.status_code) == (201, 200)
    assert second["ETag"] == '"1"'
    assert second.json()["updated_at"] == first.json()["updated_at"]


def test_setting_that_is_left_out_stays(engine: str, acme: Client) -> None:
    put(acme, "kept", '{"queues": 2, "retention": "1d"}')
    body = put(acme, "kept", '{"queues": 3}').json()
    assert (body["queues"], body["retention"]) == (3, "1d")


def test_topic_can_be_created_without_a_body(engine: str, acme: Client) -> None:
    response = acme.put("/v1/ns/-/topics/bare")
    assert response.status_code == 201
    assert response.json()["queues"] == 4


def test_change_under_an_old_etag_is_refused(engine: str, acme: Client) -> None:
    etag = put(acme, "guarded", '{"queues": 1}')["ETag"]
    assert put(acme, "guarded", '{"queues": 2}', **{"if-match": etag}).status_code == 200
    refused = put(acme, "guarded", '{"queues": 3}', **{"if-match": etag})
    assert (refused.status_code, refused.json()["code"]) == (412, "PRECONDITION_FAILED")
    assert Topic.objects.get(name="guarded").queue_count == 2


@pytest.mark.parametrize("if_match", ['"1"', "*", "W/abc", "1"])
def test_condition_on_an_absent_topic_is_refused(engine: str, acme: Client, if_match: str) -> None:
    assert put(acme, "absent", **{"if-match": if_match}).status_code == 412
    assert not Topic.objects.filter(name="absent").exists()


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ('{"queues": 0}', "/queues"),
        ('{"queues": 257}', "/queues"),
        ('{"queues": -1}', "/queues"),
        ('{"queues": "4"}', "/queues"),
        ('{"queues": 1.5}', "/queues"),
        ('{"durability": "never"}', "/durability"),
        ('{"type": "other"}', "/type"),
        ('{"retention": "1 day"}', "/retention"),
        ('{"retention": "1d", "retention_ms": 1}', "/retention"),
        ('{"retention": "31d"}', "/retention"),
        ('{"retention_ms": -1}', "/retention_ms"),
        ('{"body_bytes_max": 4194305}', "/body_bytes_max"),
        ('{"colour": "red"}', "/colour"),
        ('{"queues": 4', ""),
        ("[]", ""),
        ('"text"', ""),
    ],
)
def test_bad_setting_is_refused_with_its_place(acme: Client, body: str, pointer: str) -> None:
    response = put(acme, "orders", body)
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert problem["code"] in {"BAD_REQUEST", "ILLEGAL_SETTING"}
    assert pointer in [item["pointer"] for item in problem["errors"]]
    assert not Topic.objects.exists()


@pytest.mark.parametrize("name", ["a%25b", "%25RETRY%25billing", "x" * 65, "a.b", "-", "rmq_sys_x"])
def test_illegal_name_is_refused(acme: Client, name: str) -> None:
    response = put(acme, name)
    assert (response.status_code, response.json()["code"]) == (400, "ILLEGAL_TOPIC")


def test_queue_count_does_not_shrink(engine: str, acme: Client) -> None:
    put(acme, "shrinking", '{"queues": 4}')
    assert put(acme, "shrinking", '{"queues": 3}').status_code == 400
    assert Topic.objects.get(name="shrinking").queue_count == 4


def test_nothing_is_created_while_the_engine_is_unavailable(people: People, acme: Client) -> None:
    response = put(acme, "orders")
    problem = response.json()
    assert (response.status_code, problem["code"]) == (503, "ENGINE_UNAVAILABLE")
    assert problem["retryable"] is True
    assert response["retry-after"] == "1"
    assert not Topic.objects.exists()


def test_read_topic_has_the_offsets_of_its_queues(engine: str, acme: Client) -> None:
    put(acme, "read", '{"queues": 2}')
    response = acme.get("/v1/ns/acme/topics/read")
    assert response.status_code == 200
    assert response["ETag"] == '"1"'
    assert response.json()["queue_offsets"] == [
        {"queue": 0, "min_offset": 0, "max_offset": 0},
        {"queue": 1, "min_offset": 0, "max_offset": 0},
    ]


def test_offsets_are_unknown_while_the_engine_is_unavailable(
    engine: str, acme: Client, settings: Settings
) -> None:
    put(acme, "unknown")
    settings.MQ_ENGINE_SOCKET = "/nonexistent/engine.sock"
    response = acme.get("/v1/ns/acme/topics/unknown")
    assert response.status_code == 200
    assert response.json()["queue_offsets"] is None


def test_list_comes_in_pages_by_name(people: People, acme: Client) -> None:
    for name in ("c", "a", "b"):
        Topic.objects.create(namespace=people.acme, name=name)
    Topic.objects.create(namespace=people.rival, name="hidden")
    first = acme.get("/v1/ns/acme/topics?limit=2").json()
    assert [topic["name"] for topic in first["topics"]] == ["a", "b"]
    second = acme.get(f"/v1/ns/acme/topics?limit=2&after={first['next']}").json()
    assert [topic["name"] for topic in second["topics"]] == ["c"]
    assert second["next"] is None


def test_list_of_names_that_have_a_text_in_them(people: People, acme: Client) -> None:
    for name in ("orders", "old-ORDERS", "bills", "or%ders"):
        Topic.objects.create(namespace=people.acme, name=name)
    Topic.objects.create(namespace=people.rival, name="hidden-orders")
    found = acme.get("/v1/ns/acme/topics?contains=Order&limit=1").json()
    assert [topic["name"] for topic in found["topics"]] == ["old-ORDERS"]
    more = acme.get("/v1/ns/acme/topics", {"contains": "Order", "after": found["next"]}).json()
    assert [topic["name"] for topic in more["topics"]] == ["orders"]
    assert acme.get("/v1/ns/acme/topics", {"contains": "_"}).json()["topics"] == []
    refused = acme.get("/v1/ns/acme/topics", {"contains": "x" * 65})
    assert refused.json()["errors"][0]["pointer"] == "?contains"


@pytest.mark.parametrize("limit", ["0", "1001", "x"])
def test_page_size_out_of_range_is_refused(acme: Client, limit: str) -> None:
    response = acme.get(f"/v1/ns/acme/topics?limit={limit}")
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "?limit"


def test_foreign_namespace_and_topic_look_like_absent_ones(people: People, acme: Client) -> None:
    Topic.objects.create(namespace=people.rival, name="secret")
    for path in ("topics", "topics/secret"):
        foreign = acme.get(f"/v1/ns/rival/{path}")
        absent = acme.get(f"/v1/ns/nobody/{path}")
        assert foreign.status_code == absent.status_code == 404
        assert _without_ids(foreign.content) == _without_ids(absent.content).replace(
            "nobody", "rival"
        )
    assert put(acme, "secret", '{"queues": 9}', ns="rival").status_code == 404
    assert Topic.objects.get(name="secret").queue_count == 4


def test_key_without_manage_may_read_but_not_change(people: People, api: Api) -> None:
    reader = api(people.acme_reader_key)
    assert reader.get("/v1/ns/acme/topics").status_code == 200
    response = put(reader, "orders")
    assert (response.status_code, response.json()["code"]) == (403, "FORBIDDEN")
    assert put(reader, "orders", ns="rival").status_code == 404


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer mqk_x", "Basic YTpi"])
def test_without_a_valid_key_nothing_is_reported(people: People, header: str | None) -> None:
    client = Client(headers=None if header is None else {"authorization": header})
    for path in ("/v1/ns/acme/topics", "/v1/ns/nobody/topics", "/v1/ns/acme/topics/x"):
        response = client.get(path)
        assert (response.status_code, response.json()["code"]) == (401, "UNAUTHENTICATED")
        assert response["www-authenticate"].startswith("Bearer")


def _without_ids(content: bytes) -> str:
    return content.decode().split('"request_id"')[0]
