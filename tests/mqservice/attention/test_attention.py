"""What needs attention: which items there are, in which order, with which causes and actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from mqservice.accounts.models import Namespace
from mqservice.alerts.models import AlertEvent, AlertRule, Notification
from mqservice.attention import items as attention_items
from mqservice.issues.models import Issue
from mqservice.issues.recording import record_tallies
from mqservice.issues.tallies import Cause, Tally
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import DAY_MS, HOUR_MS, MINUTE_MS
from mqservice.quotas.levels import QuotaUse
from mqservice.schedules.models import Schedule
from tests.mqservice.sampling.test_group_health import (
    abandoned,
    flowing,
    make_group,
    slower_than_producers,
    stuck,
    write_samples,
)
from tests.people import People

PATH = "/v1/ns/acme/attention"


def letters(
    namespace: Namespace, group: str, reason: str, *, count: int, age_ms: int = MINUTE_MS
) -> Issue:
    now_ms = SystemClock().now_ms()
    at_ms = now_ms - age_ms
    one = Tally(count=count, first_ms=at_ms, last_ms=at_ms, sample=reason)
    one.hours[at_ms // HOUR_MS] = count
    record_tallies(namespace, group, {Cause("orders", reason): one}, now_ms)
    return Issue.objects.get(namespace=namespace, group_name=group, reason=reason)


def firing(namespace: Namespace, name: str, kind: str = "lag", **more: Any) -> AlertRule:
    """Any: fields of the rule."""
    given = {"threshold": 1_000, "state": "firing", "value": 2_000, **more}
    return AlertRule.objects.create(namespace=namespace, name=name, kind=kind, **given)


def schedule(namespace: Namespace, name: str, **more: Any) -> Schedule:
    """Any: as above."""
    given = {"topic": "gone", "cron": "0 * * * *", "body": b"{}", **more}
    return Schedule.objects.create(namespace=namespace, name=name, **given)


def notification(rule: AlertRule, number: int, state: str, **more: Any) -> None:
    """Any: as above."""
    now_ms = SystemClock().now_ms()
    event = AlertEvent.objects.create(
        rule=rule, number=number, state="firing", at_ms=now_ms - HOUR_MS + number, threshold=1
    )
    Notification.objects.create(
        event=event, channel="webhook", target="https://a", state=state, due_ms=now_ms, **more
    )


def groups(namespace: Namespace, **series: Any) -> None:
    """Any: a series of ``test_group_health``."""
    for name, each in series.items():
        make_group(namespace, name)
        write_samples(namespace, name, each, SystemClock().now_ms(), range(61))


def listed(acme: Client) -> list[dict[str, Any]]:
    """Any: JSON."""
    answer = acme.get(PATH)
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def kinds(acme: Client) -> list[tuple[str, str]]:
    return [(each["kind"], each["name"]) for each in listed(acme)]


def test_nothing_wrong_is_an_empty_list(people: People, acme: Client) -> None:
    groups(people.acme, billing=flowing)
    firing(people.acme, "quiet", state="ok")
    assert listed(acme) == []


def test_group_whose_consumers_are_just_restarted_is_left_out(people: People, acme: Client) -> None:
    groups(people.acme, billing=lambda back: {**abandoned(back), "lag_ms": 20_000})
    assert listed(acme) == []


def test_the_most_urgent_come_first_and_none_of_another_tenant(
    people: People, acme: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups(people.acme, fine=flowing, slow=slower_than_producers, stuck=stuck, left=abandoned)
    groups(people.rival, theirs=stuck)
    letters(people.acme, "mail", "no such host", count=3)
    letters(people.rival, "theirs", "secret", count=3)
    notification(firing(people.acme, "disk", "disk", value=91, threshold=90), 1, "failed")
    firing(people.rival, "their-disk", "disk")
    schedule(people.acme, "nightly")
    uses = [
        QuotaUse(name="storage_bytes_max", used=1_024, limit=1_024),
        QuotaUse(name="topic_count_max", used=9, limit=10),
        QuotaUse(name="group_count_max", used=1, limit=10),
    ]
    monkeypatch.setattr(attention_items, "quota_uses", lambda tenant_id: uses)
    assert kinds(acme) == [
        ("quota_full", "storage_bytes_max"),
        ("group_stalled", "stuck"),
        ("alert_firing", "disk"),
        ("group_no_members", "left"),
        ("dead_letters", "mail"),
        ("schedule_failing", "nightly"),
        ("notification_failing", "disk"),
        ("group_falling_behind", "slow"),
        ("quota_high", "topic_count_max"),
    ]


def test_stalled_group_has_its_cause_its_trend_and_its_alert(people: People, acme: Client) -> None:
    groups(people.acme, billing=stuck)
    firing(people.acme, "billing-behind", group_name="billing")
    firing(people.acme, "other-behind", group_name="other")
    stalled, other = listed(acme)
    assert stalled["cause"] == (
        "Nothing was settled for 5 minutes, and consumers take no messages: 2,000 messages wait, "
        "the oldest for 1h."
    )
    assert stalled["alerts"] == ["billing-behind"]
    assert len(stalled["trend"]) == 60
    assert [(each["name"], each["method"], each["path"]) for each in stalled["actions"]] == [
        ("inspect", "GET", "/v1/ns/acme/groups/billing/lag"),
        ("mute", "POST", "/v1/ns/acme/alerts/billing-behind:mute"),
    ]
    assert (other["kind"], other["name"]) == ("alert_firing", "other-behind")
    assert other["cause"] == "other has a lag of 2,000; the threshold is 1,000."


def test_group_that_is_behind_and_has_an_alert_is_as_urgent_as_the_alert(
    people: People, acme: Client
) -> None:
    groups(people.acme, slow=slower_than_producers, left=abandoned)
    assert [name for _, name in kinds(acme)] == ["left", "slow"]
    firing(people.acme, "slow-behind", group_name="slow")
    assert [name for _, name in kinds(acme)] == ["slow", "left"]


def test_dead_letters_are_told_by_their_most_common_cause(
    people: People, acme: Client, api: Callable[[str], Client]
) -> None:
    letters(people.acme, "printer", "lease ended after <n> s", count=42)
    paper = letters(people.acme, "printer", "printer out of paper", count=224)
    (item,) = listed(acme)
    assert item["cause"] == (
        "266 dead letters in 24 hours, the newest 1m ago. Most common of 2 reasons: printer out of "
        "paper (224)"
    )
    assert sum(item["trend"]) == 266
    assert [(each["path"], each["body"]) for each in item["actions"]] == [
        (f"/v1/ns/acme/issues/{paper.public_id}", None),
        ("/v1/ns/acme/groups/printer/dlq:redrive", {"filter": {"reason": "printer out of paper"}}),
        (f"/v1/ns/acme/issues/{paper.public_id}:acknowledge", None),
    ]
    (unread,) = listed(api(people.acme_viewer_key))
    assert "paper" not in str(unread)
    assert [each["name"] for each in unread["actions"]] == ["inspect", "acknowledge"]


def test_what_somebody_has_dealt_with_is_left_out(people: People, acme: Client) -> None:
    now_ms = SystemClock().now_ms()
    make_group(people.acme, "paused", is_paused=True)
    write_samples(people.acme, "paused", stuck, now_ms, range(61))
    for reason in ("acknowledged", "ignored", "resolved"):
        issue = letters(people.acme, "mail", reason, count=1)
        Issue.objects.filter(pk=issue.pk).update(state=reason)
    letters(people.acme, "mail", "long ago", count=1, age_ms=2 * DAY_MS)
    firing(people.acme, "muted", muted_until_ms=now_ms + HOUR_MS)
    firing(people.acme, "off", is_enabled=False)
    schedule(people.acme, "paused", is_enabled=False)
    rule = AlertRule.objects.create(namespace=people.acme, name="r", kind="lag", threshold=1)
    notification(rule, 1, "failed", error="404")
    notification(rule, 2, "sent")
    assert listed(acme) == []


def test_mute_that_is_over_no_longer_hides_an_alert(people: People, acme: Client) -> None:
    firing(people.acme, "again", muted_until_ms=SystemClock().now_ms() - 1)
    assert kinds(acme) == [("alert_firing", "again")]


@pytest.mark.parametrize(("state", "attempts"), [("failed", 8), ("pending", 2)])
def test_webhook_that_fails_says_why(
    people: People, acme: Client, state: str, attempts: int
) -> None:
    rule = AlertRule.objects.create(namespace=people.acme, name="hook", kind="lag", threshold=1)
    notification(rule, 1, state, error="the address answered 404", attempt_count=attempts)
    (item,) = listed(acme)
    assert item["cause"] == (
        f"Its webhook could not be delivered, after {attempts} attempts: the address answered 404"
    )


def test_webhook_that_was_not_tried_yet_is_no_failure(people: People, acme: Client) -> None:
    rule = AlertRule.objects.create(namespace=people.acme, name="hook", kind="lag", threshold=1)
    notification(rule, 1, "pending")
    assert listed(acme) == []


def test_failing_schedule_says_why(people: People, acme: Client) -> None:
    schedule(people.acme, "nightly")
    (item,) = listed(acme)
    assert item["cause"] == ("The last run was not sent. TOPIC_NOT_FOUND: gone does not exist")


def test_list_is_bounded(people: People, acme: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_items, "ITEMS_MAX", 3)
    for number in range(5):
        letters(people.acme, f"group-{number}", "late", count=number + 1)
    assert [name for _, name in kinds(acme)] == ["group-4", "group-3", "group-2"]
