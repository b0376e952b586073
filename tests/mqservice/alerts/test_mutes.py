"""Mutes: who may, how long, that nobody is told meanwhile, and that nothing is missed then."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.test import Client

from mqservice.accounts.models import AuditEntry
from mqservice.alerts.evaluation import evaluate
from mqservice.alerts.limits import MUTE_MS_MAX
from mqservice.alerts.models import AlertRule, Notification
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import DAY_MS, HOUR_MS
from mqservice.lib.timestamps import parse_rfc3339, rfc3339
from mqservice.sampling.limits import SAMPLE_MS
from tests.mqservice.alerts.conftest import NOW_MS, Measured, Rule
from tests.people import People

PATH = "/v1/ns/acme/alerts/slow"


def post(client: Client, verb: str, body: object = None) -> Any:  # Any: the client's response
    content = b"" if body is None else msgspec.json.encode(body)
    return client.post(f"{PATH}:{verb}", data=content, content_type="application/json")


def told() -> list[tuple[int, str]]:
    rows = Notification.objects.order_by("event__number")
    return list(rows.values_list("event__number", "event__state"))


def looked(rule: AlertRule, measured: Measured, *lags: int, first: int = 0) -> None:
    for index, lag in enumerate(lags, first):
        measured(NOW_MS + index * SAMPLE_MS, lag_last=lag)
        evaluate(NOW_MS + index * SAMPLE_MS)
    rule.refresh_from_db()


def test_a_mute_says_until_when_and_who_and_why(acme: Client, people: People, rule: Rule) -> None:
    rule()
    before_ms = SystemClock().now_ms()
    muted = post(acme, "mute", {"for": "1h", "reason": "deploy"}).json()
    assert before_ms <= parse_rfc3339(muted["muted_until"]) - HOUR_MS <= SystemClock().now_ms()
    assert muted["muted_by"].startswith("key:")
    assert acme.get(PATH).json() == muted
    until = rfc3339(before_ms + DAY_MS)
    assert post(acme, "mute", {"until": until}).json()["muted_until"] == until
    ended = post(acme, "unmute").json()
    assert (ended["muted_until"], ended["muted_by"], ended["mute_reason"]) == (None, None, None)
    assert post(acme, "unmute").status_code == 200
    entries = AuditEntry.objects.filter(target="alerts/slow").order_by("id")
    assert [entry.action for entry in entries] == ["alert.mute", "alert.mute", "alert.unmute"]
    assert entries[0].details == {"until": muted["muted_until"], "reason": "deploy"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "BAD_REQUEST"),
        ({"for": "1h", "until": "2026-12-01T08:00:00.000Z"}, "BAD_REQUEST"),
        ({"for": "1h", "for_ms": 3_600_000}, "BAD_REQUEST"),
        ({"for": "59s"}, "ILLEGAL_SETTING"),
        ({"for": "31d"}, "ILLEGAL_SETTING"),
        ({"for": -1}, "BAD_REQUEST"),
        ({"until": "2020-01-01T00:00:00.000Z"}, "ILLEGAL_SETTING"),
        ({"until": "9999-01-01T00:00:00.000Z"}, "ILLEGAL_SETTING"),
        ({"until": "tomorrow"}, "BAD_REQUEST"),
        ({"for": "1h", "reason": "x" * 201}, "BAD_REQUEST"),
        ({"for": "1h", "reason": "\0"}, "BAD_REQUEST"),
        ({"for": "1h", "who": "me"}, "BAD_REQUEST"),
        ([], "BAD_REQUEST"),
    ],
)
def test_a_mute_that_cannot_be_is_refused(
    acme: Client, rule: Rule, body: object, code: str
) -> None:
    made = rule()
    refused = post(acme, "mute", body)
    assert (refused.status_code, refused.json()["code"]) == (400, code)
    made.refresh_from_db()
    assert made.muted_until_ms == 0
    assert not AuditEntry.objects.filter(action="alert.mute").exists()


def test_a_rule_that_is_not_there_cannot_be_muted(acme: Client) -> None:
    for verb, body in (("mute", {"for": "1h"}), ("unmute", None)):
        refused = post(acme, verb, body)
        assert (refused.status_code, refused.json()["code"]) == (404, "ALERT_NOT_FOUND")


def test_while_muted_changes_are_written_down_and_nobody_is_notified(
    rule: Rule, measured: Measured
) -> None:
    slow = rule(emails=["a@x.example"], muted_until_ms=NOW_MS + HOUR_MS, muted_by="user:alice")
    looked(slow, measured, 100, 20, 100)
    assert [event.state for event in slow.events.order_by("number")] == ["firing", "ok", "firing"]
    assert told() == []
    assert slow.muted_by == "user:alice"


def test_at_the_end_whoever_knows_another_state_is_notified(rule: Rule, measured: Measured) -> None:
    slow = rule(emails=["a@x.example"], muted_until_ms=NOW_MS + 2 * SAMPLE_MS, muted_by="user:a")
    looked(slow, measured, 100, 100, 100, 100)
    assert told() == [(1, "firing")]
    assert (slow.muted_until_ms, slow.muted_by) == (0, "")
    slow.muted_until_ms = NOW_MS + 6 * SAMPLE_MS
    slow.save()
    looked(slow, measured, 20, 100, 20, 20, first=4)  # what was missed came to: it is over
    assert told() == [(1, "firing"), (4, "ok")]


def test_what_came_and_went_while_it_was_muted_is_not_reported(
    rule: Rule, measured: Measured
) -> None:
    slow = rule(emails=["a@x.example"], muted_until_ms=NOW_MS + 2 * SAMPLE_MS)
    looked(slow, measured, 100, 20, 20, 20)
    assert slow.change_count == 2
    assert told() == []


def test_a_rule_switched_off_and_on_again_tells_that_it_fires(
    acme: Client, rule: Rule, measured: Measured
) -> None:
    slow = rule(emails=["a@x.example"])
    looked(slow, measured, 100)
    for is_enabled in (False, True):
        answer = acme.put(PATH, {"enabled": is_enabled}, content_type="application/json")
        assert answer.status_code == 200
    looked(slow, measured, 100, first=1)
    assert told() == [(1, "firing"), (3, "firing")]


def test_a_clock_that_was_set_back_mutes_nobody_for_years(rule: Rule, measured: Measured) -> None:
    slow = rule(emails=["a@x.example"], muted_until_ms=NOW_MS + MUTE_MS_MAX + 1)
    looked(slow, measured, 100)
    assert slow.muted_until_ms == 0
    assert told() == [(1, "firing")]
