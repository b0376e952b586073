"""``mqservice group`` against a service that does what the test tells it."""

from __future__ import annotations

import msgspec
import pytest

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, Json, problem, service_double


def sought(*, is_dry_run: bool, **fields: object) -> Answer:
    queue = {
        "queue": 1, "min_offset": 2, "max_offset": 9, "from_offset": 7, "to_offset": 3,
        "skipped": 0, "replayed": 4, "inflight": 2,
    }  # fmt: skip
    body: Json = {
        "group": "billing", "topic": "orders", "dry_run": is_dry_run, "skipped": 0, "replayed": 4,
        "retry": {"waiting": 5, "scheduled": None}, "queues": [queue | fields],
    }  # fmt: skip
    return Answer(200, body)


async def test_seek_shows_what_it_would_do_and_asks_first() -> None:
    async with service_double() as double:
        double.answers += [sought(is_dry_run=True), sought(is_dry_run=False)]
        ended = await mqservice(
            *("group", "seek", "billing", "orders", "--to", "3", "--queue", "1"),
            double=double,
            stdin=b"y\n",
        )
        assert (ended.code, ended.out) == (0, b"")
        for shown in (
            "[2, 9)",
            "Move the group there?",
            "5 are waiting for a retry, ? are due later",
        ):
            assert shown in ended.err
        assert "group billing was moved: 0 skipped, 4 replayed" in ended.err
        assert {(each.method, each.path) for each in double.requests} == {
            ("POST", "/v1/ns/-/groups/billing:seek")
        }
        assert [msgspec.json.decode(each.body) for each in double.requests] == [
            {"topic": "orders", "to": {"offset": 3, "queue": 1}, "dry_run": is_dry_run}
            for is_dry_run in (True, False)
        ]


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b""])
async def test_a_seek_that_is_not_confirmed_changes_nothing(answer: bytes) -> None:
    async with service_double() as double:
        double.answers += [sought(is_dry_run=True, from_offset=None, skipped=None, replayed=None)]
        ended = await mqservice(
            *("group", "seek", "billing", "orders", "--to", "earliest"), double=double, stdin=answer
        )
        assert ended.code == 1
        assert len(double.requests) == 1


async def test_a_sure_seek_does_not_ask_and_a_dry_run_only_shows() -> None:
    async with service_double() as double:
        double.answers += [sought(is_dry_run=flag) for flag in (True, False, True)]
        time = "2026-11-21T09:00:00Z"
        seek = ("group", "seek", "billing", "orders", "--to", time, "--queue", "0", "--queue", "1")
        sure = await mqservice(*seek, "--yes", double=double)
        dry = await mqservice(*seek, "--dry-run", double=double)
        assert (sure.code, dry.code) == (0, 0)
        asked = [msgspec.json.decode(each.body) for each in double.requests]
        assert [each["dry_run"] for each in asked] == [True, False, True]
        assert {(each["to"]["time"], *each["queues"]) for each in asked} == {(time, 0, 1)}


@pytest.mark.parametrize("shift", ["-100", "+100"])
async def test_a_sign_makes_a_shift_of_a_number(shift: str) -> None:
    async with service_double() as double:
        double.answers.append(sought(is_dry_run=True))
        seek = ("group", "seek", "billing", "orders", "--to", shift, "--dry-run")
        assert (await mqservice(*seek, double=double)).code == 0
        (asked,) = [msgspec.json.decode(each.body) for each in double.requests]
        assert asked["to"] == {"shift": int(shift)}


async def test_an_offset_without_its_queue_is_refused_before_anything_is_asked() -> None:
    async with service_double() as double:
        for queues in ((), ("--queue", "0", "--queue", "1")):
            ended = await mqservice(
                *("group", "seek", "billing", "orders", "--to", "3", *queues), double=double
            )
            assert ended.code == 2
            assert "--queue" in ended.line
        assert double.requests == []


async def test_lag_shows_what_is_unknown_as_unknown() -> None:
    queue = {
        "queue": 0, "consumer_offset": 3, "max_offset": 9, "offset_lag": 6, "lag_ms": 12_340,
        "ready": 4, "inflight": 2, "oldest_stored_at": "2026-11-21T09:00:00.000Z",
    }  # fmt: skip
    known: Json = {
        "topic": "orders", "lag": 14, "lag_is": "estimated", "lag_ms": 12_340, "ready": 4,
        "inflight": 2, "waiting_retry": 8, "retry": {"waiting": 1, "scheduled": 7},
        "offset_lag": 6, "queues": [queue],
    }  # fmt: skip
    unknown: Json = {
        "topic": "new", "lag": None, "lag_is": None, "lag_ms": None, "ready": None,
        "inflight": None, "waiting_retry": None, "offset_lag": None,
        "retry": {"waiting": None, "scheduled": None}, "queues": [],
    }  # fmt: skip
    async with service_double() as double:
        body = {"group": "billing", "topics": [known, unknown]}
        double.answers += [
            Answer(200, body),
            Answer(200, body),
            Answer(200, {**body, "topics": []}),
        ]
        ended = await mqservice("group", "lag", "billing", "--topic", "a&b", double=double)
        assert (ended.code, "12.3 s" in ended.out.decode()) == (0, True)
        assert "orders: lag about 14; 1 are waiting for a retry, 7 are due later" in ended.err
        assert "new: lag ?; ? are waiting for a retry, ? are due later" in ended.err
        assert (double.requests[0].path, double.requests[0].query) == (
            "/v1/ns/-/groups/billing/lag",
            "topic=a%26b",
        )
        lines = (await mqservice("group", "lag", "billing", "-o", "ndjson", double=double)).out
        topics = [msgspec.json.decode(line) for line in lines.splitlines()]
        assert [topic["lag"] for topic in topics] == [14, None]
        assert "unknown" in (await mqservice("group", "lag", "billing", double=double)).line


async def test_a_refusal_is_reported_with_its_places() -> None:
    async with service_double() as double:
        items = [{"pointer": "/to/offset", "code": "BAD_REQUEST", "detail": "not in [0, 5]"}]
        double.answers += [problem(400, "BAD_REQUEST", errors=items)]
        ended = await mqservice(
            *("group", "seek", "billing", "orders", "--to", "9", "--queue", "0"), double=double
        )
        assert ended.code != 0
        assert "/to/offset not in [0, 5]" in ended.line


async def test_seek_and_lag_may_be_of_one_client() -> None:
    client = {
        "client_id": "10.0.0.7@4711", "lag": 3, "ready": 2, "inflight": 1, "dropped": 4,
        "seen_at": "2026-11-21T09:00:00.000Z",
    }  # fmt: skip
    body: Json = {"group": "news", "topics": [], "clients": {"total": 9, "clients": [client]}}
    async with service_double() as double:
        double.answers += [sought(is_dry_run=True), Answer(200, body)]
        await mqservice(
            *("group", "seek", "news", "orders", "--to", "earliest", "--dry-run"),
            *("--client-id", "a#1"),
            double=double,
        )
        assert msgspec.json.decode(double.requests[0].body)["client_id"] == "a#1"
        ended = await mqservice("group", "lag", "news", "--client-id", "a#1", double=double)
        assert double.requests[1].query == "client_id=a%231"
        assert "10.0.0.7@4711" in ended.out.decode()
        assert "1 of 9 clients" in ended.err


async def test_health_shows_each_group_and_what_nobody_knows() -> None:
    stalled = {
        "group": "billing", "health": "falling_behind", "at": "2026-11-21T09:00:00Z", "lag": 7,
        "lag_ms": 61_500, "inflight": 1, "waiting_retry": 0, "members": 2,
    }  # fmt: skip
    unknown = dict.fromkeys(stalled) | {"group": "mail", "health": "unknown"}
    async with service_double() as double:
        double.answers += [Answer(200, {"groups": [stalled, unknown]})] * 2
        table = await mqservice("group", "health", double=double)
        lines = await mqservice("group", "health", "billing", "-o", "ndjson", double=double)
        rows = [line.split() for line in table.out.decode().splitlines()[1:]]
        assert rows == [
            ["billing", "falling", "behind", "7", "61.5", "s", "1", "2"],
            ["mail", "unknown", "?", "-", "?", "?"],
        ]
        assert [msgspec.json.decode(line) for line in lines.out.splitlines()] == [stalled, unknown]
        assert [(each.path, each.query) for each in double.requests] == [
            ("/v1/ns/-/health", ""), ("/v1/ns/-/health", "group=billing"),
        ]  # fmt: skip
