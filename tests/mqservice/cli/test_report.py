"""``mqservice report``: what is asked, shown, and exit codes."""

from __future__ import annotations

import os
from pathlib import Path
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


async def test_days_that_are_refused_are_reported() -> None:
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
        assert "there is no report of the last night: no java" in ended.err


async def test_a_report_is_downloaded_as_it_is(tmp_path: Path) -> None:
    async with service_double() as double:
        double.answers += [Answer(200, "a,b"), Answer(200, "<p>"), Answer(200, "x")]
        ended = await mqservice("report", "download", "dlq_daily", *DAYS, double=double)
        assert (ended.code, ended.out) == (0, b'"a,b"')
        file = tmp_path / "day.html"
        day = ("page", "--from", "2026-01-05", "--file", str(file))
        assert (await mqservice("report", "download", *day, double=double)).code == 0
        assert file.read_text() == '"<p>"'
        nowhere = ("usage_daily", "-f", str(tmp_path / "none" / "x.csv"))
        ended = await mqservice("report", "download", *nowhere, double=double)
        assert ended.code == 1
        assert "cannot write" in ended.err
        assert [(each.path, each.query) for each in double.requests] == [
            ("/v1/ns/-/reports/dlq_daily.csv", "from=2026-01-05&to=2026-01-07"),
            ("/v1/ns/-/reports/daily.html", "date=2026-01-05"),
            ("/v1/ns/-/reports/usage_daily.csv", ""),
        ]
        assert (await mqservice("report", "download", "page", *DAYS, double=double)).code == 2
        assert os.listdir(tmp_path) == [file.name]


async def test_a_download_that_is_refused_leaves_no_file(tmp_path: Path) -> None:
    async with service_double() as double:
        double.answers.append(problem(404, "REPORT_NOT_FOUND", detail="there is no report x"))
        file = tmp_path / "x.csv"
        ended = await mqservice("report", "download", "x", "-f", str(file), double=double)
        assert ended.code != 0
        assert "there is no report x" in ended.err
        assert not file.exists()


async def test_recipients_are_shown_named_and_reset() -> None:
    async with service_double() as double:
        found = {"emails": ["a@x.example"], "are_owners": True, "is_mail_on": False}
        double.answers += [Answer(200, found)] * 4
        shown = await mqservice("report", "recipients", double=double)
        assert (shown.code, shown.out.decode()) == (0, "a@x.example\n")
        assert "owners" in shown.err
        assert "MQ_EMAIL_URL" in shown.err
        for arguments in (("a@x.example", "b@x.example"), ("--owners",), ("--nobody",)):
            assert (await mqservice("report", "recipients", *arguments, double=double)).code == 0
        orders = [msgspec.json.decode(each.body)["emails"] for each in double.requests[1:]]
        assert orders == [["a@x.example", "b@x.example"], None, []]
        both = await mqservice("report", "recipients", "--owners", "--nobody", double=double)
        assert both.code == 2
