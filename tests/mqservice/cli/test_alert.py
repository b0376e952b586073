"""``mqservice alert``: what is asked, what is shown, and exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, problem, service_double

Json = dict[str, Any]  # Any: documents as the API writes them
AT = "2026-12-01T08:00:00.000Z"


def rule(name: str, **fields: object) -> Json:
    return {
        "name": name, "namespace": "acme", "kind": "lag", "group": "billing", "topic": None,
        "threshold": 10_000, "enabled": True, "state": "ok", "pending": False, "value": 12,
        "changed_at": AT, "webhook_secret": None, **fields,
    }  # fmt: skip


async def test_list_shows_how_each_rule_stands() -> None:
    async with service_double() as double:
        alerts = [
            rule("calm"),
            rule("soon", pending=True, value=20_000),
            rule("loud", state="firing", value=None),
            rule("mute", enabled=False, group="a\x1bb"),
        ]
        double.answers += [Answer(200, {"alerts": alerts})] * 2
        shown = await mqservice("alert", "list", double=double)
        lines = shown.out.decode().splitlines()
        for name, state in (
            ("calm", "ok"), ("soon", "pending"), ("loud", "firing"), ("mute", "silenced"),
        ):  # fmt: skip
            assert [state in line for line in lines if name in line] == [True]
        assert "20,000" in shown.out.decode()
        assert "\x1b" not in shown.out.decode()
        as_json = await mqservice("alert", "list", "-o", "ndjson", double=double)
        assert [msgspec.json.decode(line) for line in as_json.out.splitlines()] == alerts
        assert {request.path for request in double.requests} == {"/v1/ns/-/alerts"}


@pytest.mark.parametrize(
    ("options", "change"),
    [
        (
            ("--kind", "lag", "-g", "billing", "--threshold", "5", "--for", "1m"),
            {"kind": "lag", "group": "billing", "threshold": 5, "for": "1m"},
        ),
        (("--topic", "", "--webhook", ""), {"topic": None, "webhook": None}),
        (("--silenced",), {"enabled": False}),
        (("--enabled", "--email", "a@b.c", "--email", "d@e.f"), {
            "enabled": True, "emails": ["a@b.c", "d@e.f"],
        }),
        ((), {}),
    ],
)  # fmt: skip
async def test_set_sends_what_was_given_and_nothing_else(
    options: tuple[str, ...], change: Json
) -> None:
    async with service_double() as double:
        double.answers.append(Answer(200, rule("slow orders")))
        ended = await mqservice("alert", "set", "slow orders", *options, double=double)
        assert (ended.code, ended.out) == (0, b"")
        (request,) = double.requests
        assert (request.method, request.path) == ("PUT", "/v1/ns/-/alerts/slow orders")
        assert msgspec.json.decode(request.body) == change


async def test_the_secret_of_a_new_webhook_is_all_that_stdout_gets() -> None:
    async with service_double() as double:
        double.answers.append(Answer(201, rule("w", webhook_secret="whs_1")))
        ended = await mqservice("alert", "set", "w", "--webhook", "https://a.b", double=double)
        assert ended.out == b"whs_1\n"
        assert "only once" in ended.err


async def test_history_shows_who_was_notified() -> None:
    async with service_double() as double:
        told = {"channel": "webhook", "target": "https://a.b", "state": "failed", "attempts": 8}
        event = {"id": "evt_1", "number": 3, "state": "firing", "at": AT, "value": None,
                 "threshold": 5, "notifications": [told]}  # fmt: skip
        double.answers += [Answer(200, {"events": [event], "next": 3})] * 2
        shown = await mqservice("alert", "history", "w", "--limit", "1", double=double)
        assert "https://a.b: failed" in " ".join(shown.out.decode().split())
        assert "more than these 1" in shown.line
        as_json = await mqservice("alert", "history", "w", "-o", "ndjson", double=double)
        assert msgspec.json.decode(as_json.out) == event
        assert [request.query for request in double.requests] == ["limit=1", "limit=32"]


async def test_test_says_how_many_are_on_the_way() -> None:
    told = {"channel": "webhook", "target": "https://a.b", "state": "pending"}
    event = {"at": AT, "state": "test", "value": None, "notifications": [told]}
    async with service_double() as double:
        double.answers += [Answer(202, event)]
        ended = await mqservice("alert", "test", "w", double=double)
        assert ended.line.startswith("1 test notification is on the way")
        [request] = double.requests
        assert (request.method, request.path) == ("POST", "/v1/ns/-/alerts/w:test")


async def test_mute_says_until_when() -> None:
    async with service_double() as double:
        double.answers += [Answer(200, rule("w", muted_until=AT)), Answer(200, rule("w"))]
        muted = await mqservice(
            *("alert", "mute", "w", "--for", "1h", "--reason", "deploy"), double=double
        )
        assert muted.line.endswith(f"muted until {AT}")
        ended = await mqservice("alert", "unmute", "w", double=double)
        assert "muted" not in ended.line
        mute, unmute = double.requests
        assert (mute.path, unmute.path) == ("/v1/ns/-/alerts/w:mute", "/v1/ns/-/alerts/w:unmute")
        assert msgspec.json.decode(mute.body) == {"for": "1h", "reason": "deploy"}


async def test_delete_asks_first_and_tells_a_refusal() -> None:
    async with service_double() as double:
        declined = await mqservice("alert", "delete", "w", double=double, stdin=b"n\n")
        assert (declined.code, double.requests) == (1, [])
        double.answers += [Answer(204, None), problem(404, "ALERT_NOT_FOUND", detail="no w")]
        deleted = await mqservice("alert", "delete", "w", "--yes", double=double)
        absent = await mqservice("alert", "delete", "w", "--yes", double=double)
        assert (deleted.code, deleted.line) == (0, "alert w was deleted")
        assert absent.code == 1
        assert "ALERT_NOT_FOUND" in absent.line
        assert [request.method for request in double.requests] == ["DELETE", "DELETE"]


async def test_export_hands_the_file_over_as_it_is(tmp_path: Path) -> None:
    async with service_double() as double:
        double.answers += [Answer(200, "groups"), Answer(200, "groups")]
        shown = await mqservice("alert", "export", double=double)
        assert (shown.code, shown.out) == (0, b'"groups"')
        file = tmp_path / "alerts.yaml"
        assert (await mqservice("alert", "export", "-f", str(file), double=double)).code == 0
        assert file.read_bytes() == b'"groups"'
        assert {each.path for each in double.requests} == {"/v1/ns/-/alerts.yaml"}
