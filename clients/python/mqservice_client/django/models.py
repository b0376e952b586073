"""Tasks and their results: a row is stored in the transaction that enqueues the task.

    READY ──claimed──▶ RUNNING ─┬─▶ SUCCESSFUL
      ▲                         ├─▶ FAILED
      └──── to be tried again ──┘

``message_id`` is the message that may run the task: a task whose message was sent twice is run by
one of the two. A row without ``sent_at`` has not been sent, and a worker does so.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.module_loading import import_string

from .compat import Task, TaskError, TaskResult, TaskResultStatus

ID_BYTES = 16


def new_id() -> str:
    return secrets.token_hex(ID_BYTES)


class TaskRecord(models.Model):
    """One task that was enqueued."""

    id: models.CharField[str, str] = models.CharField(
        primary_key=True, max_length=64, default=new_id, editable=False
    )
    backend: models.CharField[str, str] = models.CharField(max_length=64)
    queue_name: models.CharField[str, str] = models.CharField(max_length=64)
    priority: models.SmallIntegerField[int, int] = models.SmallIntegerField()
    task_path: models.TextField[str, str] = models.TextField()
    # Any: JSON of the program's own.
    args: models.JSONField[list[Any], list[Any]] = models.JSONField()
    kwargs: models.JSONField[dict[str, Any], dict[str, Any]] = models.JSONField()
    run_after: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        null=True
    )
    status: models.CharField[str, str] = models.CharField(
        max_length=16, choices=TaskResultStatus.choices, default=TaskResultStatus.READY
    )
    enqueued_at: models.DateTimeField[datetime, datetime] = models.DateTimeField(
        default=timezone.now
    )
    sent_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        null=True
    )
    started_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        null=True
    )
    last_attempted_at: models.DateTimeField[datetime | None, datetime | None] = (
        models.DateTimeField(null=True)
    )
    finished_at: models.DateTimeField[datetime | None, datetime | None] = models.DateTimeField(
        null=True
    )
    errors: models.JSONField[list[dict[str, str]], list[dict[str, str]]] = models.JSONField(
        default=list
    )
    worker_ids: models.JSONField[list[str], list[str]] = models.JSONField(default=list)
    message_id: models.CharField[str, str] = models.CharField(max_length=64, default="", blank=True)
    return_value: models.JSONField[Any, Any] = models.JSONField(null=True)  # Any: the task's own

    objects: ClassVar[models.Manager[TaskRecord]] = models.Manager()

    class Meta:
        app_label = "mqservice_client"
        verbose_name = "task"
        indexes = (
            models.Index(
                name="mqservice_unsent", fields=["enqueued_at"], condition=Q(sent_at__isnull=True)
            ),
            models.Index(name="mqservice_finished", fields=["finished_at"]),
        )

    def __str__(self) -> str:
        return f"{self.task_path} {self.id} ({self.status})"

    @property
    def task(self) -> Task[..., Any]:
        """The task as it was enqueued. Raises ImportError where the code is not, or no longer."""
        found = import_string(self.task_path)
        if not isinstance(found, Task):
            raise ImportError(f"{self.task_path} is no task")
        return found.using(
            priority=self.priority,
            queue_name=self.queue_name,
            run_after=self.run_after,
            backend=self.backend,
        )

    def result(self) -> TaskResult[..., Any]:
        """The row as Django's ``TaskResult``. Raises ImportError."""
        result: TaskResult[..., Any] = TaskResult(
            task=self.task,
            id=self.id,
            status=TaskResultStatus(self.status),
            enqueued_at=self.enqueued_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            last_attempted_at=self.last_attempted_at,
            args=self.args,
            kwargs=self.kwargs,
            backend=self.backend,
            errors=[TaskError(**error) for error in self.errors],
            worker_ids=self.worker_ids,
        )
        object.__setattr__(result, "_return_value", self.return_value)  # frozen, as Django has it
        return result
