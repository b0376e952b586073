"""``mqservice schedule``: what is asked, what is shown, and exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, problem, service_double

Json = dict[str, Any]  # Any: documents as the API writes them
AT = "2026-12-01T08:00:00.000Z"
NIGHTLY = "/v1/ns/-/schedules/nightly"


def schedule(name: str, **fields: object) -> Json:
    return {
        "name": name, "namespace": "acme", "topic": "orders", "cron": "0 9 * * *",
        "time_zone": "Europe/Berlin", "state": "active", "error": None, "last_run": None,
        "next_run_at": AT, "next_runs": None, **fields,
    }  # fmt: skip


async def test_list_goes_through_all_pages() -> None:
    async with service_double() as double:
        first = [schedule("calm"), schedule("bad", state="failing", error="no\x1b topic")]
        last = [schedule("late", last_run={"planned_at": AT, "message_id": "01"})]
        pages = [
            Answer(200, {"schedules": first, "next": "bad"}),
            Answer(200, {"schedules": last, "next": None}),
        ]
        double.answers += pages * 2
        shown = await mqservice("schedule", "list", double=double)
        text = shown.out.decode()
        assert [name in text for name in ("calm", "bad", "late")] == [True] * 3
        assert "failing" in text
        assert "\x1b" not in text
        as_json = await mqservice("schedule", "list", "-o", "ndjson", double=double)
        assert [msgspec.json.decode(line) for line in as_json.out.splitlines()] == first + last
        assert {request.path for request in double.requests} == {"/v1/ns/-/schedules"}


@pytest.mark.parametrize(
    ("options", "change"),
    [
        (
            ("hello", "--topic", "orders", "--cron", "@daily", "--time-zone", "Asia/Shanghai"),
            {
                "topic": "orders", "cron": "@daily", "time_zone": "Asia/Shanghai",
                "message": {"body": "hello"},
            },
        ),
        (
            ("x", "--tag", "t", "-k", "a", "-k", "b", "-p", "n=v=w", "--queue", "0"),
            {
                "message": {
                    "body": "x", "tag": "t", "keys": ["a", "b"], "properties": {"n": "v=w"},
                    "queue": 0,
                },
            },
        ),
        (("--catch-up", "none", "--description", ""), {"catch_up": "none", "description": None}),
        ((), {}),
    ],
)  # fmt: skip
async def test_set_sends_what_was_given_and_nothing_else(
    options: tuple[str, ...], change: Json
) -> None:
    async with service_double() as double:
        double.answers.append(Answer(200, schedule("nightly")))
        ended = await mqservice("schedule", "set", "nightly", *options, double=double)
        assert (ended.code, ended.out) == (0, b""), ended.err
        assert "nightly is active, next run at 2026-12-01" in ended.err
        (request,) = double.requests
        assert (request.method, request.path) == ("PUT", NIGHTLY)
        assert msgspec.json.decode(request.body) == change


async def test_a_file_is_a_body_as_text_or_as_bytes(tmp_path: Path) -> None:
    file = tmp_path / "body"
    for content, message in ((b"a text", {"body": "a text"}), (b"\xff", {"body_b64": "/w=="})):
        file.write_bytes(content)
        async with service_double() as double:
            double.answers.append(Answer(200, schedule("nightly")))
            await mqservice("schedule", "set", "nightly", "-f", str(file), double=double)
            assert msgspec.json.decode(double.requests[0].body) == {"message": message}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--tag", "t"), "give its body as well"),
        (("x", "-f", "y"), "not both"),
        (("-f", "/no/such/file"), "cannot read /no/such/file: no such file"),
        (("x", "-p", "name"), "NAME=VALUE"),
        (("x", "-p", "name=1", "-p", "name=2"), "given twice"),
    ],
)
async def test_what_makes_no_sense_is_refused_before_anything_is_asked(
    options: tuple[str, ...], why: str
) -> None:
    async with service_double() as double:
        ended = await mqservice("schedule", "set", "nightly", *options, double=double)
        assert ended.code == 2
        assert why in ended.err
        assert double.requests == []


async def test_next_and_show_as_table_and_as_json() -> None:
    async with service_double() as double:
        double.answers += [
            Answer(200, {"next_runs": [AT]}),
            Answer(200, schedule("nightly", next_runs=[AT, AT], error=None)),
        ]
        shown = await mqservice("schedule", "next", "@daily", "-o", "json", double=double)
        assert msgspec.json.decode(shown.out) == {"next_runs": [AT]}
        shown = await mqservice("schedule", "show", "nightly", double=double)
        lines = shown.out.decode().splitlines()
        assert ["name", "nightly"] in [line.split() for line in lines]
        at = next(number for number, line in enumerate(lines) if line.startswith("next runs"))
        assert [line.split()[-1] for line in lines[at : at + 2]] == [AT, AT]


async def test_next_show_pause_resume_send_and_delete() -> None:
    async with service_double() as double:
        paused = schedule("nightly", state="paused", next_run_at=None)
        double.answers += [
            Answer(200, {"next_runs": [AT, AT]}),
            Answer(200, schedule("nightly")),
            Answer(200, paused),
            Answer(200, schedule("nightly")),
            Answer(200, {"id": "01AB", "topic": "orders", "queue": 0, "offset": 1}),
            Answer(204, None),
        ]
        zone = ("--time-zone", "Asia/Shanghai")
        shown = await mqservice("schedule", "next", "@daily", *zone, double=double)
        assert shown.out.decode().split() == [AT, AT]
        shown = await mqservice("schedule", "show", "nightly", "-o", "ndjson", double=double)
        assert msgspec.json.decode(shown.out) == schedule("nightly")
        told = [
            await mqservice("schedule", verb, "nightly", double=double)
            for verb in ("pause", "resume")
        ]
        assert "nightly is paused\n" in told[0].err
        assert "nightly is active" in told[1].err
        sent = await mqservice("schedule", "send", "nightly", double=double)
        assert sent.out == b"01AB\n"
        gone = await mqservice("schedule", "delete", "nightly", "--yes", double=double)
        assert gone.code == 0
        asked = [(request.method, request.path) for request in double.requests]
        assert asked == [
            ("POST", "/v1/ns/-/schedules:preview"), ("GET", NIGHTLY), ("POST", f"{NIGHTLY}:pause"),
            ("POST", f"{NIGHTLY}:resume"), ("POST", f"{NIGHTLY}:send"), ("DELETE", NIGHTLY),
        ]  # fmt: skip
        wanted = {"cron": "@daily", "time_zone": "Asia/Shanghai"}
        assert msgspec.json.decode(double.requests[0].body) == wanted


async def test_a_refusal_is_reported_and_ends_with_1() -> None:
    async with service_double() as double:
        double.answers.append(problem(400, "ILLEGAL_SETTING", detail="/cron: never fires"))
        ended = await mqservice("schedule", "next", "0 0 31 2 *", double=double)
        assert ended.code == 1
        assert "never fires" in ended.err
