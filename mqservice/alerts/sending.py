"""Sends notifications by email and webhook: claimed, sent, and retried later after a failure.

    sweep ── due, now claimed ──▶ send(notification id) ──▶ e-mail, webhook ──▶ sent
                 ▲                                               └─ failed: later, at most 8 times
                 └── a worker that died gives its claim up by time

A notification whose worker died while it sent is sent again, under the same event id.
"""

from __future__ import annotations

import logging
import smtplib
from typing import Final

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import Q

from mqservice.alerts.addresses import TargetRejected
from mqservice.alerts.event_texts import mail_of, webhook_body
from mqservice.alerts.limits import (
    ATTEMPTS_MAX,
    CLAIM_MS,
    ERROR_CHARS_MAX,
    PAUSE_MS_MAX,
    PAUSE_MS_MIN,
    SWEPT_MAX,
)
from mqservice.alerts.models import AlertEvent, Channel, Delivery, EventState, Notification
from mqservice.alerts.webhook import WebhookFailed, post, signature
from mqservice.lib.clock import Clock

log = logging.getLogger(__name__)

# Whether ``claim_due`` would find something, for one look at the database each second.
ANY_DUE: Final = f"""EXISTS (
    SELECT FROM alerts_notification WHERE state = '{Delivery.PENDING.value}'
    AND due_ms NOT BETWEEN %(now_ms)s + 1 AND %(now_ms)s + {PAUSE_MS_MAX + CLAIM_MS}
)"""


@transaction.atomic
def claim_due(now_ms: int) -> list[int]:
    """Ids of notifications to send now, those that wait longest first; claimed for a minute."""
    due = Notification.objects.select_for_update(skip_locked=True).filter(
        Q(due_ms__lte=now_ms) | Q(due_ms__gt=now_ms + PAUSE_MS_MAX + CLAIM_MS),  # clock set back
        state=Delivery.PENDING,
    )
    ids = list(due.order_by("due_ms").values_list("id", flat=True)[:SWEPT_MAX])
    Notification.objects.filter(pk__in=ids).update(due_ms=now_ms + CLAIM_MS)
    return ids


def send(notification_id: int, clock: Clock) -> None:
    """Send one notification, if it is pending, and note what became of it. Raises nothing of what
    goes wrong with the other side.
    """
    rows = Notification.objects.select_related("event__rule__namespace")
    found = rows.filter(pk=notification_id, state=Delivery.PENDING).first()
    if found is None:
        return
    error, is_final = _try(found, clock.now_ms())
    attempt_count = found.attempt_count + 1
    # Only the attempt that this row stood for counts: another worker may have been faster.
    mine = Notification.objects.filter(
        pk=found.pk, state=Delivery.PENDING, attempt_count=found.attempt_count
    )
    if error is None:
        mine.update(state=Delivery.SENT.value, attempt_count=attempt_count, error="")
        return
    is_test = found.event.state == EventState.TEST  # somebody waits for its result
    is_over = is_final or is_test or attempt_count >= ATTEMPTS_MAX
    mine.update(
        state=(Delivery.FAILED if is_over else Delivery.PENDING).value,
        attempt_count=attempt_count,
        error=error[:ERROR_CHARS_MAX],
        due_ms=clock.now_ms() + pause_ms(attempt_count),
    )
    log.warning(
        "Could not send an alert notification",
        extra={
            "action": "notification_failed" if is_over else "notification_delayed",
            "event": found.event.public_id,
            "channel": found.channel,
            "attempt": attempt_count,
            "error": error,
        },
    )


def pause_ms(attempt_count: int) -> int:
    """How long to wait after so many attempts: doubled each time, up to a quarter of an hour."""
    return min(PAUSE_MS_MAX, PAUSE_MS_MIN << min(attempt_count - 1, 20))


def _try(notification: Notification, now_ms: int) -> tuple[str | None, bool]:
    """What went wrong, None for nothing, and whether it always will."""
    event = notification.event
    try:
        if notification.channel == Channel.EMAIL:
            _email(event, notification.target)
        else:
            _webhook(event, notification.target, now_ms)
    except TargetRejected as exc:
        return str(exc), True
    except WebhookFailed as exc:
        return str(exc), False
    except (smtplib.SMTPException, OSError) as exc:
        # The server's words may tell of our own network.
        return f"the mail server did not accept it: {type(exc).__name__}", False
    return None, False


def _webhook(event: AlertEvent, url: str, now_ms: int) -> None:
    body = webhook_body(event)
    timestamp_s = now_ms // 1_000
    post(
        url,
        body,
        {
            "X-MQ-Event": event.public_id,
            "X-MQ-Timestamp": str(timestamp_s),
            "X-MQ-Signature": signature(event.rule.webhook_secret, timestamp_s, body),
        },
        allowed=settings.MQ_WEBHOOK_NETWORKS,
    )


def _email(event: AlertEvent, address: str) -> None:
    rule = event.rule
    subject, text = mail_of(event, rule)
    message = EmailMessage(subject, text, to=[address], headers={"X-MQ-Event": event.public_id})
    try:
        message.send()
    except ValueError as exc:  # a header that Django refuses
        raise TargetRejected(str(exc)) from exc
