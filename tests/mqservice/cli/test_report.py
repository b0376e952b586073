"""``mqservice report``: what is asked, shown, and exit codes."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, problem, service_double

DAYS = ("--from", "2026-01-05", "--to", "2026-01-07")


def run_of(state: str, **fields: object) -> dict[str, Any]:  # Any: a document of the API
    return {
        "id": "run_1", "state": state, "step": "", "done": 0, "total": 8, "attempts": 1,
        "complete": True, "error": None, **fields,
    }  # fmt: skip


async def test_run_orders_days_and_waits_until_they_are_done() -> None:
    async with service_double() as double:
        running = run_of("running", step="dlq_daily", done=5)
        double.answers += [Answer(202, run_of("pending")), Answer(200, running)]
        double.answers.append(Answer(200, run_of("done", done=8)))
        ended = await mqservice("report", "run", *DAYS, "--wait", double=double)
        assert (ended.code, ended.out.decode()) == (0, "run_1\n")
        assert "running 5/8 dlq_daily" in ended.err
        assert [(each.method, each.path) for each in double.requests] == [
            ("POST", "/v1/ns/-/reports:run"),
            ("GET", "/v1/ns/-/reports/runs/run_1"),
            ("GET", "/v1/ns/-/reports/runs/run_1"),
        ]
        order = msgspec.json.decode(double.requests[0].body)
        assert order == {"from": "2026-01-05", "to": "2026-01-07"}


async def test_a_run_that_failed_says_why() -> None:
    async with service_double() as double:
        failed = run_of("failed", error="there is no java")
        double.answers += [Answer(202, run_of("pending")), Answer(200, failed)]
        ended = await mqservice("report", "run", *DAYS, "--wait", double=double)
        assert ended.code == 1
        assert "there is no java" in ended.err


async def test_days_that_are_refused_are_told() -> None:
    async with service_double() as double:
        double.answers.append(problem(400, "BAD_REQUEST", detail="/to: it is the day after"))
        ended = await mqservice("report", "run", *DAYS, double=double)
        assert ended.code != 0
        assert "it is the day after" in ended.err


async def test_list_says_what_there_is_and_why_the_last_night_has_none() -> None:
    async with service_double() as double:
        report = {
            "name": "dlq_daily", "title": "Dead letters", "from": "2026-01-05", "to": "2026-01-07",
            "days": 2, "columns": [],
        }  # fmt: skip
        answer = {"reports": [report], "at": "02:30", "zone": "UTC", "why_none": "no java"}
        double.answers.append(Answer(200, answer))
        ended = await mqservice("report", "list", double=double)
        assert ended.code == 0
        assert "dlq_daily" in ended.out.decode()
        assert "the last night has none: no java" in ended.err
