"""The summary of a night by e-mail: to whom, once, and what becomes of it when mail fails."""

from __future__ import annotations

import datetime as dt
import smtplib
from collections.abc import Callable
from typing import Any

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from mqservice.accounts.models import AuditEntry, Namespace
from mqservice.reports import limits
from mqservice.reports.emails import claim_emails, delete_old_emails, queue_emails, send_email
from mqservice.reports.make_reports import _load
from mqservice.reports.models import MailState, ReportMail, ReportPart, ReportRun, Trigger
from mqservice.reports.runs import claim
from mqservice.reports.spark import Outcome
from tests.clock import ManualClock
from tests.mqservice.reports.conftest import DAY, MakeRun
from tests.people import People

Api = Callable[[str], Client]
NIGHT = timezone.now().date() - DAY
PATH = "/v1/ns/acme/reports/recipients"
JSON = "application/json"


@pytest.fixture(autouse=True)
def mail_on(settings: Settings) -> None:
    settings.MQ_EMAIL_URL = "smtp://mail.example"


def usage(count: int) -> dict[str, Any]:  # Any: values of columns
    return {"topic": "orders", "message_count": count, "stored_bytes": 30 * count}


def part(namespace: Namespace, report: str = "usage_daily", date: dt.date = NIGHT) -> None:
    ReportPart.objects.create(
        namespace=namespace, report=report, date=date, zone="UTC", made_ms=0, is_complete=True,
        rows=[usage(1_500)],
    )  # fmt: skip


def noted(make_run: MakeRun, clock: ManualClock, **values: object) -> list[ReportMail]:
    queue_emails(make_run(**{"date": NIGHT, **values}), clock.now_ms())
    return list(ReportMail.objects.order_by("address"))


@pytest.fixture
def owned(people: People) -> People:
    for user in (people.alice, people.bob, people.charlie):
        user.email = f"{user.username}@x.example"
        user.save()
    part(people.acme)
    return people


def test_owners_are_told_of_their_own_namespaces_only(
    owned: People, make_run: MakeRun, clock: ManualClock
) -> None:
    mails = noted(make_run, clock)
    assert [(each.address, each.namespace) for each in mails] == [("alice@x.example", owned.acme)]
    for mail_id in claim_emails(clock.now_ms()):
        send_email(mail_id, clock)
    [message] = mail.outbox
    assert message.to == ["alice@x.example"]
    assert message.subject == f"acme, {NIGHT}: 1,500 messages, 0 dead letters"
    assert "Messages produced: 1,500 (no data for the week before)" in message.body
    (name, page, kind) = message.attachments[0]
    assert (name, kind) == (f"acme-{NIGHT}.html", "text/html")
    assert "1,500" in str(page)
    assert ReportMail.objects.get().state == MailState.SENT


def test_a_night_is_reported_once_however_often_it_is_made(
    owned: People, make_run: MakeRun, clock: ManualClock, tmp_path: Any
) -> None:
    for trigger in (Trigger.NIGHTLY, Trigger.BY_HAND, Trigger.NIGHTLY):
        ReportRun.objects.all().delete()
        made = make_run(NIGHT, trigger=trigger.value, namespace=owned.acme)
        run = claim(made.public_id, clock.now_ms())
        assert run is not None
        (tmp_path / "rows.jsonl").write_text("")
        _load(run, tmp_path / "rows.jsonl", Outcome({}, {}, {}), clock.now_ms())
        for mail_id in 2 * claim_emails(clock.now_ms()):
            send_email(mail_id, clock)
    assert len(mail.outbox) == 1


def test_only_a_night_that_is_news_is_reported(
    owned: People, make_run: MakeRun, clock: ManualClock, settings: Settings
) -> None:
    assert noted(make_run, clock, trigger=Trigger.BY_HAND.value) == []
    old = NIGHT - limits.EMAIL_RETAINED_DAYS * DAY
    part(owned.acme, date=old)
    assert noted(make_run, clock, date=old) == []
    settings.MQ_EMAIL_URL = ""
    assert noted(make_run, clock, date=NIGHT) == []


def test_a_mail_server_that_is_unavailable_fails_no_run_and_is_tried_again(
    owned: People, make_run: MakeRun, clock: ManualClock, settings: Settings
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    noted(make_run, clock)
    for attempt in range(limits.EMAIL_ATTEMPTS_MAX):
        (mail_id,) = claim_emails(clock.now_ms())
        assert claim_emails(clock.now_ms()) == []
        send_email(mail_id, clock)
        found = ReportMail.objects.get()
        assert found.attempt_count == attempt + 1
        assert found.error == "the mail server did not accept it: ConnectionRefusedError"
        clock.advance(limits.EMAIL_RETRY_MS << attempt)
    assert found.state == MailState.FAILED
    assert claim_emails(clock.now_ms()) == []


def test_a_mail_whose_worker_died_is_not_sent_twice(
    owned: People, make_run: MakeRun, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(self: EmailMessage) -> int:
        real(self)
        raise KeyboardInterrupt

    real = EmailMessage.send
    noted(make_run, clock)
    (mail_id,) = claim_emails(clock.now_ms())
    with monkeypatch.context() as dying:
        dying.setattr(EmailMessage, "send", die)
        with pytest.raises(KeyboardInterrupt):
            send_email(mail_id, clock)
    clock.advance(limits.EMAIL_CLAIM_MS)
    assert claim_emails(clock.now_ms()) == []
    send_email(mail_id, clock)  # an order that came late
    assert ReportMail.objects.get().state == MailState.UNKNOWN
    assert len(mail.outbox) == 1


def test_an_address_that_the_server_refuses_is_given_up_at_once(
    owned: People, make_run: MakeRun, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: EmailMessage) -> int:
        raise smtplib.SMTPRecipientsRefused({})

    monkeypatch.setattr(EmailMessage, "send", refuse)
    noted(make_run, clock)
    (mail_id,) = claim_emails(clock.now_ms())
    send_email(mail_id, clock)
    assert ReportMail.objects.get().state == MailState.FAILED


def test_recipients_are_named_audited_and_reset_to_the_owners(
    owned: People, api: Api, make_run: MakeRun, clock: ManualClock
) -> None:
    acme = api(owned.acme_key)
    assert acme.get(PATH).json() == {
        "emails": ["alice@x.example"], "are_owners": True, "is_mail_on": True,
    }  # fmt: skip
    named = {"emails": ["ops@x.example", "cto@x.example", "ops@x.example"]}
    assert acme.put(PATH, data=named, content_type=JSON).json() == {
        "emails": ["ops@x.example", "cto@x.example"], "are_owners": False, "is_mail_on": True,
    }  # fmt: skip
    assert [each.address for each in noted(make_run, clock)] == ["cto@x.example", "ops@x.example"]
    assert acme.put(PATH, data={"emails": []}, content_type=JSON).json()["emails"] == []
    assert noted(make_run, clock, date=NIGHT - DAY) == list(ReportMail.objects.order_by("address"))
    assert not ReportMail.objects.filter(date=NIGHT - DAY).exists()
    again = acme.put(PATH, data={"emails": None}, content_type=JSON).json()
    assert (again["emails"], again["are_owners"]) == (["alice@x.example"], True)
    assert AuditEntry.objects.filter(action="report.recipients").count() == 3


@pytest.mark.parametrize(
    ("emails", "pointer"),
    [
        (["nobody"], "/emails/0"),
        (["a@x.example", "b@x.example\nBcc: c@x.example"], "/emails/1"),
        ([f"a{number}@x.example" for number in range(11)], "/emails"),
        (["x" * 300 + "@x.example"], "/emails/0"),
        ("a@x.example", "/emails"),
    ],
)
def test_addresses_that_make_no_sense_are_refused(
    owned: People, api: Api, emails: object, pointer: str
) -> None:
    answer = api(owned.acme_key).put(PATH, data={"emails": emails}, content_type=JSON)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, pointer)


def test_old_rows_are_forgotten(owned: People, make_run: MakeRun, clock: ManualClock) -> None:
    noted(make_run, clock)
    delete_old_emails()
    assert ReportMail.objects.exists()
    ReportMail.objects.update(date=NIGHT - limits.EMAIL_RETAINED_DAYS * DAY)
    delete_old_emails()
    assert not ReportMail.objects.exists()
