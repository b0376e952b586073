"""``mqservice group`` and ``mqservice topic delete``: what is asked for, and what is said of it."""

from __future__ import annotations

from typing import Any  # documents as the API writes them

import msgspec
import pytest

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, problem, service_double

LEVELS = {"policy": "levels"}


def group(name: str = "billing", **more: Any) -> dict[str, Any]:
    plain = {
        "name": name, "namespace": "acme", "start_from": "earliest", "lease": "1m",
        "lease_ms": 60_000, "max_attempts": 17, "retry": LEVELS, "paused": False, "lag": None,
    }  # fmt: skip
    return {**plain, **more}


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ((), {}),
        (
            ("--start-from", "latest", "--lease", "30s", "--max-attempts", "5"),
            {"start_from": "latest", "lease": "30s", "max_attempts": 5},
        ),
        (
            ("--start-time", "2026-11-21T09:00:00Z"),
            {"start_from": "timestamp", "start_time": "2026-11-21T09:00:00Z"},
        ),
        (("--max-attempts", "unlimited"), {"max_attempts": None}),
        (
            ("--dispatch", "broadcast", "--consume-timeout", "10m"),
            {"dispatch": "broadcast", "consume_timeout": "10m"},
        ),
        (("--retry", "levels"), {"retry": LEVELS}),
        (
            ("--delay", "10s", "--delay", "1m"),
            {"retry": {"policy": "list", "delays": ["10s", "1m"]}},
        ),
        (
            ("--retry-start", "5s", "--retry-factor", "3", "--retry-cap", "1h"),
            {"retry": {"policy": "exponential", "start": "5s", "factor": 3.0, "cap": "1h"}},
        ),
        (("--retry", "exponential"), {"retry": {"policy": "exponential"}}),
        (
            ("--dispatch", "exclusive", "--strategy", "AVG_BY_CIRCLE", "--ordered"),
            {"dispatch": "exclusive", "strategy": "AVG_BY_CIRCLE", "ordered": True},
        ),
        (("--unordered",), {"ordered": False}),
        (
            ("--strategy", "CONFIG", "--consumer", "w1=0,1", "--consumer", "w2="),
            {"strategy": "CONFIG", "assignment": {"consumers": {"w1": [0, 1], "w2": []}}},
        ),
        (
            ("--room", "east=0", "--read-room", "east", "--within-room", "AVG"),
            {"assignment": {"rooms": {"east": [0]}, "read": ["east"], "within_room": "AVG"}},
        ),
        (("--ordered", "--batch-per-group", "5"), {"ordered": True, "batch_per_group": 5}),
        # What does not fit together is the service's to refuse, with its place.
        (("--retry", "levels", "--delay", "1s"), {"retry": {**LEVELS, "delays": ["1s"]}}),
    ],
)
async def test_create_sends_what_was_given(
    options: tuple[str, ...], settings: dict[str, Any]
) -> None:
    async with service_double() as double:
        double.answers.append(Answer(201, group()))
        ended = await mqservice("group", "create", "billing", "-n", "acme", *options, double=double)
        assert (ended.code, ended.line) == (0, "group billing was created")
        (request,) = double.requests
        assert (request.method, request.path) == ("PUT", "/v1/ns/acme/groups/billing")
        assert msgspec.json.decode(request.body) == settings


async def test_update_changes_a_group_that_exists_and_makes_none() -> None:
    async with service_double() as double:
        double.answers.extend([Answer(200, group()), Answer(200, group())])
        ended = await mqservice("group", "update", "billing", "--lease", "5m", double=double)
        assert (ended.code, ended.line) == (0, "group billing was changed")
        assert [request.method for request in double.requests] == ["GET", "PUT"]
        double.answers.append(problem(404, "GROUP_NOT_FOUND"))
        refused = await mqservice("group", "update", "none", "--lease", "5m", double=double)
        assert refused.code == 1
        assert "GROUP_NOT_FOUND" in refused.line
        assert len(double.requests) == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("update", "billing"),
        ("create", "billing", "--max-attempts", "many"),
        ("create", "billing", "--dispatch", "private"),
        ("create", "billing", "--consumer", "w1"),
        ("create", "billing", "--consumer", "=1"),
        ("create", "billing", "--consumer", "w1=0,x"),
        ("create", "billing", "--room", "east=0", "--room", "east=1"),
    ],
)
async def test_what_makes_no_sense_is_refused_before_anything_is_sent(
    arguments: tuple[str, ...],
) -> None:
    async with service_double() as double:
        ended = await mqservice("group", *arguments, double=double)
        assert ended.code == 2
        assert double.requests == []


async def test_every_fault_that_the_service_names_is_reported() -> None:
    async with service_double() as double:
        errors = [
            {"pointer": "/lease", "code": "BAD_REQUEST", "detail": "is not a duration"},
            {"pointer": "/max_attempts", "code": "ILLEGAL_SETTING", "detail": "too many"},
        ]
        double.answers.append(problem(400, "BAD_REQUEST", errors=errors))
        ended = await mqservice("group", "create", "g", "--lease", "x", double=double)
        assert ended.code == 1
        assert "/lease is not a duration" in ended.line
        assert "/max_attempts too many" in ended.line


async def test_show_and_list() -> None:
    listed = group("listed", retry={"policy": "list", "delays": ["10s", "1m"]}, max_attempts=None)
    growing = {"policy": "exponential", "start": "5s", "factor": 2.0, "cap": "2h"}
    paused = group("paused", retry=growing, paused=True, lag={"total": 7, "queues": []})
    paused |= {"dispatch": "exclusive", "strategy": "CONFIG", "ordered": True}
    paused["assignment"] = {"consumers": {"w1": [0, 3]}}
    async with service_double() as double:
        double.answers.append(Answer(200, paused))
        shown = (await mqservice("group", "show", "paused", double=double)).out.decode()
        assert all(text in shown for text in ("paused", "5s × 2, at most 2h", "7"))
        assert all(text in shown for text in ("exclusive, CONFIG, ordered", "{'w1': [0, 3]}"))
        double.answers.append(Answer(200, paused))
        content = (await mqservice("group", "show", "paused", "-o", "ndjson", double=double)).out
        assert msgspec.json.decode(content)["retry"] == growing
        pages = [
            Answer(200, {"groups": [listed], "next": "listed"}),
            Answer(200, {"groups": [paused], "next": None}),
        ]
        double.answers.extend(pages * 2)
        table = (await mqservice("group", "list", double=double)).out.decode()
        assert all(text in table for text in ("listed", "paused"))
        lines = (await mqservice("group", "list", "-o", "ndjson", double=double)).out.splitlines()
        assert [msgspec.json.decode(line)["name"] for line in lines] == ["listed", "paused"]
        assert double.requests[-1].query == "after=listed"


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_pause_and_resume(verb: str) -> None:
    async with service_double() as double:
        double.answers.append(Answer(200, group(paused=verb == "pause")))
        ended = await mqservice("group", verb, "billing", double=double)
        assert ended.code == 0
        (request,) = double.requests
        assert (request.method, request.path) == ("POST", f"/v1/ns/-/groups/billing:{verb}")


@pytest.mark.parametrize("kind", ["group", "topic"])
async def test_delete_asks_first(kind: str) -> None:
    async with service_double() as double:
        declined = await mqservice(kind, "delete", "billing", double=double, stdin=b"n\n")
        assert (declined.code, double.requests) == (1, [])
        for arguments, stdin in ((("--yes",), b""), ((), b"y\n")):
            double.answers.append(Answer(204, {}))
            ended = await mqservice(
                kind, "delete", "billing", *arguments, double=double, stdin=stdin
            )
            assert ended.code == 0
            assert f"{kind} billing was deleted" in ended.err
            request = double.requests[-1]
            assert (request.method, request.path) == ("DELETE", f"/v1/ns/-/{kind}s/billing")
