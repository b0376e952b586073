"""Under ``/v1/`` refusals are problem documents; every answer has its id and safe headers."""

from __future__ import annotations

from typing import NoReturn

import pytest
from django.db import OperationalError
from django.test import Client

from tests.people import People


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/", 404, "NOT_FOUND"),
        ("GET", "/v1/nothing", 404, "NOT_FOUND"),
        ("POST", "/v1/ns/acme/nothing/here", 404, "NOT_FOUND"),
        ("DELETE", "/v1/ns/acme/topics", 405, "METHOD_NOT_ALLOWED"),
        ("PATCH", "/v1/ns/acme/topics/x", 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/v1/ns/acme/groups/x", 405, "METHOD_NOT_ALLOWED"),
    ],
)
def test_path_and_method_are_refused_by_problem(
    people: People, method: str, path: str, status: int, code: str
) -> None:
    response = Client(headers={"authorization": f"Bearer {people.acme_key}"}).generic(method, path)
    problem = response.json()
    assert (response.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert response["Content-Type"] == "application/problem+json"
    assert problem["instance"] == path
    assert problem["request_id"] == response["x-request-id"]
    assert status != 405 or response["Allow"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "topics/%00"),
        ("DELETE", "topics/%00"),
        ("GET", "topics?after=%00"),
        ("GET", "groups/%00"),
        ("POST", "groups/%00:pause"),
        ("GET", "groups/%00/lag"),
        ("GET", "groups?after=%00"),
        ("GET", "tasks/%00"),
        ("POST", "tasks/%00:cancel"),
        ("GET", "tasks/%00/failures"),
        ("GET", "tasks?before=%00"),
    ],
)
def test_name_that_no_column_can_hold_is_a_bad_request(
    people: People, method: str, path: str
) -> None:
    client = Client(headers={"authorization": f"Bearer {people.acme_key}"})
    response = client.generic(method, f"/v1/ns/acme/{path}")
    assert (response.status_code, response.json()["code"]) == (400, "BAD_REQUEST")


def test_failing_view_is_500_without_a_word_of_the_cause(
    people: People, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError("the secret cause")

    monkeypatch.setattr("mqservice.topics.api.topics_of", fail)
    client = Client(headers={"authorization": f"Bearer {people.acme_key}"})
    response = client.get("/v1/ns/acme/topics")
    assert (response.status_code, response.json()["code"]) == (500, "INTERNAL")
    assert b"secret cause" not in response.content
    assert "the secret cause" in caplog.text


def test_database_that_is_unavailable_is_503(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> NoReturn:
        raise OperationalError("connection refused")

    monkeypatch.setattr("mqservice.accounts.rest.find_principal", fail)
    client = Client(headers={"authorization": f"Bearer {people.acme_key}"})
    response = client.get("/v1/ns/acme/topics")
    assert (response.status_code, response.json()["code"]) == (503, "METADATA_UNAVAILABLE")
    assert response["retry-after"] == "1"


def test_request_id_of_the_caller_is_taken_when_it_is_harmless() -> None:
    client = Client()
    assert client.get("/healthz", headers={"x-request-id": "abc-12345"})["x-request-id"] == (
        "abc-12345"
    )
    for bad in ("x" * 65, "short", "a b c d e f", 'x"y<z>aaaa'):
        answer = client.get("/healthz", headers={"x-request-id": bad})["x-request-id"]
        assert answer != bad
        assert len(answer) == 26


def test_every_answer_has_safe_headers() -> None:
    response = Client().get("/healthz")
    assert "default-src 'none'" in response["Content-Security-Policy"]
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["X-Frame-Options"] == "DENY"
    assert response["Referrer-Policy"] == "same-origin"
    assert response["Cross-Origin-Opener-Policy"] == "same-origin"
    assert response["Cross-Origin-Resource-Policy"] == "same-origin"
    assert response["Cache-Control"] == "no-store"


def test_unknown_host_is_refused() -> None:
    response = Client(headers={"host": "evil.example"}).get("/v1/ns/acme/topics")
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"


def test_type_of_a_problem_leads_to_a_page() -> None:
    page = Client().get("/errors/topic-not-found")
    assert page.status_code == 200
    assert b"TOPIC_NOT_FOUND" in page.content
    assert Client().get("/errors/nothing-of-ours").status_code == 404
