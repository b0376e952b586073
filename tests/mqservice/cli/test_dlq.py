"""``mqservice dlq``: what it asks of the service, what it shows, and with which exit code."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, problem, service_double

Json = dict[str, Any]  # Any: documents as the API writes them


def letter(number: int, **fields: object) -> Json:
    return {
        "id": f"ID{number}", "queue": 0, "offset": number, "stored_at": "2026-11-21T09:00:00.000Z",
        "topic": "orders", "reason": "bad\x1b schema", "attempts": 17, "tag": None, "keys": [],
        "body": "text", **fields,
    }  # fmt: skip


def task(state: str, **fields: object) -> Json:
    return {
        "id": "task_1", "kind": "redrive", "state": state, "moved": 0, "skipped": 0, "failed": 0,
        "looked_at": 0, "to_look_at": 9, "rate": 500, "eta_ms": None, "error": None, **fields,
    }  # fmt: skip


async def test_list_shows_page_by_page_what_was_given_up_and_why() -> None:
    async with service_double() as double:
        first = {"messages": [letter(1), letter(2, body=None, body_b64="/w==")], "next_cursor": "c"}
        last = {"messages": [letter(3)], "next_cursor": None}
        double.answers.extend([Answer(200, first), Answer(200, last)])
        ended = await mqservice("dlq", "list", "billing", "--tag", "a || b", double=double)
        lines = ended.out.decode().splitlines()
        assert (ended.code, ended.err, len(lines)) == (0, "", 3)
        assert "ID1  orders  17 attempts  bad\\x1b schema  text" in lines[0]
        assert "base64:/w==" in lines[1]
        queries = [request.query for request in double.requests]
        assert queries == ["tag=a+%7C%7C+b&limit=32", "tag=a+%7C%7C+b&cursor=c&limit=30"]
        assert double.requests[0].path == "/v1/ns/-/groups/billing/dlq"


async def test_list_as_json_is_what_the_service_said() -> None:
    async with service_double() as double:
        double.answers.append(Answer(200, {"messages": [letter(1)], "next_cursor": "more"}))
        ended = await mqservice("dlq", "list", "g", "-o", "ndjson", "--limit", "1", double=double)
        assert msgspec.json.decode(ended.out) == letter(1)
        assert "more than these 1" in ended.line


async def test_redrive_orders_a_task_and_prints_its_id() -> None:
    async with service_double() as double:
        double.answers.append(Answer(202, task("pending")))
        ended = await mqservice(
            *("dlq", "redrive", "billing", "--id", "A", "--id", "B", "--target", "other"),
            *("--rate", "9"),
            double=double,
        )
        assert (ended.code, ended.out, ended.err) == (0, b"task_1\n", "")
        [request] = double.requests
        assert (request.method, request.path) == ("POST", "/v1/ns/-/groups/billing/dlq:redrive")
        assert msgspec.json.decode(request.body) == {
            "ids": ["A", "B"],
            "target": "other",
            "rate": 9,
        }


async def test_letters_of_one_reason_are_listed_and_redriven() -> None:
    async with service_double() as double:
        double.answers.append(Answer(200, {"messages": [letter(1)], "next_cursor": None}))
        double.answers.append(Answer(202, task("pending")))
        await mqservice("dlq", "list", "g", "--reason", "order 1", double=double)
        await mqservice("dlq", "redrive", "g", "--reason", "<none>", double=double)
        listed, moved = double.requests
        assert listed.query == "reason=order+1&limit=32"
        assert msgspec.json.decode(moved.body) == {"filter": {"reason": "<none>"}}


async def test_wait_shows_progress_until_the_end() -> None:
    async with service_double() as double:
        double.answers.extend(
            [
                Answer(202, task("pending")),
                Answer(200, task("running", moved=4, looked_at=4, eta_ms=1_200)),
                Answer(200, task("done", moved=9, looked_at=9)),
            ]
        )
        ended = await mqservice("dlq", "redrive", "billing", "--all", "--wait", double=double)
        assert (ended.code, ended.out) == (0, b"task_1\n")
        pending, running, done = ended.err.splitlines()
        assert pending.startswith("pending: 0 moved")
        assert "4 moved" in running
        assert "checked 4 of 9; about 2 s left" in running
        assert done.startswith("done: 9 moved, 0 skipped, 0 failed")
        assert double.requests[1].path == "/v1/ns/-/tasks/task_1"


async def test_wait_names_what_was_not_moved_and_fails() -> None:
    async with service_double() as double:
        failures = [{"id": "A", "offset": None, "outcome": "not_found"}]
        double.answers.extend(
            [
                Answer(202, task("done", failed=3)),
                Answer(200, {"failures": failures, "next": 1, "unlisted": 0}),
            ]
        )
        ended = await mqservice("dlq", "redrive", "g", "--id", "A", "-w", double=double)
        assert ended.code == 1
        assert ended.err.splitlines()[1:] == ["A: not_found", "and 2 more"]


async def test_dry_run_counts_by_topic() -> None:
    async with service_double() as double:
        topics = [
            {"topic": "orders", "count": 9_998, "exists": True},
            {"topic": "old", "count": 2, "exists": False},
        ]
        double.answers.append(
            Answer(200, {"count": 10_000, "is_complete": False, "topics": topics, "not_found": []})
        )
        ended = await mqservice("dlq", "redrive", "g", "--tag", "t", "--dry-run", double=double)
        assert ended.code == 0
        assert "10,000 or more" in ended.line
        assert ended.out.decode().splitlines()[0] == "9998  orders"
        assert "does not exist" in ended.out.decode()
        assert msgspec.json.decode(double.requests[0].body) == {
            "filter": {"tag": "t"},
            "dry_run": True,
        }


async def test_purge_is_ordered_and_refused_in_one_line() -> None:
    async with service_double() as double:
        double.answers.append(problem(403, "FORBIDDEN"))
        ended = await mqservice("dlq", "purge", "billing", "--all", double=double)
        assert (ended.code, ended.out) == (1, b"")
        assert "FORBIDDEN" in ended.line
        assert double.requests[0].path.endswith("/dlq:purge")


@pytest.mark.parametrize("arguments", [(), ("--all", "--id", "A"), ("--all", "--tag", "t")])
async def test_what_is_meant_has_to_be_said_once(arguments: tuple[str, ...]) -> None:
    async with service_double() as double:
        ended = await mqservice("dlq", "purge", "billing", *arguments, double=double)
        assert ended.code == 2
        assert "--all" in ended.line
        assert double.requests == []
