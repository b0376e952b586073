"""Rows of schedules: what is sent, when, and the result of the last run.

             next_ms is over                         sent, or refused for good
    waiting ─────────────────▶ due ── the sweep ──▶ ────────────────────────────▶ waiting
                                ▲                └─ busy, full: due_ms a while later ─┐
                                └─────────────────────────────────────────────────────┘

``next_ms`` is the planned time of the next run, ``due_ms`` when it is looked at: the same, or later
while it is tried again. Both are None of one that is paused. Times are epoch ms.
"""

from __future__ import annotations

import enum
import secrets
from typing import Final

from django.db import models

from mqservice.accounts.models import Namespace
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.schedules.limits import (
    CRON_CHARS_MAX,
    DESCRIPTION_CHARS_MAX,
    ERROR_CHARS_MAX,
    ZONE_CHARS_MAX,
)
from mqservice.schedules.settings import CATCH_UP, ENABLED, CatchUp

ID_PREFIX: Final = "sch_"
ID_RANDOM_BYTES: Final = 12


class ScheduleState(enum.StrEnum):
    """FAILING: the last run was not sent, or the topic is gone."""

    ACTIVE = "active"
    PAUSED = "paused"
    FAILING = "failing"


def new_schedule_id() -> str:
    return ID_PREFIX + secrets.token_hex(ID_RANDOM_BYTES)


class Schedule(models.Model):
    """``revision`` counts changes of the settings and becomes the ETag; how it runs is none.
    ``public_id`` and the planned time are what a run is known by, so a schedule that was deleted
    and made again has other runs.
    """

    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="schedules")
    public_id = models.CharField(max_length=40, unique=True, default=new_schedule_id)
    name = models.CharField(max_length=NAME_CHARS_MAX)
    topic = models.CharField(max_length=NAME_CHARS_MAX)
    cron = models.CharField(max_length=CRON_CHARS_MAX)
    time_zone = models.CharField(max_length=ZONE_CHARS_MAX, default="UTC")
    catch_up = models.CharField(
        max_length=16,
        choices=[(each.value, each.value) for each in CatchUp],
        default=CATCH_UP.default,
    )
    is_enabled = models.BooleanField(default=ENABLED.default)
    description = models.CharField(max_length=DESCRIPTION_CHARS_MAX, blank=True)

    body = models.BinaryField()
    is_json = models.BooleanField(default=False)
    tag = models.TextField(null=True)
    keys = models.JSONField(default=list)
    message_group = models.TextField(null=True)
    properties = models.JSONField(default=dict)
    queue = models.IntegerField(null=True)

    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    created_by = models.CharField(max_length=200, blank=True)

    next_ms = models.BigIntegerField(null=True)
    due_ms = models.BigIntegerField(null=True)
    try_count = models.PositiveIntegerField(default=0)  # of the run that is due
    last_ms = models.BigIntegerField(null=True)  # planned time of the last run
    last_message_id = models.CharField(max_length=40, blank=True)
    last_error = models.CharField(max_length=ERROR_CHARS_MAX, blank=True)
    missed_ms = models.BigIntegerField(null=True)  # the last time that CatchUp.NONE left out

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["namespace", "name"], name="schedule_name_unique"),
        )
        indexes = (
            models.Index(
                fields=["due_ms"],
                condition=models.Q(due_ms__isnull=False),
                name="schedule_due",
            ),
        )

    def __str__(self) -> str:
        return f"{self.name}: {self.cron}"
