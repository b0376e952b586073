"""Rows of long tasks: what to do, the progress, and what could not be done.

    pending ── claimed ──▶ running ── nothing left ──▶ done
       │                      ├────── refused ───────▶ failed
       └───── cancelled ──────┴──────────────────────▶ cancelled

A worker has a running task for one turn at a time. ``claim`` counts the turns and is the worker's
proof that the row is still its own; ``claimed_until_ms`` is 0 between turns. Times that decide
anything are epoch ms of the worker's clock; those that people read are ``datetime``.
"""

from __future__ import annotations

import enum
import secrets
from typing import Final

from django.db import models

from mqservice.accounts.models import Namespace
from mqservice.lib.names import NAME_CHARS_MAX, engine_name
from mqservice.tasks.limits import ID_CHARS_MAX

ID_PREFIX: Final = "task_"
ID_RANDOM_BYTES: Final = 12
ERROR_CHARS_MAX: Final = 500


class TaskKind(enum.StrEnum):
    """What a task does to a group's dead letters."""

    REDRIVE = "redrive"
    PURGE = "purge"


class TaskState(enum.StrEnum):
    """See the module's docstring."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ACTIVE_STATES: Final = (TaskState.PENDING.value, TaskState.RUNNING.value)


class FailureOutcome(enum.StrEnum):
    """Why a message was not moved.

    GONE: somebody else moved or dropped it, or it expired. NOT_FOUND: there was no such id.
    NO_TOPIC: the topic it came from does not exist. DAMAGED: it cannot be read from the disk.
    """

    GONE = "gone"
    NOT_FOUND = "not_found"
    NO_TOPIC = "no_topic"
    DAMAGED = "damaged"


def new_task_id() -> str:
    return ID_PREFIX + secrets.token_hex(ID_RANDOM_BYTES)


class Task(models.Model):
    """One task. Its messages are those of the group's DLQ in [begin_offset, end_offset).

    ``end_offset`` is where the DLQ ended when the task was made: what is given up again meanwhile
    is not moved a second time. ``batch`` is what a step was about to do, noted before it does it.
    """

    public_id = models.CharField(max_length=40, unique=True, default=new_task_id)
    namespace = models.ForeignKey(Namespace, on_delete=models.PROTECT, related_name="tasks")
    kind = models.CharField(max_length=16, choices=[(kind.value, kind.value) for kind in TaskKind])
    group_name = models.CharField(max_length=NAME_CHARS_MAX)
    target = models.CharField(max_length=NAME_CHARS_MAX, blank=True)  # "": where each came from
    selection = models.JSONField()
    rate = models.PositiveIntegerField()  # messages per second
    begin_offset = models.BigIntegerField()
    end_offset = models.BigIntegerField()
    created_by = models.CharField(max_length=80)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    state = models.CharField(
        max_length=16,
        choices=[(state.value, state.value) for state in TaskState],
        default=TaskState.PENDING.value,
    )
    error = models.CharField(max_length=ERROR_CHARS_MAX, blank=True)
    place = models.TextField(blank=True)
    batch = models.JSONField(null=True, blank=True)

    total_count = models.BigIntegerField(null=True, blank=True)
    to_look_count = models.BigIntegerField()
    looked_count = models.BigIntegerField(default=0)
    moved_count = models.BigIntegerField(default=0)
    skipped_count = models.BigIntegerField(default=0)
    failed_count = models.BigIntegerField(default=0)
    listed_count = models.PositiveIntegerField(default=0)  # rows of TaskFailure

    claim = models.PositiveIntegerField(default=0)
    claimed_until_ms = models.BigIntegerField(default=0)
    queued_until_ms = models.BigIntegerField(default=0)
    next_step_ms = models.BigIntegerField(default=0)
    paced_us = models.BigIntegerField()
    error_count = models.PositiveIntegerField(default=0)  # since the last step that went well
    lost_count = models.PositiveIntegerField(default=0)  # likewise: workers that died

    class Meta:
        indexes = (
            models.Index(fields=["namespace", "-id"], name="task_namespace_newest"),
            models.Index(
                fields=["next_step_ms"],
                name="task_due",
                condition=models.Q(state__in=ACTIVE_STATES),
            ),
        )
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=[state.value for state in TaskState]),
                name="task_state_known",
            ),
            models.CheckConstraint(condition=models.Q(rate__gte=1), name="task_rate_positive"),
        )

    def __str__(self) -> str:
        return f"{self.public_id} ({self.kind} of {self.group_name}, {self.state})"

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE_STATES

    @property
    def not_moved_count(self) -> int:
        return self.skipped_count + self.failed_count

    @property
    def engine_group(self) -> str:
        """Reads ``namespace``: one query unless it was selected along."""
        return engine_name(namespace=self.namespace.name, name=self.group_name)


class TaskFailure(models.Model):
    """A message that a task did not move. ``queue_offset`` is None where there was no message."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="failures")
    message_id = models.CharField(max_length=ID_CHARS_MAX)
    queue_offset = models.BigIntegerField(null=True, blank=True)
    outcome = models.CharField(
        max_length=16, choices=[(outcome.value, outcome.value) for outcome in FailureOutcome]
    )

    class Meta:
        indexes = (models.Index(fields=["task", "id"], name="task_failure_order"),)

    def __str__(self) -> str:
        return f"{self.message_id}: {self.outcome}"
