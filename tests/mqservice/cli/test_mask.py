"""``mqservice mask``: what is asked, what is shown, and exit codes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, problem, service_double

Json = dict[str, Any]  # Any: documents as the API writes them
PATH = "/v1/ns/-/masking"


def rule(name: str, **fields: object) -> Json:
    return {
        "name": name, "namespace": "acme", "topics": "payments-*", "part": "field",
        "path": "/card/number", "clear_for": "admin", "created_at": "", "updated_at": "", **fields,
    }  # fmt: skip


async def test_list_shows_rules_and_the_switch_for_bodies() -> None:
    async with service_double() as double:
        rules = [rule("card"), rule("all", part="body", path=None), rule("odd", path="/a[b]\x1b")]
        double.answers += [Answer(200, {"bodies_for": "admin", "rules": rules})] * 2
        shown = await mqservice("mask", "list", double=double)
        lines = [line.split() for line in shown.out.decode().splitlines()]
        card = {"card", "payments-*", "field", "/card/number", "admin"}
        assert any(card <= set(line) for line in lines)
        assert any("/a[b]" in " ".join(line) for line in lines)
        assert "\x1b" not in shown.out.decode()
        assert shown.line == "bodies are shown to the role admin and above"
        as_json = await mqservice("mask", "list", "-o", "ndjson", double=double)
        assert [msgspec.json.decode(line) for line in as_json.out.splitlines()] == rules
        assert [(each.method, each.path) for each in double.requests] == [("GET", PATH)] * 2


@pytest.mark.parametrize(
    ("options", "sent", "told"),
    [
        (
            ("--topics", "payments-*", "--part", "field", "--path", "/card/number"),
            {"topics": "payments-*", "part": "field", "path": "/card/number", "clear_for": "admin"},
            "the field /card/number of payments-*",
        ),
        (
            ("--topics", "pay", "--part", "body", "--clear-for", "owner"),
            {"topics": "pay", "part": "body", "path": None, "clear_for": "owner"},
            "bodies of pay",
        ),
    ],
)
async def test_set_sends_all_of_a_rule(options: tuple[str, ...], sent: Json, told: str) -> None:
    async with service_double() as double:
        double.answers.append(Answer(201, rule("my card", **sent)))
        ended = await mqservice("mask", "set", "my card", *options, double=double)
        assert (ended.code, ended.out) == (0, b"")
        assert told in ended.line
        (request,) = double.requests
        assert (request.method, request.path) == ("PUT", f"{PATH}/my card")
        assert msgspec.json.decode(request.body) == sent


async def test_a_rule_without_topics_or_of_another_part_is_not_sent() -> None:
    async with service_double() as double:
        for options in (("--part", "body"), ("--topics", "a"), ("--topics", "a", "--part", "tag")):
            assert (await mqservice("mask", "set", "m", *options, double=double)).code == 2
        assert double.requests == []


async def test_delete_asks_first_and_tells_a_refusal() -> None:
    async with service_double() as double:
        declined = await mqservice("mask", "delete", "m", double=double, stdin=b"n\n")
        assert (declined.code, double.requests) == (1, [])
        double.answers += [Answer(204, None), problem(404, "MASK_NOT_FOUND", detail="no m")]
        deleted = await mqservice("mask", "delete", "m", "--yes", double=double)
        absent = await mqservice("mask", "delete", "m", "--yes", double=double)
        assert (deleted.code, deleted.line) == (0, "masking rule m was deleted")
        assert absent.code == 1
        assert "MASK_NOT_FOUND" in absent.line
        assert [request.method for request in double.requests] == ["DELETE", "DELETE"]


@pytest.mark.parametrize(
    ("role", "told"),
    [("owner", "to the role owner and above"), ("developer", "to all users who may read messages")],
)
async def test_bodies_are_shown_from_a_role_on(role: str, told: str) -> None:
    async with service_double() as double:
        double.answers.append(Answer(200, {"bodies_for": role, "rules": []}))
        ended = await mqservice("mask", "bodies", role, double=double)
        assert ended.code == 0
        assert told in ended.line
        (request,) = double.requests
        assert (request.method, request.path) == ("PUT", PATH)
        assert msgspec.json.decode(request.body) == {"bodies_for": role}
