"""``mqservice message trace``, ``group clients`` and the filters of ``consume``."""

from __future__ import annotations

from typing import Any  # documents as the API writes them

import msgspec
import pytest

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, problem, service_double

AT = "2026-11-21T09:00:00.000Z"
FILTER_AT = 5  # of a subscription in MessagePack: after op, id, sid, topic and group
TRACE: dict[str, Any] = {
    "id": "01AB",
    "events": [
        {"event": "born", "at": AT},
        {"event": "stored", "at": AT, "topic": "orders", "queue": 3, "offset": 7},
        {
            "event": "delivery_failed", "at": AT, "topic": "orders", "group": "billing",
            "attempt": 1, "consumer": "w\x1b[31m", "reason": "db\ndown",
            "delivered_at": AT, "due_at": AT,
        },
    ],
    "groups": [
        {"group": "billing", "topic": "orders", "state": "in_flight", "attempts": 2,
         "consumer": "w1", "lease_until": AT, "due_at": None},
    ],
    "is_complete": True,
}  # fmt: skip


async def test_trace_tells_the_road_line_by_line() -> None:
    async with service_double() as double:
        double.answers.append(Answer(200, TRACE))
        ended = await mqservice("message", "trace", "01AB", "-t", "orders", double=double)
        assert ended.code == 0
        born, stored, failed = ended.out.decode().splitlines()[:3]
        assert born.split() == [AT, "born"]
        assert stored.endswith("topic orders 3:7")
        assert "delivery failed" in failed
        assert "attempt 1  by w\\x1b[31m" in failed
        assert failed.endswith("db down")
        assert "in flight" in ended.out.decode()
        (request,) = double.requests
        assert (request.path, request.query) == ("/v1/ns/-/messages/01AB/trace", "topic=orders")


async def test_trace_as_json_and_what_is_missing() -> None:
    async with service_double() as double:
        double.answers.append(Answer(200, TRACE))
        ended = await mqservice("message", "trace", "01AB", "-o", "ndjson", double=double)
        assert msgspec.json.decode(ended.out)["groups"][0]["consumer"] == "w1"
        double.answers.append(Answer(200, {**TRACE, "is_complete": False}))
        ended = await mqservice("message", "trace", "a/b", double=double)
        assert "may be incomplete" in ended.err
        double.answers.append(problem(404, "MESSAGE_NOT_FOUND"))
        refused = await mqservice("message", "trace", "none", double=double)
        assert (refused.code, "MESSAGE_NOT_FOUND" in refused.line) == (1, True)


async def test_clients_of_a_group() -> None:
    def client(name: str, queues: list[int] | None) -> dict[str, Any]:
        return {"consumer": name, "queues": queues, "waiting": True, "inflight": 4,
                "zone": "east", "heard_at": AT}  # fmt: skip

    orders = {
        "topic": "orders", "generation": 5, "unassigned": [3], "is_complete": False,
        "clients": [client("w1", [0, 1]), client("w2", [])],
    }  # fmt: skip
    shared = {"topic": "events", "generation": None, "unassigned": None,
              "clients": [client("ws-1", None)]}  # fmt: skip
    async with service_double() as double:
        double.answers.append(Answer(200, {"group": "billing", "topics": [orders, shared]}))
        ended = await mqservice("group", "clients", "billing", double=double)
        assert ended.code == 0
        for text in ("w1", "0, 1", "none", "any", "east"):
            assert text in ended.out.decode()
        for text in ("generation 5", "no consumer reads queue 3", "there are more"):
            assert text in ended.err
        assert double.requests[-1].path == "/v1/ns/-/groups/billing/clients"
        double.answers.append(Answer(200, {"group": "billing", "topics": [orders]}))
        lines = (await mqservice("group", "clients", "billing", "-o", "ndjson", double=double)).out
        assert msgspec.json.decode(lines)["topic"] == "orders"
        double.answers.append(Answer(200, {"group": "billing", "topics": []}))
        assert (
            "has not read any topic"
            in (await mqservice("group", "clients", "billing", double=double)).err
        )


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((), None),  # all messages
        (("--filter", "created || paid"), "created || paid"),
        (("--sql", "amount > 10"), {"sql": "amount > 10"}),
    ],
)
@pytest.mark.parametrize("is_json", [True, False])
async def test_consume_brings_its_filter(
    options: tuple[str, ...], wanted: object, is_json: bool
) -> None:
    async with service_double() as double:
        protocol = ("--json-frames",) if is_json else ()
        arguments = ("consume", "orders", "-g", "g", "--idle-exit", "50ms", *protocol, *options)
        assert (await mqservice(*arguments, double=double)).code == 0
        [sent] = [
            command for command in double.commands
            if (command.get("op") == "sub" if is_json else command[0] == 4)
        ]  # fmt: skip
        assert (sent.get("filter") if is_json else sent[FILTER_AT]) == wanted


async def test_consume_has_one_filter() -> None:
    async with service_double() as double:
        arguments = ("consume", "orders", "-g", "g", "--filter", "a", "--sql", "b = 1")
        ended = await mqservice(*arguments, double=double)
        assert (ended.code, "one filter" in ended.line) == (2, True)
