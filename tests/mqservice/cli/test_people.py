"""``mqservice member``, ``invitation`` and ``audit`` against a service that the test tells what."""

from __future__ import annotations

import msgspec

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, Json, service_double

MEMBER: Json = {"username": "alice", "role": "owner", "created_at": "2026-11-21T09:00:00.000Z"}
INVITATION: Json = {
    "id": "AbCdEf123456", "email": "d@x.example", "role": "viewer", "state": "open",
    "invited_by": "key:k", "created_at": "2026-11-21T09:00:00.000Z",
    "expires_at": "2026-11-28T09:00:00.000Z",
}  # fmt: skip
LINK = "https://mq.example/account/join/mqi_x/"
ENTRY: Json = {
    "at": "2026-11-21T09:00:00.000Z", "actor": "user:alice", "address": "192.0.2.7",
    "action": "topic.put", "namespace": "acme", "target": "topics/orders", "outcome": "done",
    "before": {"queues": 2}, "after": {"queues": 3}, "details": {}, "request_id": "01",
}  # fmt: skip


async def test_members_are_listed_page_by_page_changed_and_removed() -> None:
    async with service_double() as double:
        double.answers += [
            Answer(200, {"members": [MEMBER], "next": "alice"}),
            Answer(200, {"members": [MEMBER | {"username": "bob\x1b[2J"}], "next": None}),
            Answer(200, MEMBER | {"role": "admin"}),
            Answer(204, None),
        ]
        listed = await mqservice("member", "list", double=double)
        changed = await mqservice("member", "set-role", "a/b", "admin", double=double)
        removed = await mqservice("member", "remove", "alice", "--yes", double=double)
        assert (listed.code, changed.code, removed.code) == (0, 0, 0)
        assert b"alice" in listed.out
        assert b"\x1b[2J" not in listed.out
        assert "now has the role admin" in changed.err
        paths = [(each.method, each.path) for each in double.requests]
        assert [method for method, _ in paths] == ["GET", "GET", "PATCH", "DELETE"]
        assert paths[2][1] == "/v1/members/a/b"


async def test_member_is_removed_only_by_who_is_sure() -> None:
    async with service_double() as double:
        ended = await mqservice("member", "remove", "alice", double=double, stdin=b"n\n")
        assert ended.code == 1
        assert double.requests == []


async def test_invitation_prints_its_link_alone_on_stdout() -> None:
    async with service_double() as double:
        double.answers += [
            Answer(201, INVITATION | {"token": "mqi_x", "link": LINK}),
            Answer(200, {"invitations": [INVITATION], "next": None}),
            Answer(204, None),
        ]
        made = await mqservice(
            "invitation", "create", "d@x.example", "--role", "viewer", double=double
        )
        listed = await mqservice("invitation", "list", "-o", "ndjson", double=double)
        ended = await mqservice("invitation", "revoke", "AbCdEf123456", double=double)
        assert made.out == LINK.encode() + b"\n"
        assert "mqi_x" not in made.err
        assert msgspec.json.decode(listed.out)["email"] == "d@x.example"
        assert (made.code, listed.code, ended.code) == (0, 0, 0)
        body = msgspec.json.decode(double.requests[0].body)
        assert body == {"email": "d@x.example", "role": "viewer"}


async def test_audit_is_read_on_until_the_limit() -> None:
    async with service_double() as double:
        double.answers += [
            Answer(200, {"entries": [ENTRY] * 100, "next_cursor": "c1"}),
            Answer(200, {"entries": [ENTRY] * 20, "next_cursor": "c2"}),
        ]
        found = await mqservice(
            *("audit", "search", "--actor", "user:alice", "--limit", "120", "-o", "ndjson"),
            *("--from", "2026-11-01T00:00:00Z"),
            double=double,
        )
        assert found.code == 0
        assert len(found.out.splitlines()) == 120
        queries = [str(each.query) for each in double.requests]
        assert "actor=user%3Aalice" in queries[0]
        assert "from=2026-11-01" in queries[0]
        assert "cursor=c1" in queries[1]
        assert "limit=20" in queries[1]


async def test_audit_shows_what_became_different() -> None:
    async with service_double() as double:
        double.answers.append(Answer(200, {"entries": [ENTRY], "next_cursor": None}))
        found = await mqservice("audit", "search", double=double)
        assert b"topic.put" in found.out
        assert b"topics/orders" in found.out.replace(b"\n", b"")


async def test_refusal_is_one_line() -> None:
    async with service_double() as double:
        problem = {"code": "FORBIDDEN", "detail": "this needs the permission audit.read"}
        double.answers.append(Answer(403, problem))
        ended = await mqservice("audit", "search", double=double)
        assert ended.code == 1
        assert "audit.read" in ended.line


async def test_dedup_id_goes_with_the_message_and_makes_it_safe_to_repeat() -> None:
    async with service_double() as double:
        stored = {"id": "01", "queue": 0, "offset": 7}
        lost = {"code": "OUTCOME_UNKNOWN", "detail": "nobody knows", "retryable": True}
        double.answers += [Answer(503, lost), Answer(201, stored)]
        sent = await mqservice("produce", "orders", "hi", "--dedup-id", "order-42", double=double)
        assert sent.code == 0, sent.err
        bodies = [msgspec.json.decode(each.body) for each in double.requests]
        assert [each["dedup_id"] for each in bodies] == ["order-42", "order-42"]


async def test_dedup_id_is_for_one_message() -> None:
    async with service_double() as double:
        ended = await mqservice("produce", "orders", "a", "b", "--dedup-id", "x", double=double)
        piped = await mqservice(
            "produce", "orders", "--dedup-id", "x", double=double, stdin=b"{}\n"
        )
        assert (ended.code, piped.code) == (2, 2)
        assert "one message" in ended.line
        assert double.requests == []


async def test_lines_have_a_dedup_id_each() -> None:
    async with service_double() as double:
        lines = b'{"body":"a","dedup_id":"1"}\n{"body":"b","dedup_id":"2"}\n'
        results = [{"index": n, "id": str(n), "queue": 0, "offset": n} for n in range(2)]
        double.answers.append(Answer(201, {"results": results}))
        sent = await mqservice("produce", "orders", "-q", double=double, stdin=lines)
        assert sent.code == 0, sent.err
        [request] = double.requests
        assert [each["dedup_id"] for each in msgspec.json.decode(request.body)] == ["1", "2"]
