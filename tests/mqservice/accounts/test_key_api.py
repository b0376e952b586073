"""API keys over REST: made, shown, changed, rotated, revoked; and nobody makes a stronger one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from mqservice.accounts import key_services
from mqservice.accounts.access import find_principal
from mqservice.accounts.models import ApiKey, AuditEntry, Role
from mqservice.accounts.services import create_api_key
from mqservice.lib.api_keys import parse_api_key
from mqservice.lib.timestamps import datetime_ms, rfc3339
from tests.people import People, bearer

Api = Callable[[str], Client]
JSON = "application/json"
ORDER = {"name": "checkout", "scopes": ["produce:orders*"]}


def post(client: Client, body: object = ORDER, path: str = "/v1/keys", **headers: str) -> Any:
    # Any: the test client's response, which has no useful type
    return client.post(path, data=body, content_type=JSON, headers=headers)


def patch(client: Client, path: str, body: object, **headers: str) -> Any:  # Any: as above
    return client.patch(path, data=body, content_type=JSON, headers=headers)


def test_a_key_is_shown_once_and_opens_what_it_says(admin: Client, people: People) -> None:
    made = post(admin, ORDER | {"namespace": "acme", "expires_in": "30d"})
    assert made.status_code == 201, made.content
    body = made.json()
    text = body.pop("key")
    path = f"/v1/keys/{body['id']}"
    assert (made["Location"], made["ETag"]) == (path, '"1"')
    assert (body["role"], body["state"], body["namespace"]) == ("developer", "active", "acme")
    assert body["created_by"].startswith("key:")
    assert (body["last4"], body["last_used_at"]) == (parse_api_key(text).last4, None)  # type: ignore[union-attr]  # reason: well-formed
    read = admin.get(path)
    assert (read.status_code, read["ETag"], read.json()) == (200, '"1"', body)
    assert text not in str(list(AuditEntry.objects.values())) + str(list(ApiKey.objects.values()))
    principal = find_principal(bearer(text))
    assert principal is not None
    assert ([each.text for each in principal.all_grants], principal.namespace) == (
        ["produce:orders*"], "acme",
    )  # fmt: skip


def test_keys_are_listed_page_by_page(admin: Client, people: People) -> None:
    for index in range(3):
        post(admin, ORDER | {"name": f"key {index}"})
    seen, after = [], ""
    while True:
        page = admin.get(f"/v1/keys?limit=2&after={after}").json()
        seen += [each["id"] for each in page["keys"]]
        if page["next"] is None:
            break
        after = page["next"]
    own = ApiKey.objects.filter(tenant=people.acme.tenant)
    assert seen == sorted(own.values_list("public_id", flat=True))
    assert admin.get("/v1/keys?limit=0").status_code == 400
    assert admin.get("/v1/keys?after=%00").json()["code"] == "BAD_REQUEST"


def test_a_key_is_changed_and_a_lost_update_refused(admin: Client) -> None:
    body = post(admin, ORDER | {"expires_in": "1h"}).json()
    path = f"/v1/keys/{body['id']}"
    changed = patch(
        admin, path, {"scopes": ["consume:group/b*", "consume:topic/b*"]}, **{"If-Match": '"1"'}
    )
    assert changed.status_code == 200, changed.content
    assert changed["ETag"] == '"2"'
    assert changed.json()["scopes"] == ["consume:group/b*", "consume:topic/b*"]
    assert changed.json()["expires_at"] == body["expires_at"], "left out stays"
    assert patch(admin, path, {"name": "x"}, **{"If-Match": '"1"'}).status_code == 412
    assert patch(admin, path, {"expires_at": None}).json()["expires_at"] is None
    assert patch(admin, path, {"name": "checkout"})["ETag"] == '"3"', "nothing was changed"
    entry = AuditEntry.objects.filter(action="key.update").earliest("id")
    assert entry.before == {"scopes": ["produce:orders*"]}
    assert entry.after == {"scopes": ["consume:group/b*", "consume:topic/b*"]}


def test_rotation_keeps_two_secrets_and_never_three(admin: Client) -> None:
    made = post(admin).json()
    path = f"/v1/keys/{made['id']}"
    second = post(admin, {"overlap": "1h"}, f"{path}:rotate")
    assert (second.status_code, second["ETag"]) == (200, '"2"')
    assert second.json()["former_secret"]["last4"] == made["last4"]
    assert find_principal(bearer(made["key"])) is not None
    assert find_principal(bearer(second.json()["key"])) is not None

    refused = post(admin, {}, f"{path}:rotate")
    assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT")
    third = post(admin, {"overlap_ms": 0}, f"{path}:rotate")
    assert (third.status_code, third.json()["former_secret"]) == (200, None)
    assert find_principal(bearer(made["key"])) is None
    assert find_principal(bearer(second.json()["key"])) is None
    assert find_principal(bearer(third.json()["key"])) is not None


def test_a_revoked_key_is_shown_and_never_comes_back(admin: Client) -> None:
    made = post(admin).json()
    path = f"/v1/keys/{made['id']}"
    assert post(admin, None, f"{path}:revoke", **{"If-Match": '"7"'}).status_code == 412
    ended = post(admin, None, f"{path}:revoke")
    assert (ended.status_code, ended.json()["state"]) == (200, "revoked")
    assert post(admin, None, f"{path}:revoke").json() == ended.json(), "once more is harmless"
    assert AuditEntry.objects.filter(action="key.revoke").count() == 1
    assert find_principal(bearer(made["key"])) is None
    assert patch(admin, path, {"name": "x"}).json()["code"] == "CONFLICT"
    assert post(admin, {}, f"{path}:rotate").json()["code"] == "CONFLICT"


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        ({"name": None}, "BAD_REQUEST", "/name"),
        ({"name": "  "}, "BAD_REQUEST", "/name"),
        ({"name": "a\nb"}, "BAD_REQUEST", "/name"),
        ({"name": "x" * 81}, "BAD_REQUEST", "/name"),
        ({"name": 7}, "BAD_REQUEST", "/name"),
        ({"scopes": None}, "BAD_REQUEST", "/scopes"),
        ({"scopes": "produce"}, "BAD_REQUEST", "/scopes"),
        ({"scopes": ["produce"] * 33}, "BAD_REQUEST", "/scopes"),
        ({"scopes": ["produce", "rule"]}, "BAD_REQUEST", "/scopes/1"),
        ({"scopes": [5]}, "BAD_REQUEST", "/scopes/0"),
        ({"role": "king"}, "BAD_REQUEST", "/role"),
        ({"role": "viewer"}, "ILLEGAL_SETTING", "/scopes"),
        ({"namespace": "a%b"}, "BAD_REQUEST", "/namespace"),
        ({"expires_at": "soon"}, "BAD_REQUEST", "/expires_at"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "ILLEGAL_SETTING", "/expires_at"),
        ({"expires_at": "9999-12-31T23:59:59Z"}, "ILLEGAL_SETTING", "/expires_at"),
        ({"expires_in": "0s"}, "ILLEGAL_SETTING", "/expires_in"),
        ({"id": "own"}, "BAD_REQUEST", "/id"),
        ({"tenant": "rival"}, "BAD_REQUEST", "/tenant"),
        ({"created_by": "me"}, "BAD_REQUEST", "/created_by"),
    ],
)
def test_a_bad_order_is_refused_by_its_place(
    admin: Client, change: dict[str, object], code: str, pointer: str
) -> None:
    count = ApiKey.objects.count()
    response = post(admin, {k: v for k, v in (ORDER | change).items() if v is not None})
    assert response.status_code == 400, response.content
    assert response.json()["code"] == code
    assert [fault["pointer"] for fault in response.json()["errors"]] == [pointer]
    assert ApiKey.objects.count() == count


def test_nobody_makes_a_key_that_may_do_more(people: People, api: Api) -> None:
    tenant = people.acme.tenant
    _, narrow = create_api_key(
        tenant, name="n", scopes=["manage", "produce:orders*"], role=Role.ADMIN
    )
    soon = timezone.now() + timedelta(hours=1)
    _, brief = create_api_key(
        tenant, name="b", scopes=["manage", "produce"], role=Role.ADMIN, expires_at=soon
    )
    later = rfc3339(datetime_ms(soon + timedelta(seconds=1)))
    for key, order in (
        (people.acme_admin_key, {"role": "owner", "scopes": []}),
        (narrow, {"scopes": ["produce"]}),
        (narrow, {"scopes": ["produce:order*"]}),
        (narrow, {"scopes": ["consume:orders"]}),
        (brief, {}),
        (brief, {"expires_at": later}),
    ):
        response = post(api(key), ORDER | order)
        assert (response.status_code, response.json()["code"]) == (403, "FORBIDDEN"), order
    assert post(api(narrow), ORDER | {"scopes": ["produce:orders-eu"]}).status_code == 201
    assert post(api(brief), ORDER | {"expires_in": "10m"}).status_code == 201


def test_the_secret_of_a_stronger_key_is_not_to_be_had(people: People, api: Api) -> None:
    owner = parse_api_key(people.acme_owner_key)
    assert owner is not None
    admin, path = api(people.acme_admin_key), f"/v1/keys/{owner.public_id}"
    assert post(admin, {}, f"{path}:rotate").status_code == 403
    assert patch(admin, path, {"scopes": []}).status_code == 403
    assert post(admin, None, f"{path}:revoke").status_code == 403
    assert find_principal(bearer(people.acme_owner_key)) is not None
    made = post(admin).json()
    assert patch(admin, f"/v1/keys/{made['id']}", {"role": "owner"}).status_code == 403


def test_a_key_that_is_bound_sees_and_makes_only_keys_of_its_namespace(
    people: People, api: Api
) -> None:
    _, bound = create_api_key(
        people.acme.tenant, name="b", scopes=["manage"], role=Role.ADMIN, namespace=people.acme
    )
    client = api(bound)
    seen = client.get("/v1/keys").json()["keys"]
    assert {each["namespace"] for each in seen} == {"acme"}
    wide = parse_api_key(people.acme_viewer_key)
    assert wide is not None
    assert client.get(f"/v1/keys/{wide.public_id}").json()["code"] == "KEY_NOT_FOUND"
    assert post(client, ORDER | {"scopes": ["manage"]}).json()["namespace"] == "acme"
    foreign = post(client, ORDER | {"namespace": "rival"})
    assert foreign.json()["code"] == "NAMESPACE_NOT_FOUND"


def test_nobody_else_sees_or_ends_a_key(admin: Client, people: People, api: Api) -> None:
    path = f"/v1/keys/{post(admin).json()['id']}"
    rival = api(people.rival_owner_key)
    for answer in (
        rival.get(path), patch(rival, path, {"name": "x"}), post(rival, {}, f"{path}:rotate"),
        post(rival, None, f"{path}:revoke"),
    ):  # fmt: skip
        assert (answer.status_code, answer.json()["code"]) == (404, "KEY_NOT_FOUND")
    assert path.rpartition("/")[2] not in str(rival.get("/v1/keys").content)


def test_keys_of_a_tenant_are_bounded(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    alive = ApiKey.objects.filter(tenant__name="acme", revoked_at=None).count()
    monkeypatch.setattr(key_services, "KEYS_MAX", alive + 1)
    monkeypatch.setattr(key_services, "REVOKED_KEYS_MAX", 1)
    first = post(admin).json()["id"]
    assert post(admin).json()["code"] == "QUOTA_EXCEEDED"
    for _ in range(3):
        post(admin, None, f"/v1/keys/{first}:revoke")
        first = post(admin).json()["id"]
    assert ApiKey.objects.exclude(revoked_at=None).count() == 1, "the oldest are forgotten"
