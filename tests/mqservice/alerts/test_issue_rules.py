"""Rules for issues: each that opens is told once, many at once together, none while muted."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import msgspec
import pytest
from django.core import mail
from django.test import Client
from pytest_django import Settings

from mqservice.accounts.access import find_principal
from mqservice.accounts.models import Namespace
from mqservice.alerts.evaluation import evaluate
from mqservice.alerts.limits import EVENTS_RETAINED_MS, ISSUES_LISTED_MAX
from mqservice.alerts.models import AlertEvent, AlertRule, Notification
from mqservice.alerts.retention import delete_old_events
from mqservice.alerts.sending import claim_due, send
from mqservice.issues.models import Issue
from mqservice.issues.recording import record_tallies
from mqservice.issues.services import Verb, change_issue
from mqservice.issues.tallies import Cause, Tally
from mqservice.lib.durations import HOUR_MS
from mqservice.sampling.limits import SAMPLE_MS
from tests.clock import ManualClock
from tests.mqservice.alerts.conftest import NOW_MS, Measured, Rule
from tests.mqservice.alerts.hooks import listening
from tests.people import People, bearer

PATH = "/v1/ns/acme/alerts/broken"
Json = dict[str, Any]  # Any: documents as the API writes them


def letters(
    namespace: Namespace, *reasons: str, group: str = "billing", topic: str = "orders",
    at_ms: int = NOW_MS,
) -> None:  # fmt: skip
    """One dead letter for each reason, as a scan records them."""
    tallies = {
        Cause(topic, reason): Tally(count=1, first_ms=at_ms, last_ms=at_ms) for reason in reasons
    }
    record_tallies(namespace, group, tallies, at_ms)


def put(client: Client, **fields: object) -> Json:
    body = {"kind": "issue", "webhook": "https://hooks.example/", **fields}
    answer = client.put(PATH, data=msgspec.json.encode(body), content_type="application/json")
    assert answer.status_code in (200, 201), answer.content
    return answer.json()  # type: ignore[no-any-return]  # untyped in Django


def told() -> list[list[str]]:
    """Reasons of the issues of each notification, in order."""
    rows = Notification.objects.select_related("event").order_by("event__number")
    return [[issue["reason"] for issue in row.event.issues] for row in rows]


def test_an_issue_that_opens_is_reported_once_and_its_further_letters_are_not(
    acme: Client, people: People
) -> None:
    letters(people.acme, "old")  # before there was a rule: no news
    made = put(acme)
    assert (made["threshold"], made["group"], made["topic"]) == (1, None, None)
    evaluate(NOW_MS)
    assert told() == []
    letters(people.acme, "new", "newer")
    letters(people.rival, "foreign")
    for look in range(3):
        evaluate(NOW_MS + look)
        letters(people.acme, "new", "newer", "old")
    assert told() == [["new", "newer"]]
    rule = AlertRule.objects.get()
    assert (rule.state, rule.value) == ("firing", 3)
    letters(people.acme, "third")
    evaluate(NOW_MS + 10)
    assert told() == [["new", "newer"], ["third"]]
    newest, *_ = acme.get(f"{PATH}/history").json()["events"]
    third = Issue.objects.get(reason="third").public_id
    assert (newest["issue_count"], newest["issues"], newest["value"]) == (1, [third], 4)


def test_a_reopened_issue_is_reported_again_and_the_end_of_all_is_not(
    acme: Client, people: People
) -> None:
    put(acme)
    letters(people.acme, "a")
    evaluate(NOW_MS)
    issue = Issue.objects.get()
    clock = ManualClock(NOW_MS + 1)
    principal = find_principal(bearer(people.acme_owner_key))
    assert principal is not None
    change_issue(principal, people.acme, issue.public_id, Verb.RESOLVE, clock)
    evaluate(NOW_MS + 2)
    assert list(AlertEvent.objects.values_list("state", flat=True)) == ["firing", "ok"]
    assert told() == [["a"]]
    letters(people.acme, "a", at_ms=NOW_MS + 3)
    evaluate(NOW_MS + 4)
    assert told() == [["a"], ["a"]]
    assert AlertEvent.objects.order_by("-number")[0].issues[0]["is_reopened"] is True


def test_a_rule_tells_of_its_group_and_topic_only(acme: Client, people: People) -> None:
    put(acme, group="billing", topic="orders")
    letters(people.acme, "a", group="other")
    letters(people.acme, "b", topic="payments")
    letters(people.acme, "c")
    evaluate(NOW_MS)
    assert told() == [["c"]]


def test_while_muted_nothing_is_reported_and_after_that_what_is_open_still(
    acme: Client, people: People
) -> None:
    put(acme)
    AlertRule.objects.update(muted_until_ms=NOW_MS + HOUR_MS)
    letters(people.acme, "a", "b")
    evaluate(NOW_MS)
    assert told() == []
    Issue.objects.filter(reason="a").update(state="acknowledged")
    evaluate(NOW_MS + HOUR_MS)
    evaluate(NOW_MS + HOUR_MS + 1)
    assert told() == [["b"]]


def test_what_opens_while_a_rule_is_off_is_no_news_when_it_is_on_again(
    acme: Client, people: People
) -> None:
    put(acme)
    put(acme, enabled=False)
    letters(people.acme, "a")
    evaluate(NOW_MS)
    put(acme, enabled=True)
    evaluate(NOW_MS)
    assert told() == []


def test_many_at_once_are_one_mail_and_one_request_that_say_how_many(
    acme: Client, people: People, settings: Settings
) -> None:
    settings.MQ_WEBHOOK_NETWORKS = [ip_network("127.0.0.0/8")]
    settings.MQ_EMAIL_URL = "smtp://mail.example"
    settings.MQ_BASE_URL = "https://mq.example"
    with listening() as hook:
        put(acme, webhook=hook.url, emails=["a@x.example"])
        letters(people.acme, *(f"reason {chr(97 + index)}" for index in range(26)))
        evaluate(NOW_MS)
        clock = ManualClock(NOW_MS)
        for notification_id in claim_due(NOW_MS):
            send(notification_id, clock)
    [(_, _, body)] = hook.requests
    document = msgspec.json.decode(body)
    assert (document["issue_count"], len(document["issues"])) == (26, ISSUES_LISTED_MAX)
    first = document["issues"][0]
    issue = Issue.objects.get(public_id=first.pop("id"))
    assert first == {
        "group": "billing", "topic": "orders", "reason": issue.reason, "count": 1,
        "is_reopened": False, "url": f"https://mq.example/console/acme/issues/{issue.public_id}",
    }  # fmt: skip
    [message] = mail.outbox
    assert message.subject == "[ISSUE] acme: broken: 26 new issues"
    assert f"and {26 - ISSUES_LISTED_MAX} more" in message.body


def test_the_mail_of_one_issue_says_its_reason(acme: Client, people: People) -> None:
    put(acme)
    AlertRule.objects.update(emails=["a@x.example"], webhook_url="")
    letters(people.acme, "no stock of <text>")
    evaluate(NOW_MS)
    [notification_id] = claim_due(NOW_MS)
    send(notification_id, ManualClock(NOW_MS))
    [message] = mail.outbox
    assert message.subject == "[ISSUE] acme: broken: 1 new issue: no stock of <text>"
    assert "billing on orders: 1 dead letter so far" in message.body


@pytest.mark.parametrize("kind", ["lag", "dlq_growth"])
def test_a_rule_that_watches_a_group_still_needs_one(acme: Client, kind: str) -> None:
    body = msgspec.json.encode({"kind": kind, "threshold": 5})
    answer = acme.put(PATH, data=body, content_type="application/json")
    assert answer.status_code == 400
    assert "watches a group" in answer.json()["detail"]


def test_a_rule_for_issues_is_only_a_comment_for_prometheus(acme: Client) -> None:
    put(acme)
    text = acme.get("/v1/ns/acme/alerts.yaml").content.decode()
    assert "# broken tells of issues" in text
    assert "rules: []" in text


def test_a_rule_muted_for_longer_than_events_are_kept_tells_in_the_end(
    rule: Rule, measured: Measured
) -> None:
    # Given a rule that fired while it was muted, again and again, for longer than events are kept
    slow = rule(emails=["a@x.example"], muted_until_ms=NOW_MS + HOUR_MS)
    measured(NOW_MS, lag_last=500)
    evaluate(NOW_MS)
    end_ms = NOW_MS + EVENTS_RETAINED_MS + HOUR_MS
    end_ms -= end_ms % SAMPLE_MS
    AlertRule.objects.update(muted_until_ms=end_ms)
    # When what is old is dropped, and then the mute is over
    delete_old_events(end_ms)
    measured(end_ms, lag_last=500)
    evaluate(end_ms)
    # Then
    assert Notification.objects.count() == 1
    slow.refresh_from_db()
    assert slow.told_state == "firing"
    # When everybody knows, the event goes like any other
    delete_old_events(end_ms)
    assert not AlertEvent.objects.exists()
