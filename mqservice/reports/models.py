"""Rows of reports: runs and their results.

    pending ── claimed ──▶ running ── all loaded ──▶ done
       ▲                      ├── failed for good ─▶ failed
       └── failed, once more ─┘

Only one run is running at a time: a unique index says so, whatever the workers believe. ``claim``
is the worker's proof that the row is still its own, ``claimed_until_ms`` how long without a sign.

    a night done ──▶ ReportMail pending ── claimed ──▶ sending ──▶ sent
                        ▲                                ├── refused for good ─▶ failed
                        └── not taken: later, 5 times ───┤
                                                         └── its worker died ──▶ unknown
"""

from __future__ import annotations

import enum
import secrets
from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.db import models

from mqservice.accounts.models import Namespace
from mqservice.reports.limits import EMAIL_CHARS_MAX, RECIPIENTS_MAX

ID_PREFIX: Final = "run_"
ID_RANDOM_BYTES: Final = 12
ERROR_CHARS_MAX: Final = 500
REPORT_CHARS_MAX: Final = 64
ZONE_CHARS_MAX: Final = 64


class RunState(enum.StrEnum):
    """See the module's docstring."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Trigger(enum.StrEnum):
    NIGHTLY = "nightly"
    BY_HAND = "by_hand"


ACTIVE_STATES: Final = (RunState.PENDING.value, RunState.RUNNING.value)


def new_run_id() -> str:
    return ID_PREFIX + secrets.token_hex(ID_RANDOM_BYTES)


class ReportRun(models.Model):
    """Reports of the days ``[from_date, to_date)`` of ``zone``, for the whole installation.

    ``namespace`` is that of who asked; none for a nightly run. ``error`` is for tenants to read,
    ``error_code`` one of ``programs.Failure``. Times that decide anything are epoch ms.
    """

    public_id = models.CharField(max_length=40, unique=True, default=new_run_id)
    trigger = models.CharField(
        max_length=16, choices=[(each.value, each.value) for each in Trigger]
    )
    namespace = models.ForeignKey(
        Namespace, on_delete=models.CASCADE, related_name="report_runs", null=True, blank=True
    )
    created_by = models.CharField(max_length=80)
    from_date = models.DateField()
    to_date = models.DateField()
    zone = models.CharField(max_length=ZONE_CHARS_MAX)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    state = models.CharField(
        max_length=16,
        choices=[(state.value, state.value) for state in RunState],
        default=RunState.PENDING.value,
    )
    step = models.CharField(max_length=REPORT_CHARS_MAX, blank=True)
    done_count = models.PositiveIntegerField(default=0)
    total_count = models.PositiveIntegerField(default=0)
    row_count = models.BigIntegerField(default=0)
    is_complete = models.BooleanField(default=False)  # every day of it was over and all in the log
    error_code = models.CharField(max_length=32, blank=True)
    error = models.CharField(max_length=ERROR_CHARS_MAX, blank=True)
    attempt_count = models.PositiveIntegerField(default=0)
    next_try_ms = models.BigIntegerField()
    claim = models.PositiveIntegerField(default=0)
    claimed_until_ms = models.BigIntegerField(default=0)
    queued_until_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["state"],
                condition=models.Q(state=RunState.RUNNING.value),
                name="report_run_one_slot",
            ),
            models.UniqueConstraint(
                fields=["from_date"],
                condition=models.Q(trigger=Trigger.NIGHTLY.value),
                name="report_run_night_unique",
            ),
            models.CheckConstraint(
                condition=models.Q(to_date__gt=models.F("from_date")), name="report_run_has_days"
            ),
        )
        indexes = (
            models.Index(
                fields=["next_try_ms"],
                name="report_run_due",
                condition=models.Q(state__in=ACTIVE_STATES),
            ),
        )

    def __str__(self) -> str:
        return f"{self.public_id} ({self.from_date} to {self.to_date}, {self.state})"


class ReportPart(models.Model):
    """What one report says of a namespace on one day: rows as Spark made them.

    ``rows_left_out``: so many more there were. A day on which a report found nothing has no part.
    """

    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="+")
    report = models.CharField(max_length=REPORT_CHARS_MAX)
    date = models.DateField()
    zone = models.CharField(max_length=ZONE_CHARS_MAX)
    rows = models.JSONField()
    rows_left_out = models.BigIntegerField(default=0)
    is_complete = models.BooleanField()
    made_ms = models.BigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["namespace", "report", "date"], name="report_part_unique"
            ),
        )
        indexes = (models.Index(fields=["date"], name="report_part_date"),)

    def __str__(self) -> str:
        return f"{self.report} of {self.date}"


class ReportRecipients(models.Model):
    """Who gets the summary of a namespace's night; without a row it is the owners of its tenant."""

    namespace = models.OneToOneField(
        Namespace, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    emails = ArrayField(models.CharField(max_length=EMAIL_CHARS_MAX), size=RECIPIENTS_MAX)

    def __str__(self) -> str:
        return f"{len(self.emails)} of {self.namespace_id}"


class MailState(enum.StrEnum):
    """See the module's docstring. UNKNOWN: it may have arrived, so it is not sent again."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    UNKNOWN = "unknown"


class ReportMail(models.Model):
    """The summary of a night for one address: one row, hence one mail, however often it is made.

    ``due_ms``: when it is to be sent; while it is sent, until when its worker may take.
    """

    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="+")
    date = models.DateField()
    address = models.CharField(max_length=EMAIL_CHARS_MAX)
    state = models.CharField(
        max_length=16,
        choices=[(state.value, state.value) for state in MailState],
        default=MailState.PENDING.value,
    )
    attempt_count = models.PositiveSmallIntegerField(default=0)
    due_ms = models.BigIntegerField()
    error = models.CharField(max_length=ERROR_CHARS_MAX, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["namespace", "date", "address"], name="report_mail_once"
            ),
        )
        indexes = (
            models.Index(
                fields=["due_ms"],
                name="report_mail_due",
                condition=models.Q(state__in=[MailState.PENDING.value, MailState.SENDING.value]),
            ),
        )

    def __str__(self) -> str:
        return f"{self.date} for {self.address}: {self.state}"
