"""Masking over REST: rules and the switch, who may change them, what the audit keeps."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from django.test import Client

from mqservice.accounts.models import AuditEntry
from mqservice.masking import services
from mqservice.masking.models import MaskPolicy, MaskRule
from tests.people import People, create_people

URL = "/v1/ns/acme/masking"
CARD = {"topics": "payments-*", "part": "field", "path": "/card/number"}
JSON = "application/json"
Api = Callable[[str], Client]


def test_a_rule_is_made_read_changed_and_deleted(people: People, api: Api) -> None:
    admin = api(people.acme_admin_key)
    made = admin.put(f"{URL}/cards", CARD, JSON)
    assert made.status_code == 201
    assert made.json() | {"created_at": "", "updated_at": ""} == {
        "name": "cards", "namespace": "acme", **CARD, "clear_for": "admin",
        "created_at": "", "updated_at": "",
    }  # fmt: skip
    assert admin.put(f"{URL}/cards", CARD, JSON)["ETag"] == made["ETag"] == '"1"'
    changed = admin.put(
        f"{URL}/cards", {"topics": "*", "part": "body"}, JSON, headers={"if-match": '"1"'}
    )
    assert (changed.status_code, changed["ETag"], changed.json()["path"]) == (200, '"2"', None)
    late = admin.put(f"{URL}/cards", CARD, JSON, headers={"if-match": '"1"'})
    assert late.json()["code"] == "PRECONDITION_FAILED"
    found = api(people.acme_viewer_key).get(URL).json()
    assert found == {"bodies_for": "developer", "rules": [changed.json()]}
    assert admin.delete(f"{URL}/cards").status_code == 204
    assert admin.get(f"{URL}/cards").json()["code"] == "MASK_NOT_FOUND"
    told = AuditEntry.objects.filter(action__startswith="mask").order_by("id")
    assert [(each.action, each.before, each.after) for each in told] == [
        ("mask.put", None, {**CARD, "clear_for": "admin"}),
        ("mask.put", {"topics": "payments-*", "part": "field", "path": "/card/number"},
         {"topics": "*", "part": "body", "path": ""}),
        ("mask.delete", {"topics": "*", "part": "body", "path": "", "clear_for": "admin"}, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"topics": ""}, "/topics"),
        ({"topics": "a*b"}, "/topics"),
        ({"topics": "x" * 66}, "/topics"),
        ({"path": "card"}, "/path"),
        ({"path": None}, "/path"),
        ({"part": "property", "path": " "}, "/path"),
        ({"part": "property", "path": "a\nb"}, "/path"),
        ({"part": "body"}, "/path"),
        ({"part": "all"}, "/part"),
        ({"clear_for": "developer"}, "/clear_for"),
        ({"more": 1}, "/more"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused(
    people: People, api: Api, change: dict[str, object], pointer: str
) -> None:
    answer = api(people.acme_admin_key).put(f"{URL}/cards", {**CARD, **change}, JSON)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert not MaskRule.objects.exists()


def test_there_are_only_so_many_rules(
    people: People, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "RULES_MAX", 2)
    admin = api(people.acme_admin_key)
    for name in ("one", "two"):
        assert admin.put(f"{URL}/{name}", CARD, JSON).status_code == 201
    assert admin.put(f"{URL}/three", CARD, JSON).json()["code"] == "QUOTA_EXCEEDED"
    assert admin.put(f"{URL}/two", {**CARD, "topics": "x"}, JSON).status_code == 200


def test_an_admin_cannot_lift_what_only_owners_see(people: People, api: Api) -> None:
    admin, owner = api(people.acme_admin_key), api(people.acme_owner_key)
    assert admin.put(f"{URL}/cards", {**CARD, "clear_for": "owner"}, JSON).status_code == 201
    assert admin.put(f"{URL}/cards", CARD, JSON).json()["code"] == "FORBIDDEN"
    assert admin.delete(f"{URL}/cards").json()["code"] == "FORBIDDEN"
    assert admin.put(URL, {"bodies_for": "owner"}, JSON).status_code == 200
    assert admin.put(URL, {"bodies_for": "developer"}, JSON).json()["code"] == "FORBIDDEN"
    assert owner.put(URL, {"bodies_for": "developer"}, JSON).json()["bodies_for"] == "developer"
    assert owner.delete(f"{URL}/cards").status_code == 204
    changes = AuditEntry.objects.filter(action="masking.bodies").values_list("before", "after")
    assert list(changes.order_by("id")) == [
        ({"bodies_for": "developer"}, {"bodies_for": "owner"}),
        ({"bodies_for": "owner"}, {"bodies_for": "developer"}),
    ]


def test_rules_of_one_namespace_are_none_of_another(people: People, api: Api) -> None:
    api(people.acme_admin_key).put(f"{URL}/cards", CARD, JSON)
    rival = api(people.rival_owner_key)
    assert rival.get(f"{URL}/cards").json()["code"] == "NAMESPACE_NOT_FOUND"
    assert rival.get("/v1/ns/rival/masking").json()["rules"] == []
    assert rival.delete("/v1/ns/rival/masking/cards").json()["code"] == "MASK_NOT_FOUND"


def test_who_has_a_socket_by_a_session_is_checked_again_after_each_change(test_dsn: str) -> None:
    """Web processes then find anew what each person may do, see ``caches``."""
    namespace = create_people().acme
    with psycopg.connect(test_dsn, autocommit=True) as listener:
        listener.execute("LISTEN mq_invalidate")
        rule = MaskRule.objects.create(namespace=namespace, name="a", topics="*", part="body")
        MaskRule.objects.filter(pk=rule.pk).update(topics="orders")
        MaskPolicy.objects.create(namespace=namespace, bodies_for="owner")
        rule.delete()
        told = [notice.payload for notice in listener.notifies(timeout=10, stop_after=4)]
    assert told == ["people"] * 4
