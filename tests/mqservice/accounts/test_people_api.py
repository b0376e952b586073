"""Namespaces, members and invitations over REST: by whom, how far, and nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.test import Client
from django.utils import timezone

from mqservice.accounts import invitation_services, namespace_services
from mqservice.accounts.limits import ATTEMPTS_MAX
from mqservice.accounts.models import AuditEntry, Invitation, Member, Namespace, Role, User
from mqservice.accounts.services import create_api_key, set_role
from mqservice.topics.models import Topic
from tests.people import PASSWORD, People

Api = Callable[[str], Client]
JSON = "application/json"
STRONG = "a long and winding phrase"


@pytest.fixture
def owner(people: People, api: Api) -> Client:
    return api(people.acme_owner_key)


def patch(client: Client, path: str, body: object, **headers: str) -> Any:
    # Any: the test client's response, which has no useful type
    return client.patch(path, data=body, content_type=JSON, headers=headers)


def post(client: Client, path: str, body: object) -> Any:  # Any: as above
    return client.post(path, data=body, content_type=JSON)


def code_of(response: Any) -> tuple[int, str]:  # Any: as above
    return response.status_code, response.json()["code"]


def invited(client: Client, role: str = "developer", **fields: object) -> Any:  # Any: JSON
    made = post(client, "/v1/invitations", {"email": "d@x.example", "role": role, **fields})
    assert made.status_code == 201, made.content
    return made.json()


def accept(token: str, username: str = "dora", password: str = STRONG) -> Any:  # Any: as above
    wanted = {"token": token, "username": username, "password": password}
    return post(Client(), "/v1/invitations:accept", wanted)


# Namespaces -------------------------------------------------------------------------------------


def test_a_namespace_is_made_once_and_deleted_when_it_is_empty(
    admin: Client, people: People
) -> None:
    assert admin.put("/v1/namespaces/staging").status_code == 201
    assert admin.put("/v1/namespaces/staging").status_code == 200
    staging = Namespace.objects.get(name="staging")
    topic = Topic.objects.create(namespace=staging, name="orders")
    refused = admin.delete("/v1/namespaces/staging")
    assert code_of(refused) == (409, "CONFLICT")
    assert "topics" in refused.json()["detail"]
    topic.delete()
    assert admin.delete("/v1/namespaces/staging").status_code == 204
    assert code_of(admin.delete("/v1/namespaces/staging")) == (404, "NAMESPACE_NOT_FOUND")
    entries = AuditEntry.objects.filter(target="namespaces/staging").order_by("id")
    assert [(each.action, each.before, each.after) for each in entries] == [
        ("namespace.create", None, {"name": "staging"}),
        ("namespace.delete", {"name": "staging"}, None),
    ]


def test_namespaces_are_listed_by_name_and_only_the_own_ones(
    admin: Client, people: People, api: Api
) -> None:
    for name in ("b", "a"):
        admin.put(f"/v1/namespaces/{name}")
    page = admin.get("/v1/namespaces?limit=2").json()
    assert [each["name"] for each in page["namespaces"]] == ["a", "acme"]
    rest = admin.get(f"/v1/namespaces?limit=2&after={page['next']}").json()
    assert ([each["name"] for each in rest["namespaces"]], rest["next"]) == (["b"], None)
    bound = api(people.acme_key)
    shown = bound.get("/v1/namespaces").json()["namespaces"]
    assert [each["name"] for each in shown] == ["acme"]
    assert bound.get("/v1/namespaces/-").json()["name"] == "acme"
    assert code_of(bound.get("/v1/namespaces/a")) == (404, "NAMESPACE_NOT_FOUND")
    assert code_of(admin.get("/v1/namespaces/rival")) == (404, "NAMESPACE_NOT_FOUND")
    assert code_of(admin.delete("/v1/namespaces/rival")) == (404, "NAMESPACE_NOT_FOUND")


def test_a_namespace_that_cannot_be_is_refused(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code_of(admin.put("/v1/namespaces/a b")) == (400, "ILLEGAL_NAMESPACE")
    assert code_of(admin.put("/v1/namespaces/rival")) == (409, "CONFLICT")
    monkeypatch.setattr(namespace_services, "NAMESPACES_MAX", 1)
    assert code_of(admin.put("/v1/namespaces/more")) == (403, "QUOTA_EXCEEDED")


# Members ----------------------------------------------------------------------------------------


def test_a_member_gets_another_role_and_a_lost_update_is_refused(admin: Client) -> None:
    read = admin.get("/v1/members/bob")
    assert (read["ETag"], read.json()["role"]) == ('"1"', "viewer")
    changed = patch(admin, "/v1/members/bob", {"role": "admin"}, **{"If-Match": '"1"'})
    assert (changed.status_code, changed["ETag"], changed.json()["role"]) == (200, '"2"', "admin")
    lost = patch(admin, "/v1/members/bob", {"role": "viewer"}, **{"If-Match": '"1"'})
    assert code_of(lost) == (412, "PRECONDITION_FAILED")
    assert code_of(patch(admin, "/v1/members/bob", {"role": "king"})) == (400, "BAD_REQUEST")
    assert code_of(patch(admin, "/v1/members/bob", {})) == (400, "BAD_REQUEST")
    assert code_of(patch(admin, "/v1/members/bob", {"role": "viewer", "id": 1})) == (
        400, "BAD_REQUEST",
    )  # fmt: skip
    entry = AuditEntry.objects.get(action="member.update")
    assert (entry.before, entry.after) == ({"role": "viewer"}, {"role": "admin"})


def test_only_owners_make_and_unmake_owners(admin: Client, owner: Client) -> None:
    assert code_of(patch(admin, "/v1/members/bob", {"role": "owner"})) == (403, "FORBIDDEN")
    assert code_of(patch(admin, "/v1/members/alice", {"role": "viewer"})) == (403, "FORBIDDEN")
    assert code_of(admin.delete("/v1/members/alice")) == (403, "FORBIDDEN")
    assert patch(owner, "/v1/members/bob", {"role": "owner"}).status_code == 200
    assert owner.delete("/v1/members/alice").status_code == 204


def test_the_last_owner_stays(owner: Client) -> None:
    assert code_of(owner.delete("/v1/members/alice")) == (409, "CONFLICT")
    assert code_of(patch(owner, "/v1/members/alice", {"role": "admin"})) == (409, "CONFLICT")
    assert patch(owner, "/v1/members/alice", {"role": "owner"}).status_code == 200
    assert Member.objects.get(user__username="alice").role == Role.OWNER


def test_members_of_others_do_not_exist(admin: Client, people: People, api: Api) -> None:
    absent, foreign = "/v1/members/nobody", "/v1/members/charlie"
    for path in (absent, foreign):
        assert code_of(admin.get(path)) == (404, "MEMBER_NOT_FOUND")
        assert code_of(patch(admin, path, {"role": "viewer"})) == (404, "MEMBER_NOT_FOUND")
        assert code_of(admin.delete(path)) == (404, "MEMBER_NOT_FOUND")
    shown = api(people.acme_viewer_key).get("/v1/members?limit=1").json()
    assert [each["username"] for each in shown["members"]] == ["alice"]
    rest = admin.get(f"/v1/members?after={shown['next']}").json()
    assert [each["username"] for each in rest["members"]] == ["bob"]


def test_a_key_of_one_namespace_cannot_manage_people(people: People, api: Api) -> None:
    tenant = people.acme.tenant
    _, bound = create_api_key(
        tenant, name="b", scopes=["manage"], role=Role.OWNER, namespace=people.acme
    )
    _, narrow = create_api_key(tenant, name="n", scopes=["manage:orders*"], role=Role.OWNER)
    for key in (bound, narrow):
        client = api(key)
        assert code_of(client.delete("/v1/members/bob")) == (403, "FORBIDDEN")
        assert code_of(client.put("/v1/namespaces/more")) == (403, "FORBIDDEN")
        assert code_of(client.get("/v1/invitations")) == (403, "FORBIDDEN")


# Invitations ------------------------------------------------------------------------------------


def test_an_invitation_makes_a_new_user_a_member_once(admin: Client) -> None:
    made = invited(admin)
    assert made["state"] == "open"
    path = f"/v1/invitations/{made['id']}"
    assert "token" not in admin.get(path).json()
    assert made["token"] not in str(list(Invitation.objects.values()))
    assert made["token"] not in str(list(AuditEntry.objects.values()))

    joined = accept(made["token"])
    assert joined.status_code == 201, joined.content
    assert joined.json() == {"tenant": "acme", "username": "dora", "role": "developer"}
    assert authenticate(username="dora", password=STRONG) is not None
    assert admin.get(path).json()["state"] == "accepted"
    assert AuditEntry.objects.get(action="member.join").actor == "user:dora"
    assert code_of(accept(made["token"], "eve")) == (404, "INVITATION_NOT_FOUND")
    assert not User.objects.filter(username="eve").exists()


def test_who_has_a_user_joins_with_its_password(admin: Client, people: People) -> None:
    made = invited(admin, "viewer")
    assert code_of(accept(made["token"], "charlie", "wrong")) == (401, "UNAUTHENTICATED")
    assert accept(made["token"], "charlie", PASSWORD).status_code == 201
    assert Member.objects.filter(user=people.charlie).count() == 2
    again = invited(admin, "admin")
    assert code_of(accept(again["token"], "charlie", PASSWORD)) == (409, "CONFLICT")
    assert Member.objects.get(user=people.charlie, tenant=people.acme.tenant).role == "viewer"


def test_a_token_is_worth_so_many_tries(admin: Client) -> None:
    made = invited(admin)
    for _ in range(ATTEMPTS_MAX):
        assert code_of(accept(made["token"], "dora", "short")) == (400, "BAD_REQUEST")
    assert code_of(accept(made["token"])) == (404, "INVITATION_NOT_FOUND")


def test_no_hash_is_made_for_a_token_that_is_none(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = invited(admin)
    forged = made["token"][:-1] + ("A" if made["token"][-1] != "A" else "B")
    monkeypatch.setattr("mqservice.accounts.join_tenant.authenticate", None)
    for token in (forged, "x", "mqi_" + "A" * 44, made["token"] + "A", "ä"):
        assert code_of(accept(token, "alice")) == (404, "INVITATION_NOT_FOUND")
    assert Invitation.objects.get().attempt_count == 0


def test_a_withdrawn_or_old_invitation_is_invalid(admin: Client) -> None:
    made, old = invited(admin), invited(admin, expires_in="1h")
    path = f"/v1/invitations/{made['id']}"
    assert admin.delete(path).status_code == 204
    assert code_of(admin.delete(path)) == (409, "CONFLICT")
    Invitation.objects.filter(public_id=old["id"]).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )
    for each in (made, old):
        assert code_of(accept(each["token"])) == (404, "INVITATION_NOT_FOUND")
    states = [each["state"] for each in admin.get("/v1/invitations").json()["invitations"]]
    assert sorted(states) == ["expired", "revoked"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"role": "viewer"}, "/email"),
        ({"email": "nobody", "role": "viewer"}, "/email"),
        ({"email": "a@x.example"}, "/role"),
        ({"email": "a@x.example", "role": "viewer", "expires_in": "60d"}, "/expires_in"),
        ({"email": "a@x.example", "role": "viewer", "tenant": "rival"}, "/tenant"),
    ],
)
def test_a_bad_invitation_is_refused_by_its_place(
    admin: Client, body: dict[str, object], pointer: str
) -> None:
    response = post(admin, "/v1/invitations", body)
    assert response.status_code == 400
    assert [fault["pointer"] for fault in response.json()["errors"]] == [pointer]


def test_only_owners_invite_owners_and_nobody_sees_those_of_others(
    admin: Client, owner: Client, people: People, api: Api
) -> None:
    wanted = {"email": "d@x.example", "role": "owner"}
    assert code_of(post(admin, "/v1/invitations", wanted)) == (403, "FORBIDDEN")
    made = invited(owner, "owner")
    path = f"/v1/invitations/{made['id']}"
    assert code_of(admin.delete(path)) == (403, "FORBIDDEN")
    rival = api(people.rival_owner_key)
    assert code_of(rival.get(path)) == (404, "INVITATION_NOT_FOUND")
    assert code_of(rival.delete(path)) == (404, "INVITATION_NOT_FOUND")
    assert rival.get("/v1/invitations").json()["invitations"] == []


def test_open_invitations_are_bounded(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invitation_services, "INVITATIONS_MAX", 1)
    monkeypatch.setattr(invitation_services, "PAST_INVITATIONS_MAX", 1)
    first = invited(admin)
    second = post(admin, "/v1/invitations", {"email": "e@x.example", "role": "viewer"})
    assert code_of(second) == (403, "QUOTA_EXCEEDED")
    for _ in range(3):
        admin.delete(f"/v1/invitations/{first['id']}")
        first = invited(admin)
    assert Invitation.objects.exclude(revoked_at=None).count() == 1, "the oldest are forgotten"


def test_a_member_of_two_tenants_has_a_role_in_each(people: People) -> None:
    set_role(people.acme.tenant, people.charlie, Role.VIEWER)
    roles = {each.tenant.name: each.role for each in people.charlie.memberships.all()}
    assert roles == {"acme": "viewer", "rival": "owner"}
