"""``mqservice key`` against a service that does what the test tells it."""

from __future__ import annotations

import re

import msgspec

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, Json, service_double

KEY: Json = {
    "id": "abcdefgh", "name": "checkout", "namespace": None, "role": "developer",
    "scopes": ["produce:orders*"], "state": "active", "last4": "wxyz", "former_secret": None,
    "created_by": "key:k", "created_at": "2026-11-21T09:00:00.000Z", "expires_at": None,
    "revoked_at": None, "last_used_at": None,
}  # fmt: skip
TEXT = "mqk_abcdefghXXXX"


async def test_create_prints_the_key_alone_on_stdout() -> None:
    async with service_double() as double:
        double.answers.append(Answer(201, KEY | {"key": TEXT}))
        ended = await mqservice(
            *("key", "create", "checkout", "-s", "produce:orders*", "-s", "manage"),
            *("--expires-in", "30d", "--bind", "acme"),
            double=double,
        )
        assert (ended.code, ended.out) == (0, TEXT.encode() + b"\n")
        assert "shown only once" in ended.err
        assert TEXT not in ended.err
        [request] = double.requests
        assert (request.method, request.path) == ("POST", "/v1/keys")
        assert msgspec.json.decode(request.body) == {
            "name": "checkout", "scopes": ["produce:orders*", "manage"], "expires_in": "30d",
            "namespace": "acme",
        }  # fmt: skip


async def test_an_access_key_is_printed_as_an_environment_file() -> None:
    access = {"id": "MQAKABCDEFGH2345", "kind": "access", "key": "mqs_secret"}
    async with service_double() as double:
        double.answers.append(Answer(201, KEY | access))
        ended = await mqservice("key", "create", "celery", "--kind", "access", double=double)
        assert ended.out == (
            b"AWS_ACCESS_KEY_ID=MQAKABCDEFGH2345\nAWS_SECRET_ACCESS_KEY=mqs_secret\n"
        )
        assert b"mqs_secret" not in ended.err.encode()
        [request] = double.requests
        assert msgspec.json.decode(request.body) == {
            "name": "celery", "scopes": [], "kind": "access",
        }  # fmt: skip


async def test_rotate_update_and_revoke_ask_for_what_they_say() -> None:
    async with service_double() as double:
        double.answers += [
            Answer(200, KEY | {"key": TEXT}),
            Answer(200, KEY | {"scopes": ["consume"]}),
            Answer(200, KEY | {"state": "revoked"}),
        ]
        rotated = await mqservice("key", "rotate", "abcdefgh", "--overlap", "2h", double=double)
        updated = await mqservice("key", "update", "abcdefgh", "-s", "consume", double=double)
        revoked = await mqservice("key", "revoke", "abcdefgh", "--yes", double=double)
        assert (rotated.code, rotated.out) == (0, TEXT.encode() + b"\n")
        assert (updated.code, revoked.code) == (0, 0)
        assert "now has the scopes: consume" in updated.err
        assert [(each.method, each.path) for each in double.requests] == [
            ("POST", "/v1/keys/abcdefgh:rotate"),
            ("PATCH", "/v1/keys/abcdefgh"),
            ("POST", "/v1/keys/abcdefgh:revoke"),
        ]
        assert msgspec.json.decode(double.requests[0].body) == {"overlap": "2h"}
        assert msgspec.json.decode(double.requests[1].body) == {"scopes": ["consume"]}


async def test_a_key_can_be_made_to_expire_never_or_at_a_time() -> None:
    at = "2027-01-01T00:00:00Z"
    async with service_double() as double:
        double.answers += [Answer(200, KEY), Answer(200, KEY)]
        for text in ("", at):
            await mqservice("key", "update", "abcdefgh", "--expires-at", text, double=double)
        assert [msgspec.json.decode(each.body) for each in double.requests] == [
            {"expires_at": None},
            {"expires_at": at},
        ]


async def test_a_revocation_that_is_not_confirmed_is_not_asked_for() -> None:
    async with service_double() as double:
        ended = await mqservice("key", "revoke", "abcdefgh", double=double, stdin=b"n\n")
        assert ended.code == 1
        assert not double.requests


async def test_list_goes_through_all_pages() -> None:
    async with service_double() as double:
        double.answers += [
            Answer(200, {"keys": [KEY], "next": "abcdefgh"}),
            Answer(200, {"keys": [KEY | {"id": "bcdefghi", "name": "two\x1b[2J"}], "next": None}),
        ]
        ended = await mqservice("key", "list", double=double)
        assert ended.code == 0
        assert [each.query for each in double.requests] == ["", "after=abcdefgh"]
        assert b"\x1b[2J" not in ended.out
        for key_id in (b"abcdefgh", b"bcdefghi"):
            assert re.search(key_id + rb"\W+api\W", ended.out)


async def test_list_says_which_keys_need_a_former_pepper() -> None:
    async with service_double() as double:
        double.answers.append(
            Answer(200, {"keys": [KEY, KEY | {"needs_former_pepper": True}], "next": None})
        )
        ended = await mqservice("key", "list", double=double)
        assert ended.out.count(b"former") == 1
