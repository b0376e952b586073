"""``mqservice usage``: pages are followed, and shown as a table or as lines."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, service_double


def row_of(at: str, **fields: object) -> dict[str, Any]:  # Any: a document of the API
    return {
        "at": at, "namespace": None, "topic": None, "messages_in": 2, "bytes_in": 400,
        "messages_out": 1, "bytes_out": 200, "api_calls": 3, "storage_bytes_max": None, **fields,
    }  # fmt: skip


def page_of(
    *rows: dict[str, Any],  # Any: as above
    next_cursor: str | None = None,
) -> dict[str, Any]:  # Any: as above
    return {
        "tenant": "demo", "per": "day", "by": "topic", "rows": list(rows),
        "next_cursor": next_cursor,
    }  # fmt: skip


async def test_all_pages_are_asked_for_and_shown() -> None:
    async with service_double() as double:
        first = row_of("2026-03-01T00:00:00.000Z", topic="orders")
        second = row_of("2026-03-02T00:00:00.000Z", topic="orders", storage_bytes_max=7)
        double.answers += [
            Answer(200, page_of(first, next_cursor="c+1")),
            Answer(200, page_of(second)),
        ]
        asked = ("usage", "--from", "2026-03-01T00:00:00Z", "--per", "day", "--by", "topic")
        ended = await mqservice(*asked, "-o", "ndjson", double=double)
        assert ended.code == 0, ended.err
        lines = [msgspec.json.decode(line) for line in ended.out.splitlines()]
        assert lines == [first, second]
        query = "from=2026-03-01T00%3A00%3A00Z&per=day&by=topic"
        assert {each.path for each in double.requests} == {"/v1/usage"}
        assert [each.query for each in double.requests] == [query, f"{query}&cursor=c%2B1"]


async def test_a_table_has_a_line_a_row() -> None:
    async with service_double() as double:
        double.answers.append(Answer(200, page_of(row_of("2026-03-01T00:00:00.000Z"))))
        ended = await mqservice("usage", double=double)
        assert ended.code == 0, ended.err
        assert b"400" in ended.out
