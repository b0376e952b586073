"""The nightly summary by email: once per address, and never a reason to fail the reports.

    a night done ──▶ [queue_emails] ─▶ rows ── [claim_emails] ─▶ [send_email] ─▶ mail server
                                       ▲                            └── not taken: later
                                       └── one of a night and address, by a unique index

A mail whose worker died while it was sent is not sent again: it may have arrived, and the page and
the API have all that it says. Without ``MQ_EMAIL_URL`` there are no rows.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import smtplib

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.utils import timezone, translation

from mqservice.accounts.models import Member, Namespace, Role
from mqservice.lib.clock import Clock
from mqservice.lib.units import count
from mqservice.reports.day import Day, read_day
from mqservice.reports.day_view import day_view
from mqservice.reports.limits import (
    EMAIL_ATTEMPTS_MAX,
    EMAIL_CLAIM_MS,
    EMAIL_LINES_MAX,
    EMAIL_PAGE_BYTES_MAX,
    EMAIL_RETAINED_DAYS,
    EMAIL_RETRY_MS,
    EMAILS_SWEPT_MAX,
    RECIPIENTS_MAX,
)
from mqservice.reports.models import (
    ERROR_CHARS_MAX,
    MailState,
    ReportMail,
    ReportPart,
    ReportRecipients,
    ReportRun,
    Trigger,
)
from mqservice.reports.page import page_of

log = logging.getLogger(__name__)


def recipients_of(namespace: Namespace) -> list[str]:
    """Addresses, in order; those of owners who have one unless others were named. Two queries."""
    named = ReportRecipients.objects.filter(namespace=namespace).first()
    if named is not None:
        return list(named.emails)
    owners = Member.objects.filter(tenant_id=namespace.tenant_id, role=Role.OWNER.value)
    found = owners.exclude(user__email="").filter(user__is_active=True).order_by("pk")
    addresses = found.values_list("user__email", flat=True)
    return list(dict.fromkeys(addresses))[:RECIPIENTS_MAX]


def queue_emails(run: ReportRun, now_ms: int) -> int:
    """In the transaction that ends a run: a row for each address of each namespace with reports.

    How many. Only nights are told of, and only when they are new enough to be news.
    """
    oldest = timezone.now().date() - dt.timedelta(days=EMAIL_RETAINED_DAYS)
    if run.trigger != Trigger.NIGHTLY.value or not settings.MQ_EMAIL_URL or run.from_date <= oldest:
        return 0
    parts = ReportPart.objects.filter(date=run.from_date).order_by("namespace_id")
    ids = parts.values_list("namespace_id", flat=True).distinct()
    rows = [
        ReportMail(namespace=namespace, date=run.from_date, address=address, due_ms=now_ms)
        for namespace in Namespace.objects.filter(pk__in=list(ids)).order_by("pk")
        for address in recipients_of(namespace)
    ]
    ReportMail.objects.bulk_create(rows, ignore_conflicts=True, batch_size=1_000)
    return len(rows)


@transaction.atomic
def claim_emails(now_ms: int) -> list[int]:
    """Ids of mails to be sent now, claimed; those whose worker is gone become unknown."""
    rows = ReportMail.objects.select_for_update(skip_locked=True)
    lost = rows.filter(state=MailState.SENDING.value, due_ms__lte=now_ms)
    lost_ids = list(lost.values_list("pk", flat=True)[:EMAILS_SWEPT_MAX])
    ReportMail.objects.filter(pk__in=lost_ids).update(
        state=MailState.UNKNOWN.value, error="its worker died while it was sent"
    )
    due = rows.filter(state=MailState.PENDING.value, due_ms__lte=now_ms)
    ids = list(due.order_by("due_ms", "pk").values_list("pk", flat=True)[:EMAILS_SWEPT_MAX])
    # Nobody else finds them for so long; if their order is lost they are found again.
    ReportMail.objects.filter(pk__in=ids).update(due_ms=now_ms + EMAIL_CLAIM_MS)
    return ids


def send_email(mail_id: int, clock: Clock) -> None:
    """Send one, if it is still to be sent, and note what became of it. Raises nothing of what goes
    wrong with the mail server.
    """
    due_ms = clock.now_ms() + EMAIL_CLAIM_MS
    mine = ReportMail.objects.filter(pk=mail_id, state=MailState.PENDING.value)
    if mine.update(state=MailState.SENDING.value, due_ms=due_ms) != 1:
        return
    mail = ReportMail.objects.select_related("namespace").get(pk=mail_id)
    error, is_final = _try(mail)
    attempt_count = mail.attempt_count + 1
    values = {"state": MailState.SENT.value, "error": "", "attempt_count": attempt_count}
    if error is not None:
        is_over = is_final or attempt_count >= EMAIL_ATTEMPTS_MAX
        values["state"] = (MailState.FAILED if is_over else MailState.PENDING).value
        values["error"] = error[:ERROR_CHARS_MAX]
        due_ms = clock.now_ms() + (EMAIL_RETRY_MS << mail.attempt_count)
        log.warning(
            "Could not send a nightly summary",
            extra={
                "action": "report_mail_failed" if is_over else "report_mail_delayed",
                "namespace": mail.namespace.name,
                "attempt": attempt_count,
                "error": error,
            },
        )
    sending = ReportMail.objects.filter(pk=mail_id, state=MailState.SENDING.value)
    sending.update(due_ms=due_ms, **values)


def delete_old_emails() -> None:
    """Forget mails of nights that are told to nobody any more."""
    oldest = timezone.now().date() - dt.timedelta(days=EMAIL_RETAINED_DAYS)
    ReportMail.objects.filter(date__lt=oldest).delete()


def compose_email(day: Day) -> tuple[str, str]:
    """Subject and text."""
    with translation.override("en"):
        view = day_view(day)
    produced, letters = view.figures[0].value, count(round(day.dead_letters.now or 0))
    told = f"{produced} messages, {letters} dead letters"
    subject = f"{day.namespace}, {day.date}: {told}"
    lines = [f"{day.namespace} on {day.date:%A, %d %B %Y} ({day.zone})", ""]
    if not day.is_complete:
        lines += ["The log did not have all of the day when this report was generated.", ""]
    lines += [f"{figure.name}: {figure.value} ({figure.change})" for figure in view.figures]
    if day.behind:
        lines += ["", "Groups with the largest lag:"]
        lines += [
            f"- {each.group} on {each.topic}: {line.value}, {line.notes}"
            for each, line in zip(day.behind[:EMAIL_LINES_MAX], view.behind, strict=False)
        ]
    if day.reasons:
        lines += ["", "Dead letters:"]
        lines += [
            f"- {line.value} in {each.group}: {line.name}{' (new)' if line.is_new else ''}"
            for each, line in zip(day.reasons[:EMAIL_LINES_MAX], view.reasons, strict=False)
        ]
    lines += [
        "",
        f"The attached page has the full report. It is also at {settings.MQ_BASE_URL}"
        f"/v1/ns/{day.namespace}/reports/daily.html?date={day.date}",
        "This email goes to the owners of the tenant unless recipients are set with "
        f"PUT /v1/ns/{day.namespace}/reports/recipients.",
    ]
    return subject, "\n".join(lines) + "\n"


def _try(mail: ReportMail) -> tuple[str | None, bool]:
    """What went wrong, None for nothing, and whether it always will."""
    day = read_day(mail.namespace, mail.date)
    subject, text = compose_email(day)
    # The same for each attempt, so that what knows such ids passes over a second copy.
    identity = f"{mail.namespace_id}/{mail.date}/{mail.address}".encode()
    sender = settings.MQ_EMAIL_FROM.rpartition("@")[2].strip("> ") or "localhost"
    message_id = f"<report.{hashlib.sha256(identity).hexdigest()[:32]}@{sender}>"
    headers = {"Message-ID": message_id, "Auto-Submitted": "auto-generated"}
    message = EmailMessage(subject, text, to=[mail.address], headers=headers)
    page = page_of(day)
    if len(page.encode()) <= EMAIL_PAGE_BYTES_MAX:
        message.attach(f"{mail.namespace.name}-{mail.date}.html", page, "text/html")
    try:
        message.send()
    except ValueError as exc:  # a header that Django refuses
        return str(exc), True
    except (smtplib.SMTPRecipientsRefused, smtplib.SMTPSenderRefused) as exc:
        return f"the mail server refused it: {type(exc).__name__}", True
    except (smtplib.SMTPException, OSError) as exc:
        # The server's words may tell of our own network.
        return f"the mail server did not accept it: {type(exc).__name__}", False
    return None, False
