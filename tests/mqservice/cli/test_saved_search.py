"""``mqservice saved-search``: what is asked, what is shown, and exit codes."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, problem, service_double

Json = dict[str, Any]  # Any: documents as the API writes them
PATH = "/v1/ns/-/searches"


def search(name: str, q: str = "topic:orders") -> Json:
    at = "2026-01-14T09:30:00.000Z"
    return {"name": name, "namespace": "acme", "q": q, "created_at": at, "updated_at": at}


async def test_list_shows_names_and_queries_without_what_moves_the_cursor() -> None:
    async with service_double() as double:
        found = [search("paid", "topic:orders tag:paid"), search("odd", 'topic:a body:"\x1b[2J"')]
        double.answers += [Answer(200, {"searches": found})] * 2
        shown = await mqservice("saved-search", "list", double=double)
        lines = shown.out.decode().splitlines()
        assert lines[1].split() == ["paid", "topic:orders", "tag:paid", "2026-01-14T09:30:00.000Z"]
        assert "\x1b" not in shown.out.decode()
        as_json = await mqservice("saved-search", "list", "-o", "ndjson", double=double)
        assert [msgspec.json.decode(line) for line in as_json.out.splitlines()] == found
        assert [(each.method, each.path) for each in double.requests] == [("GET", PATH)] * 2


async def test_show_prints_one_as_the_api_writes_it() -> None:
    async with service_double() as double:
        double.answers += [Answer(200, search("my paid")), Answer(200, search("my paid"))]
        shown = await mqservice("saved-search", "show", "my paid", double=double)
        assert "topic:orders" in shown.out.decode()
        as_json = await mqservice("saved-search", "show", "my paid", "-o", "json", double=double)
        assert msgspec.json.decode(as_json.out) == search("my paid")
        assert [each.path for each in double.requests] == [f"{PATH}/my paid"] * 2


async def test_set_sends_the_query_and_tells_a_refusal() -> None:
    async with service_double() as double:
        double.answers += [
            Answer(201, search("paid", "topic:orders tag:paid")),
            problem(400, "INVALID_ARGUMENT", detail="paid without a topic"),
        ]
        saved = await mqservice(
            "saved-search", "set", "paid", "topic:orders tag:paid", double=double
        )
        assert (saved.code, saved.out) == (0, b"")
        assert saved.line == "saved search paid: topic:orders tag:paid"
        refused = await mqservice("saved-search", "set", "paid", "tag:paid", double=double)
        assert refused.code == 1
        assert "paid without a topic" in refused.line
        first, _ = double.requests
        assert (first.method, first.path) == ("PUT", f"{PATH}/paid")
        assert msgspec.json.decode(first.body) == {"q": "topic:orders tag:paid"}


async def test_delete_asks_first_and_says_where_to_look_when_there_is_none() -> None:
    async with service_double() as double:
        declined = await mqservice("saved-search", "delete", "m", double=double, stdin=b"n\n")
        assert (declined.code, double.requests) == (1, [])
        double.answers += [Answer(204, None), problem(404, "SEARCH_NOT_FOUND", detail="no m")]
        deleted = await mqservice("saved-search", "delete", "m", "--yes", double=double)
        absent = await mqservice("saved-search", "delete", "m", "--yes", double=double)
        assert (deleted.code, deleted.line) == (0, "saved search m was deleted")
        assert absent.code == 1
        assert "mqservice saved-search list" in absent.line
        assert [request.method for request in double.requests] == ["DELETE", "DELETE"]
