"""Rows of issues.

    ScanPlace ── up to where a group's dead letters were counted ──▶ Issue ── changes ──▶ IssueEvent
    IssueBook ── one of a namespace: what its issues share; its lock orders who changes them

               acknowledge            resolve, or quiet for long enough
    open ─────────────────▶ acknowledged ─────────▶ resolved
      ├─────────────────────────────────────────────▶ │
      ├─── ignore ──▶ ignored                         │
      ◀── reopen ───────┴───────── reopen, a new letter

An issue is acknowledged, resolved, ignored and reopened from any other state. New letters change
only what is resolved: of the others they are counted. Times are epoch ms; those of letters are the
engine's.
"""

from __future__ import annotations

import enum
import secrets
from typing import Final

from django.db import models

from mqservice.accounts.models import Namespace
from mqservice.issues.limits import QUIET_MS_DEFAULT, REASON_CHARS_MAX, SAMPLE_CHARS_MAX
from mqservice.lib.names import NAME_CHARS_MAX

ID_PREFIX: Final = "iss_"
ID_RANDOM_BYTES: Final = 12
ACTOR_CHARS_MAX: Final = 200
NOWHERE: Final = -1  # a place from which nothing was read yet


class IssueKind(enum.StrEnum):
    """What has failed. DEAD_LETTER: messages that the group gave up."""

    DEAD_LETTER = "dead_letter"


class IssueState(enum.StrEnum):
    """See the module's docstring."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    IGNORED = "ignored"


class StateChangeReason(enum.StrEnum):
    """Why the state of an issue changed. FIRST, AGAIN: of letters; QUIET: there were none."""

    FIRST = "first"
    AGAIN = "again"
    QUIET = "quiet"
    BY_HAND = "by_hand"


def new_issue_id() -> str:
    return ID_PREFIX + secrets.token_hex(ID_RANDOM_BYTES)


class IssueBook(models.Model):
    """Locked by whoever changes issues of the namespace.

    ``opening_count``: how often an issue was opened or reopened; the number of the last one.
    ``other_count``: letters whose reasons are above the limit. ``unseen_count``: letters that were
    gone from the store before they were looked at. ``quiet_ms`` 0: none is resolved by itself.
    """

    namespace = models.OneToOneField(
        Namespace, on_delete=models.CASCADE, related_name="issue_book", primary_key=True
    )
    opening_count = models.BigIntegerField(default=0)
    other_count = models.BigIntegerField(default=0)
    other_ms = models.BigIntegerField(default=0)
    unseen_count = models.BigIntegerField(default=0)
    unseen_ms = models.BigIntegerField(default=0)
    quiet_ms = models.BigIntegerField(default=QUIET_MS_DEFAULT)

    def __str__(self) -> str:
        return f"issues of {self.namespace_id}"


class ScanPlace(models.Model):
    """Every dead letter of the group below ``next_offset`` was counted, or was gone. Locked by
    whoever counts more.
    """

    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="+")
    group_name = models.CharField(max_length=NAME_CHARS_MAX)
    next_offset = models.BigIntegerField(default=NOWHERE)
    scanned_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["namespace", "group_name"], name="scan_place_unique"),
        )

    def __str__(self) -> str:
        return f"{self.group_name} up to {self.next_offset}"


class Issue(models.Model):
    """``reason``: the cause, see ``reasons``; ``sample``: the newest reason as it was written.

    ``opening_number``: of the book, when it was last opened. ``hours``: letters by hour since the
    epoch, of the newest hours. ``examples``: the newest messages, each with its id and time.
    """

    public_id = models.CharField(max_length=40, unique=True, default=new_issue_id)
    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="issues")
    kind = models.CharField(max_length=16, choices=[(each.value, each.value) for each in IssueKind])
    group_name = models.CharField(max_length=NAME_CHARS_MAX)
    topic = models.CharField(max_length=NAME_CHARS_MAX, blank=True)
    reason = models.CharField(max_length=REASON_CHARS_MAX, blank=True)
    sample = models.CharField(max_length=SAMPLE_CHARS_MAX, blank=True)

    count = models.BigIntegerField(default=0)
    first_ms = models.BigIntegerField()
    last_ms = models.BigIntegerField()
    hours = models.JSONField(default=dict)
    examples = models.JSONField(default=list)

    state = models.CharField(
        max_length=16,
        choices=[(each.value, each.value) for each in IssueState],
        default=IssueState.OPEN.value,
    )
    changed_ms = models.BigIntegerField()
    changed_by = models.CharField(max_length=ACTOR_CHARS_MAX, blank=True)  # "": the service
    opening_number = models.BigIntegerField()
    reopen_count = models.PositiveIntegerField(default=0)
    event_count = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["namespace", "kind", "group_name", "topic", "reason"], name="issue_cause"
            ),
        )
        indexes = (
            models.Index(fields=["namespace", "-last_ms", "-id"], name="issue_last_seen"),
            models.Index(fields=["namespace", "state"], name="issue_state"),
        )

    def __str__(self) -> str:
        return f"{self.public_id} {self.state}"


class IssueEvent(models.Model):
    """One change of an issue's state; ``number`` counts them."""

    issue = models.ForeignKey(Issue, on_delete=models.CASCADE, related_name="events")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=16)
    why = models.CharField(max_length=16)
    at_ms = models.BigIntegerField()
    actor = models.CharField(max_length=ACTOR_CHARS_MAX, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["issue", "number"], name="issue_event_once"),
        )

    def __str__(self) -> str:
        return f"{self.state} {self.why}"
