"""Tests of notifications: whom they reach, how often, and that the rule does not notice."""

from __future__ import annotations

from typing import Any

from django.test import Client

from mqservice.accounts.models import AuditEntry
from mqservice.alerts.evaluation import evaluate
from mqservice.alerts.limits import EVENTS_RETAINED_MS, TEST_PAUSE_MS
from mqservice.alerts.models import AlertEvent, Notification
from mqservice.alerts.retention import delete_old_events
from tests.mqservice.alerts.conftest import NOW_MS, Measured, Rule
from tests.people import People

PATH = "/v1/ns/acme/alerts/slow"
HOOK = "https://hooks.example/x"


def test_addresses_and_webhook_get_it_though_the_rule_is_muted(
    acme: Client, people: People, rule: Rule
) -> None:
    rule(emails=["a@x.example"], webhook_url=HOOK, muted_until_ms=NOW_MS, value=7)
    asked = ask(acme)
    assert asked.status_code == 202
    body = asked.json()
    assert (body["state"], body["value"], body["number"]) == ("test", 7, 1)
    told = {(each["channel"], each["target"], each["state"]) for each in body["notifications"]}
    assert told == {("email", "a@x.example", "pending"), ("webhook", HOOK, "pending")}
    assert acme.get(f"{PATH}/history").json()["events"] == [body]
    assert acme.get(PATH).json()["state"] == "ok"
    entry = AuditEntry.objects.get(target="alerts/slow")
    assert (entry.action, entry.details) == ("alert.test", {"event": body["id"]})


def test_it_is_refused_too_often_for_nobody_and_by_who_may_not(
    acme: Client, people: People, rule: Rule, api: Any
) -> None:
    assert ask(acme).json()["code"] == "ALERT_NOT_FOUND"
    made = rule()
    assert ask(acme).json()["code"] == "ILLEGAL_ALERT", "it notifies nobody"
    made.webhook_url = HOOK
    made.save()
    assert ask(api(people.acme_reader_key)).status_code == 403
    assert ask(api(people.rival_key)).status_code == 404
    assert ask(acme).status_code == 202
    assert ask(acme).json()["code"] == "QUOTA_EXCEEDED"
    assert Notification.objects.count() == 1
    event = AlertEvent.objects.get()
    event.at_ms -= TEST_PAUSE_MS
    event.save()
    assert ask(acme).status_code == 202


def test_a_change_before_a_test_is_told_at_the_end_of_a_mute(
    acme: Client, rule: Rule, measured: Measured
) -> None:
    made = rule(webhook_url=HOOK, muted_until_ms=NOW_MS + 1)
    measured(NOW_MS, lag_last=200)
    evaluate(NOW_MS)
    fired = AlertEvent.objects.get(state="firing")
    assert ask(acme).status_code == 202
    measured(NOW_MS + 10_000, lag_last=200)
    evaluate(NOW_MS + 10_000)
    assert Notification.objects.filter(event=fired).count() == 1
    made.refresh_from_db()
    assert (made.told_state, made.change_count) == ("firing", 2)


def test_a_test_does_not_let_an_untold_change_expire(acme: Client, rule: Rule) -> None:
    made = rule(webhook_url=HOOK, state="firing", change_count=1)
    change = AlertEvent.objects.create(
        rule=made, number=1, state="firing", at_ms=0, value=1, threshold=1
    )
    assert ask(acme).status_code == 202
    delete_old_events(NOW_MS + EVENTS_RETAINED_MS)
    assert AlertEvent.objects.filter(pk=change.pk).exists()


def ask(client: Client) -> Any:  # Any: the client's response
    return client.post(f"{PATH}:test")
