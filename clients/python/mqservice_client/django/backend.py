"""The backend of Django's tasks.

    task.enqueue() ─▶ a row, in the caller's transaction ─COMMIT─▶ a message with its id ─▶ worker

The row is what counts: where the message could not be sent, a worker does so later.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

from django.apps import apps
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import router, transaction
from django.utils import timezone

from ..errors import MQError, TopicNotFound
from ..sync.client import Client
from .compat import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    task_enqueued,
)
from .connections import client_of
from .models import TaskRecord
from .options import TOPIC_RETENTION, BackendOptions, Lane

P = ParamSpec("P")
R = TypeVar("R")
AHEAD_MAX = timedelta(days=365)
log = logging.getLogger("mqservice_client")


class TaskBackend(BaseTaskBackend):
    """Stores tasks in the database and sends them through mqservice."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:  # Any: settings
        super().__init__(alias, params)
        try:
            self.settings = BackendOptions(**self.options)
        except TypeError as exc:
            raise ImproperlyConfigured(f"OPTIONS of TASKS[{alias!r}]: {exc}") from exc

    def validate_task(self, task: Task[..., Any]) -> None:
        super().validate_task(task)
        if task.run_after is not None and task.run_after > timezone.now() + AHEAD_MAX:
            raise InvalidTask(f"run_after must be at most {AHEAD_MAX.days} days ahead.")
        if why := self.settings.why_no_topic(task.queue_name):
            raise InvalidTask(why)

    def enqueue(
        self, task: Task[P, R], args: list[Any], kwargs: dict[str, Any]
    ) -> TaskResult[P, R]:
        """Store a task; it is sent when the current transaction commits.

        Raises:
            InvalidTask: it cannot be run by this backend.
            TypeError: the arguments cannot be written as JSON.
        """
        self.validate_task(task)
        record = TaskRecord(
            backend=self.alias,
            queue_name=task.queue_name,
            priority=task.priority,
            task_path=task.module_path,
            args=list(args),
            kwargs=kwargs,
            run_after=task.run_after,
        )
        result = record.result()
        record.args, record.kwargs = result.args, result.kwargs  # as JSON has them
        database = router.db_for_write(TaskRecord)
        record.save(force_insert=True, using=database)
        task_enqueued.send(type(self), task_result=result)
        transaction.on_commit(partial(self.send, record), using=database)
        return cast("TaskResult[P, R]", result)

    def get_result(self, result_id: str) -> TaskResult[..., Any]:
        """Raises TaskResultDoesNotExist."""
        try:
            record: TaskRecord = TaskRecord.objects.get(pk=result_id, backend=self.alias)
        except TaskRecord.DoesNotExist as exc:
            raise TaskResultDoesNotExist(result_id) from exc
        return record.result()

    def send(self, record: TaskRecord) -> bool:
        """Send the message of a row, and note that; whether it could be sent."""
        topic = self.settings.topic(record.queue_name, Lane.of(record.priority))
        try:
            client = client_of(self.settings.connection)
            try:
                self._publish(client, topic, record)
            except TopicNotFound:  # no worker has made it yet
                client.topics.create(topic, retention=TOPIC_RETENTION)
                self._publish(client, topic, record)
        except MQError as exc:
            log.warning(
                "Could not send a task; a worker will",
                extra={"action": "task_not_sent", "task_id": record.id, "error": str(exc)},
            )
            return False
        TaskRecord.objects.filter(pk=record.pk).update(sent_at=timezone.now())
        return True

    def _publish(self, client: Client, topic: str, record: TaskRecord) -> None:
        client.send(
            topic,
            {"id": record.id, "task": record.task_path},
            tag=record.task_path.rpartition(".")[2],
            keys=record.id,
            deliver_at=self._later(record),
            idempotency_key=f"task-{record.id}",
            timeout=self.settings.send_timeout,
        )

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:
        """Faults of the settings, for ``manage.py check``."""
        faults = [
            checks.Error(why, id="mqservice_client.E002")
            for why in map(self.settings.why_no_topic, sorted(self.queues))
            if why
        ]
        if not apps.is_installed("mqservice_client.django"):
            faults.append(
                checks.Error(
                    f"TASKS[{self.alias!r}] needs 'mqservice_client.django' in INSTALLED_APPS.",
                    id="mqservice_client.E001",
                )
            )
        return [*super().check(**kwargs), *faults]

    def _later(self, record: TaskRecord) -> Any:  # Any: None or an aware datetime
        moment = record.run_after
        if moment is None:
            return None
        if timezone.is_naive(moment):  # USE_TZ = False
            moment = timezone.make_aware(moment)
        return moment if moment > timezone.now().astimezone(moment.tzinfo) else None
