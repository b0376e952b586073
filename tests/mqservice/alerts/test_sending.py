"""Notifications: sent once, tried again with longer pauses, given up in the end."""

from __future__ import annotations

from ipaddress import ip_network

import msgspec
import pytest
from django.core import mail
from pytest_django import Settings

from mqservice.alerts.event_texts import mail_of, webhook_body
from mqservice.alerts.limits import ATTEMPTS_MAX, CLAIM_MS, PAUSE_MS_MAX, PAUSE_MS_MIN
from mqservice.alerts.models import AlertEvent, AlertRule, Notification
from mqservice.alerts.sending import ANY_DUE, claim_due, pause_ms, send
from mqservice.alerts.tasks import send_notification, sweep
from mqservice.alerts.webhook import signature
from tests.clock import ManualClock
from tests.mqservice.alerts.conftest import Rule
from tests.mqservice.alerts.hooks import listening
from tests.mqservice.asked import holds


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(autouse=True)
def hooks_of_this_host(settings: Settings) -> None:
    settings.MQ_WEBHOOK_NETWORKS = [ip_network("127.0.0.0/8")]


def due(rule: AlertRule, clock: ManualClock, channel: str, target: str) -> Notification:
    event = AlertEvent.objects.create(
        rule=rule, number=1, state="firing", at_ms=clock.now_ms(), value=120, threshold=100
    )
    return Notification.objects.create(
        event=event, channel=channel, target=target, due_ms=clock.now_ms()
    )


def test_a_webhook_gets_the_event_signed(rule: Rule, clock: ManualClock) -> None:
    slow = rule(topic="orders")
    with listening() as hook:
        told = due(slow, clock, "webhook", hook.url)
        assert claim_due(clock.now_ms()) == [told.pk]
        send(told.pk, clock)
        send(told.pk, clock)  # a second worker
    [(_, headers, body)] = hook.requests
    assert msgspec.json.decode(body) == {
        "id": told.event.public_id, "namespace": "acme", "alert": "slow", "kind": "lag",
        "group": "billing", "topic": "orders", "state": "firing", "value": 120, "threshold": 100,
        "at": "2027-01-15T08:00:00.000Z",
    }  # fmt: skip
    assert headers["X-MQ-Event"] == told.event.public_id
    timestamp_s = int(headers["X-MQ-Timestamp"])
    assert headers["X-MQ-Signature"] == signature(slow.webhook_secret, timestamp_s, body)
    told.refresh_from_db()
    assert (told.state, told.attempt_count) == ("sent", 1)


def test_slack_gets_the_text_of_the_mail_with_its_signs_escaped(
    rule: Rule, clock: ManualClock
) -> None:
    slow = rule(webhook_format="slack", name="slow")
    with listening() as hook:
        send(due(slow, clock, "webhook", hook.url).pk, clock)
    [(_, _, body)] = hook.requests
    text = msgspec.json.decode(body)["text"]
    assert text.startswith("*[FIRING] acme: slow*\nLag of billing: 120 messages.")
    assert text.endswith("/console/acme/alerts/slow|slow>")
    issue = {"id": "iss_1", "group": "billing", "topic": None, "reason": "<!here> & co", "count": 1}
    event = AlertEvent(
        rule=rule(name="issues", kind="issue", webhook_format="slack"), state="firing", at_ms=0,
        value=1, threshold=1, issue_count=1, issues=[{**issue, "is_reopened": False}],
    )  # fmt: skip
    shown = msgspec.json.decode(webhook_body(event))["text"]
    assert "&lt;!here&gt; &amp; co" in shown
    assert "<!here>" not in shown


@pytest.mark.parametrize(
    ("kind", "state", "action", "is_of_rule"),
    [
        ("lag", "firing", "trigger", True),
        ("lag", "ok", "resolve", True),
        ("lag", "test", "trigger", False),
        ("issue", "firing", "trigger", False),
    ],
)
def test_pagerduty_has_one_incident_for_each_time_a_rule_fires(
    rule: Rule, kind: str, state: str, action: str, is_of_rule: bool
) -> None:
    watching = rule(kind=kind, webhook_format="pagerduty", routing_key="r" * 32)
    event = AlertEvent(rule=watching, state=state, at_ms=0, value=120, threshold=100, number=1)
    sent = msgspec.json.decode(webhook_body(event))
    assert (sent["routing_key"], sent["event_action"]) == ("r" * 32, action)
    assert (sent["dedup_key"] == "acme/slow") is is_of_rule
    assert is_of_rule or sent["dedup_key"] == event.public_id
    assert sent["payload"]["severity"] == ("info" if state == "test" else "error")
    assert sent["payload"]["custom_details"]["alert"] == "slow"


def test_a_test_that_fails_is_not_tried_again(rule: Rule, clock: ManualClock) -> None:
    with listening() as hook:
        hook.answer = lambda to: to.sendall(b"HTTP/1.1 404 Not Found\r\n\r\n")
        told = due(rule(), clock, "webhook", hook.url)
        AlertEvent.objects.update(state="test")
        send(told.pk, clock)
    told.refresh_from_db()
    assert (told.state, told.error) == ("failed", "it responded with 404")


def test_a_webhook_that_fails_is_tried_again_later_and_given_up_in_the_end(
    rule: Rule, clock: ManualClock
) -> None:
    with listening() as hook:
        hook.answer = lambda to: to.sendall(b"HTTP/1.1 503 Later\r\n\r\n")
        told = due(rule(), clock, "webhook", hook.url)
        for attempt in range(1, ATTEMPTS_MAX + 1):
            assert claim_due(clock.now_ms()) == [told.pk]
            assert claim_due(clock.now_ms()) == [], "it is claimed"
            send(told.pk, clock)
            told.refresh_from_db()
            assert (told.attempt_count, told.error) == (attempt, "it responded with 503")
            clock.advance(pause_ms(attempt) - 1)
            assert not holds(ANY_DUE, clock.now_ms())
            assert claim_due(clock.now_ms()) == []
            clock.advance(1)
            assert holds(ANY_DUE, clock.now_ms()) == (attempt < ATTEMPTS_MAX)
        assert told.state == "failed"
        assert claim_due(clock.now_ms()) == []
    assert len({headers["X-MQ-Event"] for _, headers, _ in hook.requests}) == 1
    assert len(hook.requests) == ATTEMPTS_MAX


def test_pauses_double_up_to_their_maximum() -> None:
    pauses = [pause_ms(attempt) for attempt in range(1, 60)]
    assert pauses[:3] == [PAUSE_MS_MIN, 2 * PAUSE_MS_MIN, 4 * PAUSE_MS_MIN]
    assert max(pauses) == pauses[-1] == PAUSE_MS_MAX


def test_a_worker_that_died_gives_its_claim_up_by_time(rule: Rule, clock: ManualClock) -> None:
    told = due(rule(), clock, "webhook", "https://hooks.example/")
    assert claim_due(clock.now_ms()) == [told.pk]
    clock.advance(CLAIM_MS - 1)
    assert claim_due(clock.now_ms()) == []
    clock.advance(1)
    assert claim_due(clock.now_ms()) == [told.pk]


def test_a_clock_that_was_set_back_holds_nothing_up(rule: Rule, clock: ManualClock) -> None:
    told = due(rule(), clock, "webhook", "https://hooks.example/")
    Notification.objects.update(due_ms=clock.now_ms() + 24 * 3_600_000)
    assert claim_due(clock.now_ms()) == [told.pk]


def test_an_inner_address_is_given_up_at_once(
    rule: Rule, clock: ManualClock, settings: Settings
) -> None:
    settings.MQ_WEBHOOK_NETWORKS = []
    with listening() as hook:
        told = due(rule(), clock, "webhook", f"https://localhost:{hook.port}/")
        send(told.pk, clock)
    told.refresh_from_db()
    assert (told.state, told.error) == ("failed", "must not lead to an address that is not public")
    assert hook.requests == []


def test_an_e_mail_says_what_happened(rule: Rule, clock: ManualClock) -> None:
    told = due(rule(), clock, "email", "ops@x.example")
    send(told.pk, clock)
    [message] = mail.outbox
    assert message.to == ["ops@x.example"]
    assert message.subject == "[FIRING] acme: slow"
    assert "Lag of billing: 120 messages. The threshold is 100." in message.body
    assert told.event.public_id in message.body
    told.refresh_from_db()
    assert told.state == "sent"


@pytest.mark.parametrize(
    ("fields", "value", "sentence"),
    [
        ({"topic": "orders"}, 120, "Lag of billing on orders: 120 messages."),
        ({"kind": "oldest_age"}, 5_000, "Age of the oldest message of billing: 5000 ms."),
        ({"kind": "disk", "group_name": ""}, 91, "Disk usage of the storage engine: 91 % used."),
        ({"kind": "lag"}, None, "Lag of billing: unknown."),
        ({"kind": "no_consumer"}, 1, "Group billing has no consumers."),
        ({"kind": "no_consumer"}, 0, "Group billing has consumers."),
        ({"kind": "no_consumer"}, None, "It is unknown whether group billing has consumers."),
    ],
)
def test_an_e_mail_states_the_value_in_words(
    rule: Rule, fields: dict[str, str], value: int | None, sentence: str
) -> None:
    watching = rule(**fields)
    event = AlertEvent(rule=watching, state="firing", at_ms=0, value=value, threshold=100)
    _, text = mail_of(event, watching)
    assert text.startswith(sentence)


def test_a_mail_server_that_is_unavailable_is_tried_again_and_not_quoted(
    rule: Rule, clock: ManualClock, settings: Settings
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    told = due(rule(), clock, "email", "ops@x.example")
    send(told.pk, clock)
    told.refresh_from_db()
    assert (told.state, told.attempt_count) == ("pending", 1)
    assert told.error == "the mail server did not accept it: ConnectionRefusedError"


def test_a_deleted_rule_notifies_nobody(rule: Rule, clock: ManualClock) -> None:
    slow = rule()
    told = due(slow, clock, "email", "ops@x.example")
    assert claim_due(clock.now_ms()) == [told.pk]
    slow.delete()
    send(told.pk, clock)
    assert mail.outbox == []


def test_a_sweep_asks_for_each_that_is_due(
    rule: Rule, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = due(rule(), clock, "email", "ops@x.example")
    Notification.objects.update(due_ms=0)
    asked: list[tuple[int]] = []
    monkeypatch.setattr(
        send_notification, "apply_async", lambda args, *, expires: asked.append(args)
    )
    sweep()
    sweep()
    assert asked == [(told.pk,)]
    send_notification(told.pk)
    assert len(mail.outbox) == 1


def test_a_sending_ends_before_its_claim() -> None:
    assert send_notification.time_limit is not None
    assert send_notification.time_limit * 1_000 < CLAIM_MS
