"""Alerts in the console: made, changed, muted, switched off, deleted; the history; who may."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from pytest_django import Settings

from mqservice.accounts.models import AuditEntry
from mqservice.alerts.evaluation import evaluate
from mqservice.alerts.models import AlertRule
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.clock import SystemClock
from mqservice.sampling.limits import SAMPLE_MS
from mqservice.sampling.models import GroupSample
from mqservice.topics.models import Topic
from tests.mqservice.console.reading import why_not
from tests.people import People

NEW = "/console/acme/new-alert"
RULE = "/console/acme/alerts/behind"
FORM = {
    "name": "behind",
    "kind": "lag",
    "group": "billing",
    "topic": "",
    "threshold": "100",
    "for": "0s",
    "window": "5m",
    "emails": "",
    "webhook": "",
    "webhook_format": "mqservice",
    "routing_key": "",
}


def fire(people: People) -> None:
    """A sample above the threshold, and a look at the rules."""
    now_ms = SystemClock().now_ms()
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    GroupSample.objects.create(
        namespace=people.acme, group_name="billing", topic="", resolution_ms=SAMPLE_MS,
        at_ms=now_ms - now_ms % SAMPLE_MS, known_count=1, lag_last=250,
    )  # fmt: skip
    evaluate(now_ms)


def test_rule_is_made_fires_is_switched_off_and_deleted(people: People, alice: Client) -> None:
    assert alice.post(NEW, FORM, follow=True).redirect_chain[-1][0] == RULE
    assert b"has not fired yet" in alice.get(RULE).content
    fire(people)
    page = alice.get(RULE).content.decode()
    assert page.count('badge-bad">firing') == 2  # its state, and the event
    assert "250" in page
    assert f'href="{RULE}">behind</a>' in alice.get("/console/acme/").content.decode()
    assert b"1 firing" in alice.get("/console/acme/alerts").content

    alice.post(f"{RULE}/switch", {"is_enabled": "0"})
    assert b'badge">off' in alice.get(RULE).content
    assert AlertRule.objects.get().state == "ok"
    alice.post(f"{RULE}/switch", {"is_enabled": "1"})
    assert AlertRule.objects.get().is_enabled

    assert alice.post(f"{RULE}/delete", {"confirm": "beh"}).status_code == 422
    assert alice.post(f"{RULE}/delete", {"confirm": "behind"}).status_code == 302
    assert not AlertRule.objects.exists()
    entries = AuditEntry.objects.filter(action__startswith="alert.").order_by("id")
    assert [row.action for row in entries] == ["alert.put"] * 3 + ["alert.delete"]


def test_rule_is_muted_for_a_time_and_everybody_sees_by_whom(people: People, alice: Client) -> None:
    alice.post(NEW, FORM)
    assert b"Mute behind" in alice.get(f"{RULE}/mute").content
    form = {"length": "4h", "until": "", "reason": "deploy <b>"}
    assert alice.post(f"{RULE}/mute", form).status_code == 302
    viewer = Client()
    viewer.force_login(people.bob)
    page = viewer.get(RULE).content.decode()
    assert "Muted by <b>user:alice</b>" in page
    assert "deploy &lt;b&gt;" in page
    assert "Unmute" in why_not(page)
    assert 'name="unmute"' not in page
    assert viewer.post(f"{RULE}/mute", form).status_code == 403
    assert "muted" in viewer.get("/console/acme/alerts").content.decode()
    assert alice.post(f"{RULE}/mute", {"unmute": "1"}).status_code == 302
    assert "Muted by" not in viewer.get(RULE).content.decode()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"until": "2020-01-01T00:00"}, "must end 1m to 30d from now"),
        ({"until": "some day"}, "must be a time"),
        ({"length": "2y"}, "not one of the available choices"),
        ({"reason": "x" * 201}, "at most 200 characters"),
    ],
)
def test_mute_that_cannot_be_is_reported_in_the_form(
    people: People, alice: Client, change: dict[str, str], told: str
) -> None:
    alice.post(NEW, FORM)
    answer = alice.post(f"{RULE}/mute", {"length": "1h", "until": "", "reason": "", **change})
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert AlertRule.objects.get().muted_until_ms == 0


def test_rule_is_changed_unless_someone_else_was_faster(people: People, alice: Client) -> None:
    alice.post(NEW, FORM)
    form = alice.get(f"{RULE}/edit").content.decode()
    assert 'value="100"' in form
    assert alice.post(f"{RULE}/edit", FORM | {"threshold": "7", "revision": "1"}).status_code == 302
    assert AlertRule.objects.get().threshold == 7
    late = alice.post(f"{RULE}/edit", FORM | {"threshold": "9", "revision": "1"})
    assert b"Someone else has changed this alert" in late.content
    assert AlertRule.objects.get().threshold == 7
    assert b"An alert with this name already exists" in alice.post(NEW, FORM).content


def test_secret_of_a_webhook_is_shown_once(people: People, alice: Client) -> None:
    answer = alice.post(NEW, FORM | {"webhook": "https://hooks.example.com/path?token=t"})
    assert answer.status_code == 201
    secret = AlertRule.objects.get().webhook_secret
    assert secret in answer.content.decode()
    assert secret not in alice.get(RULE).content.decode()
    viewer = Client()
    viewer.force_login(people.bob)
    assert "token=t" not in viewer.get(RULE).content.decode()


@pytest.mark.parametrize(
    ("change", "field", "told"),
    [
        ({"name": "no blanks"}, "name", "a name may contain only"),
        ({"threshold": ""}, "threshold", "Enter a threshold"),
        ({"threshold": "0"}, "threshold", "greater than or equal to 1"),
        ({"group": ""}, "group", "This field is required"),
        ({"for": "soon"}, "for", "must be a duration such as"),
        ({"for": "48h"}, "for", "must be"),
        ({"kind": "oldest_age", "threshold": "5"}, "threshold", "Enter a duration such as"),
        ({"webhook_format": "pagerduty"}, "routing_key", "needs an integration key"),
        ({"webhook": "https://127.0.0.1/"}, "webhook", "not public"),
        ({"webhook": "http://example.com/"}, "webhook", "https://"),
        ({"emails": "nobody"}, "emails", "must be an email address"),
    ],
)
def test_fault_is_reported_at_its_field_and_nothing_is_made(
    alice: Client, settings: Settings, change: dict[str, str], field: str, told: str
) -> None:
    settings.MQ_EMAIL_URL = "smtp://mail.example"
    answer = alice.post(NEW, FORM | change)
    assert answer.status_code == 422
    text = answer.content.decode()
    assert told in text[text.index(f'id="id_{field}_error"') :][:300]
    assert not AlertRule.objects.exists()


def test_field_for_mail_is_closed_where_the_service_sends_none(
    alice: Client, settings: Settings
) -> None:
    closed = re.compile(r'<input[^>]*name="emails"[^>]* disabled')
    settings.MQ_EMAIL_URL = ""
    page = alice.get(f"{NEW}?kind=lag").content.decode()
    assert closed.search(page)
    assert "This service cannot send email." in page
    settings.MQ_EMAIL_URL = "smtp://mail.example"
    assert not closed.search(alice.get(f"{NEW}?kind=lag").content.decode())


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("lag", {"group", "topic", "threshold", "for"}),
        ("oldest_age", {"group", "topic", "threshold", "for"}),
        ("dlq_growth", {"group", "threshold", "for", "window"}),
        ("no_consumer", {"group", "for"}),
        ("issue", {"group", "topic"}),
    ],
)
def test_form_has_the_fields_of_its_kind(alice: Client, kind: str, fields: set[str]) -> None:
    page = alice.get(f"{NEW}?kind={kind}").content.decode()
    shown = set(re.findall(r'id="id_(group|topic|threshold|for|window)"', page))
    assert shown == fields
    assert f'value="{kind}"' in page


def test_kind_is_chosen_first_and_what_was_asked_for_is_kept(people: People, alice: Client) -> None:
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    Topic.objects.create(namespace=people.acme, name="orders", queue_count=1)
    page = alice.get(f"{NEW}?group=billing").content.decode()
    assert 'href="/console/acme/new-alert?kind=lag&amp;group=billing"' in page
    assert "kind=disk" not in page
    assert alice.post(NEW, FORM | {"kind": "disk"}).status_code == 422
    form = alice.get(f"{NEW}?kind=lag&group=billing&topic=gone").content.decode()
    assert 'value="billing-lag"' in form
    assert '<option value="billing" selected>' in form
    assert '<option value="gone" selected>' in form
    assert '<option value="orders">' in form


def test_age_is_a_duration_and_what_a_kind_has_no_use_for_is_left_out(
    people: People, alice: Client
) -> None:
    asked = FORM | {"kind": "oldest_age", "threshold": "5m"}
    assert alice.post(NEW, asked).status_code == 302
    assert AlertRule.objects.get().threshold == 300_000
    assert 'value="5m"' in alice.get(f"{RULE}/edit").content.decode()
    grown = FORM | {"name": "dead", "kind": "dlq_growth", "topic": "orders", "window": "10m"}
    assert alice.post(NEW, grown).status_code == 302
    rule = AlertRule.objects.get(name="dead")
    assert (rule.topic, rule.window_ms) == ("", 600_000)


def test_formats_of_webhooks_are_chosen_and_a_test_is_sent(people: People, alice: Client) -> None:
    asked = FORM | {"webhook_format": "pagerduty", "routing_key": "r" * 32}
    assert alice.post(NEW, asked).status_code == 201
    page = alice.get(RULE).content.decode()
    assert "PagerDuty event" in page
    assert "r" * 32 not in page
    assert 'hx-trigger="every 2s"' not in page
    told = alice.post(f"{RULE}/test", follow=True).content.decode()
    assert "A test is on the way" in told
    assert 'badge-plain">test' in told
    assert 'hx-trigger="every 2s"' in told
    again = alice.post(f"{RULE}/test", follow=True).content.decode()
    assert "was tested a moment ago" in again
    slack = FORM | {"webhook_format": "slack", "webhook": "https://h.example/", "revision": "1"}
    assert alice.post(f"{RULE}/edit", slack | {"routing_key": "left over"}).status_code == 302
    rule = AlertRule.objects.get()
    assert (rule.webhook_format, rule.routing_key) == ("slack", "")


def test_thresholds_are_in_the_charts_of_what_they_watch(people: People, alice: Client) -> None:
    alice.post(NEW, FORM)
    alice.post(NEW, FORM | {"name": "late", "kind": "oldest_age", "threshold": "5m"})
    charts = "/console/acme/charts"
    lag = alice.get(f"{charts}/lag?group=billing").json()
    assert lag["thresholds"] == [{"label": "behind", "value": 100}]
    age = alice.get(f"{charts}/age?group=billing").json()
    assert age["thresholds"] == [{"label": "late", "value": 300}]
    for other in ("lag", "lag?group=other", "lag?group=billing&topic=orders", "dead?group=billing"):
        assert alice.get(f"{charts}/{other}").json()["thresholds"] == []
    page = alice.get(RULE).content.decode()
    assert f"{charts}/lag?group=billing&amp;topic=&amp;span=1h" in page


def test_disk_is_watched_by_operators(people: People, alice: Client) -> None:
    people.alice.is_superuser = True
    people.alice.save()
    asked = FORM | {"kind": "disk", "group": "", "threshold": "90"}
    assert alice.post(NEW, asked).status_code == 302
    assert b"90 %" in alice.get(RULE).content


def test_an_alert_without_a_waiting_time_says_that_it_fires_at_once(
    people: People, alice: Client
) -> None:
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    alice.post("/console/acme/new-alert?kind=lag", FORM)
    assert "<dd>fires immediately</dd>" in alice.get(RULE).content.decode()


def test_viewer_is_told_why_not_and_refused_each(people: People, alice: Client) -> None:
    alice.post(NEW, FORM)
    viewer = Client()
    viewer.force_login(people.bob)
    seen = viewer.get(RULE).content.decode() + viewer.get("/console/acme/alerts").content.decode()
    for word in ("new-alert", "/edit", "/delete", "/mute", "/test"):
        assert word not in seen
    actions = {"New alert", "Send a test", "Mute", "Turn off", "Edit", "Delete"}
    assert actions <= set(why_not(seen))
    for path in (NEW, f"{RULE}/edit", f"{RULE}/delete", f"{RULE}/mute", f"{RULE}/test"):
        assert viewer.post(path, FORM | {"confirm": "behind"}).status_code == 403
    stranger = Client()
    stranger.force_login(people.charlie)
    for path in (NEW, RULE, f"{RULE}/edit", f"{RULE}/delete"):
        assert stranger.get(path).status_code == 404
    assert stranger.post("/console/rival/alerts/behind/mute").status_code == 404
    assert AlertRule.objects.get().is_enabled


def test_rules_are_downloaded_for_prometheus_by_whoever_may_look(
    people: People, alice: Client
) -> None:
    assert b"alerts.yaml" not in alice.get("/console/acme/alerts").content  # there is none yet
    alice.post(NEW, FORM)
    for person in (people.alice, people.bob):
        alice.force_login(person)
        page = alice.get("/console/acme/alerts").content.decode()
        assert 'href="/console/acme/alerts.yaml"' in page
        assert "/v1/ns/acme/alerts.yaml" in page
        file = alice.get("/console/acme/alerts.yaml")
        assert file["Content-Disposition"] == 'attachment; filename="acme-alerts.yaml"'
        assert 'mq_group_lag_messages{mq_namespace="acme",group="billing"} >= 100' in (
            file.content.decode()
        )
    alice.force_login(people.charlie)
    assert alice.get("/console/acme/alerts.yaml").status_code == 404
