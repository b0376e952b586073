"""Access keys: an id and a derived secret. They live as API keys do and open nothing unsigned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from mqservice.accounts.access import Principal, find_access_key, find_principal
from mqservice.accounts.key_uses import uses
from mqservice.accounts.models import ApiKey, AuditEntry, Role
from mqservice.accounts.scopes import Scope
from mqservice.accounts.services import create_api_key
from mqservice.accounts.settings import KeyKind
from mqservice.caches import Caches
from mqservice.lib.access_keys import access_key_secret, generate_access_key_id, is_made_here
from mqservice.lib.problem import Problem
from tests.people import People, bearer

Api = Callable[[str], Client]
JSON = "application/json"
ORDER = {"name": "celery", "kind": "access", "scopes": ["produce:orders*"], "namespace": "acme"}
OTHER = "another pepper of at least 32 characters"


def post(client: Client, body: object, path: str = "/v1/keys") -> Any:  # Any: untyped response
    return client.post(path, data=body, content_type=JSON)


def secrets_of(key_id: str) -> list[str]:
    """With which the key signs now."""
    principal = find_access_key(key_id.encode())
    assert principal is not None
    now_ms = timezone.now().timestamp() * 1_000
    return [
        each.value.decode()
        for each in principal.signing_secrets
        if each.until_ms is None or each.until_ms > now_ms
    ]


def access_key(people: People, **given: Any) -> tuple[str, str]:  # Any: as create_api_key has them
    row, secret = create_api_key(
        people.acme.tenant, name="celery", scopes=list(Scope), kind=KeyKind.ACCESS, **given
    )
    return row.public_id, secret


def test_it_is_shown_once_and_is_the_same_principal_as_an_api_key(
    admin: Client, people: People
) -> None:
    made = post(admin, ORDER)
    assert made.status_code == 201, made.content
    body = made.json()
    secret = body.pop("key")
    key_id = body["id"]
    assert (body["kind"], body["last4"], len(key_id)) == ("access", secret[-4:], 16)
    assert made["Location"] == f"/v1/keys/{key_id}"
    assert admin.get(f"/v1/keys/{key_id}").json() == body
    assert body in admin.get("/v1/keys").json()["keys"]

    principal = find_access_key(key_id.encode())

    assert principal is not None
    assert secrets_of(key_id) == [secret]
    assert ([each.text for each in principal.all_grants], principal.namespace) == (
        ["produce:orders*"], "acme",
    )  # fmt: skip
    assert (principal.role, principal.actor) == (Role.DEVELOPER, f"key:{key_id}")
    assert secret not in repr(principal)
    kept = str(list(AuditEntry.objects.values())) + str(list(ApiKey.objects.values()))
    assert secret not in kept
    assert AuditEntry.objects.get(action="key.create").target == f"keys/{key_id}"


def test_keys_are_api_keys_unless_asked_otherwise(admin: Client) -> None:
    assert post(admin, {"name": "a", "scopes": []}).json()["kind"] == "api"
    refused = post(admin, {"name": "a", "scopes": [], "kind": "root"})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/kind")
    made = post(admin, ORDER).json()
    changed = admin.patch(f"/v1/keys/{made['id']}", data={"kind": "api"}, content_type=JSON)
    assert changed.status_code == 400, "what a key is does not change"


def test_id_and_secret_are_no_bearer_tokens(admin: Client, api: Api) -> None:
    made = post(admin, ORDER).json()
    for text in (made["id"], made["key"], f"mqk_{made['id']}", made["id"] + made["key"]):
        assert find_principal(bearer(text)) is None
        assert find_principal(text.encode()) is None
        assert api(text).get("/v1/namespaces").status_code == 401


async def test_an_id_alone_opens_nothing_where_keys_are_cached(people: People) -> None:
    caches = Caches()
    key_id, _ = await sync_to_async(access_key)(people)
    principal = await caches.access_keys.load(key_id.encode())
    assert caches.access_keys.cached(key_id.encode()) is principal
    for header in (key_id.encode(), bearer(key_id)):
        assert caches.keys.cached(header) is None
        with pytest.raises(Problem):
            await caches.keys.load(header)


def test_rotation_keeps_two_secrets_and_zero_overlap_ends_both(admin: Client) -> None:
    first = post(admin, ORDER).json()
    path = f"/v1/keys/{first['id']}:rotate"
    second = post(admin, {"overlap": "1h"}, path).json()
    assert second["id"] == first["id"]
    assert second["former_secret"]["last4"] == first["last4"]
    assert secrets_of(first["id"]) == [second["key"], first["key"]]
    assert post(admin, {}, path).json()["code"] == "CONFLICT"
    third = post(admin, {"overlap": "0s"}, path).json()
    assert secrets_of(first["id"]) == [third["key"]]


def test_a_former_secret_ends_with_its_overlap(people: People) -> None:
    key_id, secret = access_key(people)
    row = ApiKey.objects.get(public_id=key_id)
    row.previous_mac, row.previous_until = row.secret_mac, timezone.now() - timedelta(seconds=1)
    row.secret_mac = bytes(row.secret_mac[:4]) + bytes(28)
    row.save()
    assert secret not in secrets_of(key_id)


def test_what_is_revoked_or_expired_is_nobody(admin: Client, people: People) -> None:
    made = post(admin, ORDER).json()
    assert post(admin, None, f"/v1/keys/{made['id']}:revoke").json()["state"] == "revoked"
    assert find_access_key(made["id"].encode()) is None
    key_id, _ = access_key(people, expires_at=timezone.now())
    assert find_access_key(key_id.encode()) is None


def test_nobody_makes_a_stronger_one(api: Api, people: People) -> None:
    refused = post(api(people.acme_admin_key), ORDER | {"role": "owner"})
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")


def test_its_use_is_noted(
    people: People, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    uses.take()
    key_id, _ = access_key(people)
    with django_assert_num_queries(1):
        find_access_key(key_id.encode())
    uses.write()
    assert ApiKey.objects.get(public_id=key_id).last_used_at is not None


def test_secrets_differ_by_id_seed_and_pepper(people: People, settings: Settings) -> None:
    key_id, secret = access_key(people)
    seed = bytes(ApiKey.objects.get(public_id=key_id).secret_mac)
    peppers = [settings.MQ_KEY_PEPPER]
    assert access_key_secret(peppers, key_id, seed) == secret
    others = [
        access_key_secret(peppers, key_id[:-1] + ("B" if key_id[-1] == "A" else "A"), seed),
        access_key_secret(peppers, key_id, seed[:-1] + bytes([seed[-1] ^ 1])),
        access_key_secret([OTHER], key_id, seed),
    ]
    assert secret not in others
    assert others[2] is None, "the seed tells which pepper it is for"


def test_a_secret_stays_while_its_pepper_is_a_fallback(people: People, settings: Settings) -> None:
    key_id, secret = access_key(people)
    never = "one that never was, of 32 characters"
    settings.MQ_KEY_PEPPER_FALLBACKS = [never, settings.MQ_KEY_PEPPER]
    settings.MQ_KEY_PEPPER = OTHER
    assert secrets_of(key_id) == [secret]
    assert is_made_here(key_id, [OTHER, *settings.MQ_KEY_PEPPER_FALLBACKS])
    settings.MQ_KEY_PEPPER_FALLBACKS = []
    assert find_access_key(key_id.encode()) is None


def test_rotation_takes_a_key_to_the_present_pepper(
    admin: Client, people: People, settings: Settings
) -> None:
    key_id = post(admin, ORDER).json()["id"]
    settings.MQ_KEY_PEPPER_FALLBACKS = [settings.MQ_KEY_PEPPER]
    settings.MQ_KEY_PEPPER = OTHER
    assert admin.get(f"/v1/keys/{key_id}").json()["needs_former_pepper"]
    rotated = post(admin, {}, f"/v1/keys/{key_id}:rotate").json()
    assert not rotated["needs_former_pepper"]
    second = rotated["key"]
    settings.MQ_KEY_PEPPER_FALLBACKS = []
    assert secrets_of(key_id) == [second]


@pytest.mark.parametrize(
    "key_id",
    [
        b"", b"MQAK", b"MQAK" + b"A" * 12, b"MQAK" + b"A" * 5_000, b"AKIAIOSFODNN7EXAMPLE",
        "MQAKÄBCDEFGHIJKL".encode(), b"MQAK\x00BCDEFGHIJKL", b"abcdefgh",
    ],
)  # fmt: skip
async def test_an_id_that_was_not_made_here_costs_no_query(key_id: bytes) -> None:
    with pytest.raises(Problem) as refusal:
        await Caches().access_keys.load(key_id)  # without a database, a query would be an error
    assert refusal.value.status == 401


async def test_an_id_in_other_letters_is_another_one(people: People) -> None:
    key_id, _ = await sync_to_async(access_key)(people)
    caches = Caches()
    await caches.access_keys.load(key_id.encode())
    for other in (key_id.lower(), key_id.swapcase(), f" {key_id}", f"{key_id}\n"):
        assert caches.access_keys.cached(other.encode()) is None
        with pytest.raises(Problem):
            await caches.access_keys.load(other.encode())


async def test_an_unknown_id_that_could_be_one_is_asked_for_once(
    people: People, settings: Settings
) -> None:
    asked: list[bytes] = []

    async def find(key_id: bytes) -> Principal | None:
        asked.append(key_id)
        return None

    caches = Caches()
    caches.access_keys = type(caches.access_keys)(find)
    key_id = generate_access_key_id(settings.MQ_KEY_PEPPER).encode()
    for _ in range(50):
        with pytest.raises(Problem):
            await caches.access_keys.load(key_id)
    assert asked == [key_id]


async def test_a_notification_ends_it(people: People) -> None:
    caches = Caches()
    key_id, _ = await sync_to_async(access_key)(people)
    heard: asyncio.Future[Principal | None] = asyncio.get_running_loop().create_future()
    await caches.access_keys.load(key_id.encode())
    caches.access_keys.watch.join(key_id.encode(), key_id, heard.set_result)
    revoked = ApiKey.objects.filter(public_id=key_id)
    await sync_to_async(revoked.update)(revoked_at=timezone.now())

    caches.drop(f"key {key_id}")

    assert caches.access_keys.cached(key_id.encode()) is None
    with pytest.raises(Problem):
        await caches.access_keys.load(key_id.encode())
    assert await heard is None
