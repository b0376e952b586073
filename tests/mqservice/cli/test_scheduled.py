"""``mqservice scheduled`` and the delays of ``produce``: what is asked, shown, and exit codes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, problem, service_double

Json = dict[str, Any]  # Any: documents as the API writes them
AT = "2026-12-01T08:00:00.000Z"


def waiting(number: int, **fields: object) -> Json:
    return {
        "id": f"ID{number}", "queue": 0, "offset": number, "deliver_at": AT,
        "recall_handle": f"rc_{number}", "body": "te\x1bxt", **fields,
    }  # fmt: skip


async def test_list_shows_page_by_page_what_is_to_come() -> None:
    async with service_double() as double:
        first = {"messages": [waiting(1), waiting(2)], "next_cursor": "c"}
        double.answers += [
            Answer(200, first),
            Answer(200, {"messages": [], "next_cursor": "d"}),
            Answer(200, {"messages": [waiting(3)], "next_cursor": None}),
        ]
        ended = await mqservice("scheduled", "list", "orders", double=double)
        lines = ended.out.decode().splitlines()
        assert (ended.code, len(lines)) == (0, 3)
        assert lines[0].split("  ")[:3] == [AT, "ID1", "rc_1"]
        assert "\x1b" not in lines[0]
        queries = [request.query for request in double.requests]
        assert queries == ["limit=32", "cursor=c&limit=30", "cursor=d&limit=30"]
        assert double.requests[0].path == "/v1/ns/-/topics/orders/scheduled"


async def test_list_as_json_is_what_the_service_said() -> None:
    async with service_double() as double:
        double.answers.append(Answer(200, {"messages": [waiting(1)], "next_cursor": "more"}))
        ended = await mqservice(
            "scheduled", "list", "t", "-o", "ndjson", "--limit", "1", double=double
        )
        assert msgspec.json.decode(ended.out) == waiting(1)
        assert "more than these 1" in ended.line


@pytest.mark.parametrize(
    ("command", "method", "verb"), [("cancel", "DELETE", ""), ("send", "POST", ":send")]
)
async def test_each_handle_is_told_whether_it_won(command: str, method: str, verb: str) -> None:
    async with service_double() as double:
        done = {"id": "ID1", "topic": "t", "state": "done"}
        double.answers += [Answer(200, done), problem(409, "ALREADY_DELIVERED")]
        ended = await mqservice("scheduled", command, "rc_1", "rc_2", double=double)
        assert (ended.code, ended.out.decode()) == (1, "ID1 done\n")
        assert "rc_2" in ended.err
        assert "ALREADY_DELIVERED" in ended.err
        asked = [(request.method, request.path) for request in double.requests]
        path = "/v1/ns/-/scheduled/rc_"
        assert asked == [(method, f"{path}1{verb}"), (method, f"{path}2{verb}")]


async def test_one_handle_that_lost_is_a_failure() -> None:
    async with service_double() as double:
        double.answers.append(problem(404, "MESSAGE_NOT_FOUND"))
        ended = await mqservice("scheduled", "cancel", "rc_1", double=double)
        assert ended.code != 0
        assert "MESSAGE_NOT_FOUND" in ended.err


@pytest.mark.parametrize(
    ("option", "value", "field", "sent"),
    [
        ("--delay", "30s", "delay_ms", 30_000),
        ("--delay-level", "3", "delay_level", 3),
        ("--deliver-at", AT, "deliver_at", AT),
    ],
)
async def test_produce_sends_when_it_is_to_be_delivered(
    option: str, value: str, field: str, sent: object
) -> None:
    async with service_double() as double:
        ended = await mqservice("produce", "orders", "hello", option, value, double=double)
        assert ended.code == 0, ended.err
        content = msgspec.json.decode(double.requests[-1].body)
        message = content[0] if isinstance(content, list) else content
        assert message[field] == sent


async def test_move_says_when_and_where_each_is_then() -> None:
    async with service_double() as double:
        at = "2026-12-01T08:00:00.000Z"
        told = {"id": "01AC", "topic": "t", "state": "rescheduled", "deliver_at": at}
        double.answers.append(Answer(200, {**told, "recall_handle": "rc_2"}))
        ended = await mqservice("scheduled", "move", "rc_1", "--delay", "2h", double=double)
        assert ended.code == 0
        assert ended.out.decode().split() == ["01AC", "rescheduled", at, "rc_2"]
        (request,) = double.requests
        assert request.path == "/v1/ns/-/scheduled/rc_1:reschedule"
        assert request.body == b'{"delay":"2h"}'


async def test_list_without_a_topic_shows_those_of_all() -> None:
    async with service_double() as double:
        message = {
            "id": "01AC", "topic": "refunds", "deliver_at": "2026-12-01T08:00:00.000Z",
            "recall_handle": "rc_1", "body": "x",
        }  # fmt: skip
        double.answers.append(Answer(200, {"messages": [message], "next_cursor": None}))
        ended = await mqservice("scheduled", "list", double=double)
        assert ended.out.decode().split() == [
            message["deliver_at"], "refunds", "01AC", "rc_1", "x",
        ]  # fmt: skip
        assert double.requests[0].path == "/v1/ns/-/scheduled"
