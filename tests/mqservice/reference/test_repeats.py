"""Headers that many operations share: documented where they are answered, and of the form told."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import pytest
from django.test import Client

from mqservice.groups.services import GroupChange, put_group
from mqservice.reference.control_paths import control_plane
from mqservice.reference.openapi import openapi_document
from mqservice.reference.parts import JsonObject
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.people import People

MESSAGES = "/v1/ns/{ns}/topics/{topic}/messages"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(StoreDouble()) as running:
        running.topic("orders")
        yield running


def fits(method: str, path: str, status: int, headers: Mapping[str, str]) -> list[str]:
    """Which of the rate headers are not answered as they are documented."""
    document = openapi_document()
    response = document["paths"][path][method]["responses"][str(status)]
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
    return [
        name
        for name in ("ratelimit", "ratelimit-policy")
        if not re.fullmatch(_pattern(document, response["headers"][name]), headers[name])
    ]


def test_rates_of_the_data_plane_are_as_documented(server: Server) -> None:
    path = "/v1/ns/acme/topics/orders/messages"
    with server.client() as http:
        for answer in (http.post(path, json={}), http.post(path, json={"body": "x"})):
            assert fits("post", MESSAGES, answer.status_code, answer.headers) == []
        answer = http.get(path)
        assert fits("get", MESSAGES, answer.status_code, answer.headers) == []


def test_rates_of_the_control_plane_are_as_documented(
    people: People, api: Callable[[str], Client], engine: str, valkey_server: str
) -> None:
    put_group(people.acme, "keyed", GroupChange())
    client = api(people.acme_key)
    for path, real in (
        ("/v1/usage", "/v1/usage"),
        ("/v1/ns/{ns}/topics/{topic}", "/v1/ns/acme/topics/absent"),
    ):
        answer = client.get(real)
        assert fits("get", path, answer.status_code, answer.headers) == []
    for is_again in (False, True):
        answer = client.post("/v1/ns/acme/groups/keyed:pause", headers={"idempotency-key": "k"})
        assert ("Idempotency-Replayed" in answer) == is_again
        path = "/v1/ns/{ns}/groups/{group}:pause"
        assert fits("post", path, answer.status_code, answer.headers) == []


def test_requests_that_may_come_again_say_under_which_key() -> None:
    document = openapi_document()
    keyed = {
        path
        for path, methods in document["paths"].items()
        for operation in [methods.get("post")]
        if operation and "Idempotency-Key" in {each["name"] for each in operation["parameters"]}
    }
    control = {
        path
        for path, methods in control_plane()[0].items()
        if "post" in methods and path.startswith("/v1/ns/")
    }
    assert keyed == control | {MESSAGES, f"{MESSAGES}:batch", f"{MESSAGES}:copy"}
    assert "dedup_id" in document["components"]["schemas"]["ProduceMessage"]["properties"]


def test_who_has_no_key_is_told_no_rates() -> None:
    paths = openapi_document()["paths"]
    assert "ratelimit" not in paths["/healthz"]["get"]["responses"]["200"]["headers"]
    assert "ratelimit" in paths["/v1/quotas"]["get"]["responses"]["200"]["headers"]


def _pattern(document: JsonObject, header: JsonObject) -> str:
    name = header["$ref"].rpartition("/")[2]
    pattern: str = document["components"]["headers"][name]["schema"]["pattern"]
    return pattern
