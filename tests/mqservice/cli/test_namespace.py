"""``mqservice namespace``: what is asked, what is shown, and exit codes."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, problem, service_double

Json = dict[str, Any]  # Any: documents as the API writes them
AT = "2026-12-01T08:00:00.000Z"
PATH = "/v1/namespaces"


def namespace(name: str, reason: str | None = None) -> Json:
    held = None if reason is None else {"since": AT, "by": "user:alice", "reason": reason}
    return {"name": name, "created_at": AT, "read_only": held}


async def test_list_shows_all_pages_and_what_is_read_only() -> None:
    pages = [
        {"namespaces": [namespace("acme", "a [big]\x1b freeze")], "next": "acme"},
        {"namespaces": [namespace("staging")], "next": None},
    ]
    async with service_double() as double:
        double.answers += [Answer(200, page) for page in [*pages, *pages]]
        shown = await mqservice("namespace", "list", double=double)
        lines = shown.out.decode().splitlines()
        (acme,) = [line for line in lines if "acme" in line]
        assert "a [big]" in acme
        assert "user:alice" in acme
        assert "\x1b" not in shown.out.decode()
        as_json = await mqservice("namespace", "list", "-o", "ndjson", double=double)
        rows = [msgspec.json.decode(line) for line in as_json.out.splitlines()]
        assert [row["name"] for row in rows] == ["acme", "staging"]
        assert [(each.path, each.query) for each in double.requests[:2]] == [
            (PATH, ""),
            (PATH, "after=acme"),
        ]


async def test_a_namespace_is_made_read_only_and_writable_again() -> None:
    async with service_double() as double:
        double.answers += [
            Answer(200, namespace("acme", "a freeze")),
            Answer(200, namespace("acme")),
        ]
        held = await mqservice(
            "namespace", "read-only", "acme", "--reason", "a freeze", double=double
        )
        free = await mqservice("namespace", "writable", "acme", double=double)
        assert (held.code, held.line) == (0, "namespace acme is read-only")
        assert (free.code, free.line) == (0, "namespace acme can be changed")
        assert {(each.method, each.path) for each in double.requests} == {("PATCH", f"{PATH}/acme")}
        assert [msgspec.json.decode(each.body) for each in double.requests] == [
            {"read_only": True, "reason": "a freeze"},
            {"read_only": False},
        ]


async def test_a_refusal_is_reported() -> None:
    async with service_double() as double:
        double.answers.append(problem(404, "NAMESPACE_NOT_FOUND", detail="no such"))
        ended = await mqservice("namespace", "read-only", "x", double=double)
        assert ended.code == 1
        assert "NAMESPACE_NOT_FOUND" in ended.line
