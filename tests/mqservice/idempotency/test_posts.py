"""POSTs of the control plane under a key: done once, by rows and audit that tell how often."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from mqservice.accounts.models import ApiKey, AuditEntry, Namespace
from mqservice.accounts.scopes import Scope
from mqservice.accounts.services import create_api_key, get_or_create_namespace
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.services import GroupChange, put_group
from mqservice.idempotency.middleware import WINDOW
from mqservice.idempotency.models import AnsweredRequest
from mqservice.idempotency.tasks import clean_up
from tests.people import People, create_people

Api = Callable[[str], Client]
KEY = {"idempotency-key": "k-1"}
PATH = "/v1/ns/acme/groups/keyed:pause"


@pytest.fixture
def client(people: People, api: Api, engine: str) -> Client:
    put_group(people.acme, "keyed", GroupChange())
    return api(people.acme_key)


def revision() -> int:
    return ConsumerGroup.objects.get(name="keyed").revision


def test_again_gets_the_first_answer_and_does_nothing(client: Client) -> None:
    first = client.post(PATH, headers=KEY)
    assert first.status_code == 200
    assert client.post("/v1/ns/acme/groups/keyed:resume").status_code == 200
    before, audited = revision(), AuditEntry.objects.count()
    again = client.post(PATH, headers=KEY)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again["ETag"] == first["ETag"]
    assert again["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first
    assert (revision(), AuditEntry.objects.count()) == (before, audited)


def test_a_refusal_did_nothing_and_is_asked_again(client: Client, people: People) -> None:
    path = "/v1/ns/acme/groups/later:pause"
    assert client.post(path, headers=KEY).status_code == 404
    put_group(people.acme, "later", GroupChange())
    done = client.post(path, headers=KEY)
    assert (done.status_code, done.json()["paused"]) == (200, True)
    assert client.post(path, headers=KEY)["Idempotency-Replayed"] == "true"


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/ns/acme/groups/keyed:resume", b""), (PATH, b"{}"), (f"{PATH}?a=b", b"")],
)
def test_another_request_under_the_key_is_409(client: Client, path: str, body: bytes) -> None:
    client.post(PATH, headers=KEY)
    other = client.post(path, body, content_type="application/json", headers=KEY)
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")


def test_keys_are_the_tenants_own(client: Client, people: People, api: Api) -> None:
    client.post(PATH, headers=KEY)
    theirs = api(people.rival_key).post(PATH, headers=KEY)
    assert (theirs.status_code, theirs.json()["code"]) == (404, "NAMESPACE_NOT_FOUND")


@pytest.mark.parametrize(
    ("who", "status", "code"),
    [
        ("acme_viewer_key", 403, "FORBIDDEN"),
        ("acme_reader_key", 403, "FORBIDDEN"),
        ("rival_key", 404, "NAMESPACE_NOT_FOUND"),
    ],
)
def test_who_may_not_ask_gets_no_answer_of_who_may(
    who: str, status: int, code: str, client: Client, people: People, api: Api
) -> None:
    """As without the key."""
    assert client.post(PATH, headers=KEY).status_code == 200
    other = api(getattr(people, who))
    for headers in ({}, KEY):
        refused = other.post(PATH, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (status, code)


def test_a_key_of_another_namespace_gets_no_answer_of_this_one(
    client: Client, people: People, api: Api
) -> None:
    other = get_or_create_namespace(people.acme.tenant, "acme-too")
    text = create_api_key(people.acme.tenant, name="too", scopes=Scope, namespace=other)[1]
    assert client.post(PATH, headers=KEY).status_code == 200
    assert api(text).post(PATH, headers=KEY).json()["code"] == "NAMESPACE_NOT_FOUND"


def test_another_key_with_the_same_rights_asks_for_itself(
    client: Client, people: People, api: Api
) -> None:
    text = create_api_key(people.acme.tenant, name="two", scopes=Scope, namespace=people.acme)[1]
    first = client.post(PATH, headers=KEY)
    second = api(text).post(PATH, headers=KEY)
    assert (first.status_code, second.status_code) == (200, 200)
    assert "Idempotency-Replayed" not in second
    assert api(text).post(PATH, headers=KEY)["Idempotency-Replayed"] == "true"


@pytest.mark.parametrize("change", [{"role": "viewer"}, {"scopes": ["consume"]}])
def test_a_key_whose_rights_were_cut_gets_no_answer_from_before(
    change: dict[str, object], client: Client, people: People
) -> None:
    assert client.post(PATH, headers=KEY).status_code == 200
    ApiKey.objects.filter(name="all", tenant=people.acme.tenant).update(**change)
    refused = client.post(PATH, headers=KEY)
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert "paused" not in refused.content.decode()


def test_nothing_is_answered_again_while_the_namespace_is_read_only(
    client: Client, people: People
) -> None:
    assert client.post(PATH, headers=KEY).status_code == 200
    Namespace.objects.filter(pk=people.acme.pk).update(read_only_since=timezone.now())
    plain, again = client.post(PATH), client.post(PATH, headers=KEY)
    assert (plain.status_code, plain.json()["code"]) == (again.status_code, again.json()["code"])
    assert plain.status_code == 409


def test_without_a_good_key_nothing_is_kept(client: Client, api: Api) -> None:
    assert api("mqk_nonsense").post(PATH, headers=KEY).status_code == 401
    for bad in ("", "two words", "x" * 129):
        assert client.post(PATH, headers={"idempotency-key": bad}).status_code == 400
    assert client.post("/v1/quotas", headers=KEY).status_code == 400
    assert AnsweredRequest.objects.count() == 0


def test_what_failed_may_be_tried_again(client: Client, settings: object) -> None:
    settings.MQ_ENGINE_SOCKET, there = "/nonexistent/e.sock", settings.MQ_ENGINE_SOCKET  # type: ignore[attr-defined]  # pytest-django's
    assert client.post(PATH, headers=KEY).status_code == 503
    settings.MQ_ENGINE_SOCKET = there  # type: ignore[attr-defined]  # as above
    assert client.post(PATH, headers=KEY).status_code == 200


def test_a_key_counts_for_a_day_and_is_cleaned_up(client: Client) -> None:
    client.post(PATH, headers=KEY)
    clean_up()
    assert AnsweredRequest.objects.count() == 1
    AnsweredRequest.objects.update(created_at=timezone.now() - WINDOW - timedelta(seconds=1))
    assert client.post(PATH, b"{}", content_type="application/json", headers=KEY).status_code != 409
    AnsweredRequest.objects.update(created_at=timezone.now() - WINDOW - timedelta(seconds=1))
    clean_up()
    assert AnsweredRequest.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_two_that_come_together_are_one(api: Api, engine: str) -> None:
    people = create_people()
    put_group(people.acme, "keyed", GroupChange())
    before = revision()
    answers: list[bytes] = []

    def post() -> None:
        try:
            response = api(people.acme_key).post(PATH, headers=KEY)
            assert response.status_code == 200
            answers.append(response.content)
        finally:
            connection.close()

    threads = [threading.Thread(target=post) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert len(set(answers)) == 1
    assert revision() == before + 1
