"""``mqservice issue``: what is asked, what is shown, and exit codes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, problem, service_double

Json = dict[str, Any]  # Any: documents as the API writes them
AT = "2026-12-01T08:00:00.000Z"


def issue(issue_id: str, **fields: object) -> Json:
    return {
        "id": issue_id, "namespace": "acme", "kind": "dead_letter", "group": "billing",
        "topic": "orders", "reason": "no stock of <text>", "state": "open", "count": 1_234,
        "first_seen": AT, "last_seen": AT, "reopened": 0, "changed_at": AT, "changed_by": None,
        **fields,
    }  # fmt: skip


def page(*issues: Json, **fields: object) -> Json:
    return {
        "issues": list(issues), "next": None, "open": 1, "others": 0, "unseen": 0,
        "resolve_after": "7d", **fields,
    }  # fmt: skip


async def test_list_shows_causes_and_says_what_is_in_none() -> None:
    async with service_double() as double:
        found = [issue("iss_1"), issue("iss_2", reason=None), issue("iss_3", reason="a\x1bb")]
        answer = Answer(200, page(*found, others=12, unseen=3, next="iss_3"))
        double.answers += [answer, answer]
        options = ("--state", "open", "-g", "billing", "--topic", "orders", "-c", "3")
        shown = await mqservice("issue", "list", *options, double=double)
        text = shown.out.decode()
        for part in ("iss_1", "no stock", "<text>", "1,234", "(not for"):
            assert part in text
        assert "\x1b" not in text
        assert "more than these 3" in shown.err
        assert "12 dead letters with other reasons" in shown.err
        assert "3 dead letters expired" in shown.err
        as_json = await mqservice("issue", "list", "-o", "ndjson", double=double)
        assert [msgspec.json.decode(line) for line in as_json.out.splitlines()] == found
        first, second = double.requests
        assert first.path == "/v1/ns/-/issues"
        assert second.path == "/v1/ns/-/issues"


async def test_show_has_messages_and_history() -> None:
    async with service_double() as double:
        event = {"number": 1, "state": "open", "why": "first", "at": AT, "by": None}
        whole = issue(
            "iss_1", sample="no stock of 'x'", hours=[], messages=[{"id": "AB12", "at": AT}],
            history=[event | {"state": "ignored", "why": "by_hand", "by": "user:a"}, event],
        )  # fmt: skip
        double.answers += [Answer(200, whole)] * 2
        text = (await mqservice("issue", "show", "iss_1", double=double)).out.decode()
        for part in ("AB12", "no stock of 'x'", "ignored, user:a", "open, first"):
            assert part in text
        as_json = await mqservice("issue", "show", "iss_1", "-o", "ndjson", double=double)
        assert msgspec.json.decode(as_json.out) == whole


@pytest.mark.parametrize("verb", ["acknowledge", "resolve", "ignore", "reopen"])
async def test_verbs_say_how_the_issue_is_now(verb: str) -> None:
    async with service_double() as double:
        double.answers.append(Answer(200, issue("iss_1", state="resolved")))
        ended = await mqservice("issue", verb, "iss_1", double=double)
        assert (ended.code, ended.out) == (0, b"")
        assert "issue iss_1 is resolved" in ended.err
        [request] = double.requests
        assert (request.method, request.path) == ("POST", f"/v1/ns/-/issues/iss_1:{verb}")


async def test_an_issue_that_is_not_there_is_reported() -> None:
    async with service_double() as double:
        double.answers.append(problem(404, "ISSUE_NOT_FOUND"))
        ended = await mqservice("issue", "resolve", "iss_1", double=double)
        assert ended.code != 0
        assert "ISSUE_NOT_FOUND" in ended.err
