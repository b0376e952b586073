"""One delivery of a task: claims its row, runs it, and records what came of it.

    message ─▶ [claim] ─▶ the task's function ─▶ [finish] ─▶ DONE: ack, AGAIN: nack

Called on a thread. Rows are changed by conditional updates: a delivery whose row belongs to
another message, or is finished, does nothing.
"""

from __future__ import annotations

import logging
from enum import Enum
from traceback import format_exception

from django.db import close_old_connections, router, transaction
from django.db.models import Q
from django.utils import timezone

from .backend import TaskBackend
from .compat import (
    TaskContext,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from .models import TaskRecord

# By value: without Django's plugin type checkers do not know what members of its enums are.
READY, RUNNING, FAILED, SUCCESSFUL = map(
    TaskResultStatus, ("READY", "RUNNING", "FAILED", "SUCCESSFUL")
)
log = logging.getLogger("mqservice_client")


class Outcome(Enum):
    DONE = "done"
    AGAIN = "again"


class WorkerEnded(Exception):
    """Workers ended, again and again, while they ran the task."""


def execute(backend: TaskBackend, task_id: str, message_id: str, worker_id: str) -> Outcome:
    """Run one task. Raises what the database raises; the message is then to be delivered again."""
    close_old_connections()
    try:
        record = claim(task_id, message_id, worker_id)
        if record is None:
            return Outcome.DONE
        return _run(backend, record)
    finally:
        close_old_connections()


def claim(task_id: str, message_id: str, worker_id: str) -> TaskRecord | None:
    """The row, now RUNNING for this message; None if there is nothing to run."""
    database = router.db_for_write(TaskRecord)
    ours = Q(status=READY) | Q(status=RUNNING, message_id=message_id)
    now = timezone.now()
    with transaction.atomic(using=database):
        changed = TaskRecord.objects.filter(ours, pk=task_id).update(
            status=RUNNING, message_id=message_id, last_attempted_at=now
        )
        if not changed:
            log.info(
                "A message leads to no task that is still to be run",
                extra={"action": "task_skipped", "task_id": task_id, "message_id": message_id},
            )
            return None
        record: TaskRecord = TaskRecord.objects.get(pk=task_id)
        record.worker_ids.append(worker_id)
        record.started_at = record.started_at or now
        record.save(update_fields=["worker_ids", "started_at"], using=database)
    return record


def _run(backend: TaskBackend, record: TaskRecord) -> Outcome:
    may_run_again = False
    try:
        result = record.result()
        if len(record.worker_ids) - len(record.errors) > backend.settings.deliveries_max:
            raise WorkerEnded(f"{backend.settings.deliveries_max} workers ended during the task")
        may_run_again = len(record.errors) + 1 < backend.settings.max_attempts
        task_started.send(type(backend), task_result=result)
        context = [TaskContext(task_result=result)] if result.task.takes_context else []
        record.return_value = normalize_json(
            result.task.call(*context, *result.args, **result.kwargs)
        )
    except BaseException as exc:  # whatever a task raises is its result, as Django has it
        path = f"{type(exc).__module__}.{type(exc).__qualname__}"
        text = "".join(format_exception(exc))
        record.errors.append({"exception_class_path": path, "traceback": text})
        if may_run_again:
            _finish(backend, record, READY)
            return Outcome.AGAIN
        _finish(backend, record, FAILED)
    else:
        _finish(backend, record, SUCCESSFUL)
    return Outcome.DONE


def _finish(backend: TaskBackend, record: TaskRecord, status: TaskResultStatus) -> None:
    record.status = status
    record.finished_at = None if status == READY else timezone.now()
    close_old_connections()  # the task may have run for long
    changed = TaskRecord.objects.filter(
        pk=record.pk, status=RUNNING, message_id=record.message_id
    ).update(
        status=record.status,
        finished_at=record.finished_at,
        errors=record.errors,
        return_value=record.return_value,
    )
    if not changed:
        log.warning(
            "A task ended after another message had taken it over",
            extra={"action": "task_taken_over", "task_id": record.pk},
        )
    elif record.finished_at is not None:
        task_finished.send(type(backend), task_result=record.result())
