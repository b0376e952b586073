"""A read-only namespace over REST: what is refused, what goes on, who switches it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.test import Client

from mqservice.accounts.models import AuditEntry, Namespace
from mqservice.accounts.read_only import set_read_only
from mqservice.accounts.roles import CHANGING, Permission
from mqservice.accounts.session_access import find_session_principal
from mqservice.topics.models import Topic
from tests.mqservice.access.rows import CONTROL_ROWS
from tests.people import People

Api = Callable[[str], Client]
PATH = "/v1/namespaces/acme"
GOES_ON = {"/ns/{ns}/groups/{group}/offsets:commit"}


def switch(client: Client, is_on: bool, reason: str = "") -> object:
    body = json.dumps({"read_only": is_on, "reason": reason})
    answer = client.patch(PATH, body, content_type="application/json")
    assert answer.status_code == 200, answer.content
    return answer.json()["read_only"]


def test_every_change_of_a_namespace_is_refused_and_nothing_that_reads(
    engine: str, people: People, api: Api, admin: Client
) -> None:
    Topic.objects.create(namespace=people.acme, name="orders")
    switch(admin, True, "release of 1.2")
    owner, tried = api(people.acme_owner_key), 0
    for row in CONTROL_ROWS:
        if "/ns/" not in row.path:
            continue
        path = row.path.replace("{ns}", "acme").replace("{", "").replace("}", "")
        answer = owner.generic(row.method, path, "{}", content_type="application/json")
        is_refused = answer.status_code == 409 and answer.json()["code"] == "NAMESPACE_READ_ONLY"
        is_change = row.method != "GET" and not path.endswith("/offsets:commit")
        assert is_refused == is_change, (row.method, path, answer.content)
        tried += is_change
        if is_refused:
            assert "(release of 1.2)" in answer.json()["detail"]
    assert tried > 20
    assert Topic.objects.filter(name="orders").exists()


def test_what_is_no_setting_of_the_namespace_continues(people: People, admin: Client) -> None:
    switch(admin, True)
    key = {"name": "new", "scopes": ["consume"], "namespace": "acme"}
    assert admin.post("/v1/keys", key, content_type="application/json").status_code == 201
    assert admin.put("/v1/namespaces/other").status_code == 201
    assert admin.put("/v1/ns/other/topics/orders").status_code != 409
    refused = admin.delete(PATH)
    assert (refused.status_code, refused.json()["code"]) == (409, "NAMESPACE_READ_ONLY")
    assert Namespace.objects.filter(name="acme").exists()


def test_it_is_audited_once_a_change_and_ends(engine: str, people: People, admin: Client) -> None:
    held = switch(admin, True, " a freeze ")
    assert isinstance(held, dict)
    assert (held["by"].startswith("key:"), held["reason"]) == (True, "a freeze")
    assert switch(admin, True, "a freeze") == held
    again = switch(admin, True, "a longer one")
    assert isinstance(again, dict)
    assert (again["since"], again["reason"]) == (held["since"], "a longer one")
    assert admin.get(PATH).json()["read_only"] == again
    assert switch(admin, False) is None
    assert admin.put("/v1/ns/acme/topics/orders").status_code == 201
    entries = AuditEntry.objects.filter(action="namespace.read_only").order_by("id")
    assert [each.after for each in entries] == [
        {"read_only": True, "reason": "a freeze"},
        {"read_only": True, "reason": "a longer one"},
        {"read_only": False, "reason": ""},
    ]


def test_who_may_not_manage_namespaces_switches_nothing(people: People, api: Api) -> None:
    for key in (people.acme_viewer_key, people.acme_key):
        answer = api(key).patch(PATH, {"read_only": True}, content_type="application/json")
        assert answer.status_code == 403
    foreign = api(people.rival_owner_key)
    answer = foreign.patch(PATH, {"read_only": True}, content_type="application/json")
    assert answer.status_code == 404
    assert not Namespace.objects.exclude(read_only_since=None).exists()


@pytest.mark.parametrize(
    "body",
    [{}, {"read_only": "x"}, {"read_only": True, "reason": "x" * 201},
     {"read_only": True, "reason": "a\nb"}, {"read_only": True, "until": "1h"}],
)  # fmt: skip
def test_what_cannot_be_read_changes_nothing(admin: Client, body: dict[str, object]) -> None:
    answer = admin.patch(PATH, body, content_type="application/json")
    assert answer.status_code in (400, 422), answer.content
    assert not Namespace.objects.exclude(read_only_since=None).exists()


def test_a_person_keeps_what_changes_nothing(people: People) -> None:
    before = find_session_principal(people.alice, people.acme)
    by = find_session_principal(people.alice, people.acme)
    assert before is not None
    assert by is not None
    held = find_session_principal(people.alice, set_read_only(by, "acme", is_read_only=True))
    assert held is not None
    lost = {each for each in Permission if before.permits(each) and not held.permits(each)}
    assert lost == CHANGING
    assert held.scopes == before.scopes  # what a key may be given at most
