"""Message move tasks: redrives of the dead letters that a queue has, by the runner of all tasks.

    StartMessageMoveTask ──▶ a redrive of each source of the queue ──▶ one handle of them all

What was sent to the dead-letter queue itself has no source, and stays.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from django.db import transaction

from mqservice.accounts.locks import lock_namespace
from mqservice.accounts.scopes import Kind, Scope
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import datetime_ms
from mqservice.sqs.asked import Asked
from mqservice.sqs.errors import SqsError, invalid_value, sqs_error_of
from mqservice.sqs.queue_names import queue_of_arn
from mqservice.sqs.replies import MoveTask, MoveTaskCancelled, MoveTaskList, MoveTaskStarted
from mqservice.sqs.requests import (
    CancelMessageMoveTask,
    ListMessageMoveTasks,
    StartMessageMoveTask,
)
from mqservice.tasks.models import Task, TaskKind, TaskState
from mqservice.tasks.queries import get_task
from mqservice.tasks.selection import Selection
from mqservice.tasks.services import TaskRequest, cancel_task, create_task
from mqservice.topics.models import Topic

RATE_MAX: Final = 500
TASKS_MAX: Final = 10
_STATUSES: Final = {
    TaskState.PENDING: "RUNNING",
    TaskState.RUNNING: "RUNNING",
    TaskState.DONE: "COMPLETED",
    TaskState.FAILED: "FAILED",
    TaskState.CANCELLED: "CANCELLED",
}


def start_move_task(asked: Asked) -> MoveTaskStarted:
    """StartMessageMoveTask. One task for each source of the queue, under one handle."""
    wanted: StartMessageMoveTask = asked.wanted
    topic = _source_of(asked, wanted.source_arn)
    rate = wanted.max_number_of_messages_per_second
    if rate is not None and not 1 <= rate <= RATE_MAX:
        raise invalid_value("MaxNumberOfMessagesPerSecond", rate, f"Must be 1 to {RATE_MAX}.")
    target = None
    if wanted.destination_arn is not None:
        target = _topic_of(asked, wanted.destination_arn, "DestinationArn", Scope.MANAGE)
    sources = _sources_of(asked, topic)
    asked.changing()
    redrive = TaskKind.REDRIVE
    orders = [
        TaskRequest(kind=redrive, group=each, selection=Selection(), target=target, rate=rate)
        for each in sources
    ]
    with transaction.atomic():
        lock_namespace(topic.namespace)  # nobody else starts one meanwhile
        if any(task.is_active for task in _tasks_of(topic)):
            detail = "There is already a task running. Only one active task is allowed for a "
            raise SqsError("InvalidParameterValue", f"{detail}source queue arn at a given time.")
        tasks = [create_task(order, asked.principal) for order in orders]
    return MoveTaskStarted(task_handle=_handle_of([task.public_id for task in tasks]))


def purge_letters(asked: Asked, topic: Topic) -> None:
    """Drop the dead letters that a queue has, a task for each of its sources."""
    for group in _sources_of(asked, topic):
        create_task(
            TaskRequest(kind=TaskKind.PURGE, group=group, selection=Selection()), asked.principal
        )


def _sources_of(asked: Asked, topic: Topic) -> list[ConsumerGroup]:
    """Groups whose dead letters a queue has, of one who may manage them. Raises Problem."""
    sources = topic.letter_sources
    for source in sources:
        asked.principal.require(Scope.MANAGE, Kind.GROUP, source)
    rows = ConsumerGroup.objects.select_related("namespace")
    return list(rows.filter(namespace=topic.namespace, name__in=sources).order_by("name"))


def list_move_tasks(asked: Asked) -> MoveTaskList:
    """ListMessageMoveTasks, the newest first."""
    wanted: ListMessageMoveTasks = asked.wanted
    if not 1 <= wanted.max_results <= TASKS_MAX:
        raise invalid_value("MaxResults", wanted.max_results, f"Must be 1 to {TASKS_MAX}.")
    topic = _source_of(asked, wanted.source_arn)
    tasks = _tasks_of(topic)[: wanted.max_results]
    return MoveTaskList(results=[_shown(asked, wanted.source_arn, task) for task in tasks])


def cancel_move_task(asked: Asked) -> MoveTaskCancelled:
    """CancelMessageMoveTask. What was moved stays moved."""
    wanted: CancelMessageMoveTask = asked.wanted
    moved_count = 0
    for task_id in _ids_of(wanted.task_handle):
        try:
            task = get_task(asked.namespace, task_id)
            asked.principal.require(Scope.MANAGE, Kind.GROUP, task.group_name)
            moved_count += cancel_task(asked.principal, asked.namespace, task_id).moved_count
        except Problem as problem:
            if problem.code not in ("TASK_NOT_FOUND", "CONFLICT"):
                raise
            raise SqsError("ResourceNotFoundException", "Task does not exist.") from problem
    return MoveTaskCancelled(approximate_number_of_messages_moved=moved_count)


def _source_of(asked: Asked, arn: str) -> Topic:
    """The dead-letter queue that an ARN means. Raises SqsError unless it is one."""
    topic = _topic_of(asked, arn, "SourceArn")
    if not topic.letter_sources:
        detail = "Source queue must be configured as a Dead Letter Queue."
        raise SqsError("InvalidParameterValue", detail)
    return topic


def _topic_of(asked: Asked, arn: str, parameter: str, scope: Scope | None = None) -> Topic:
    try:
        return asked.topic_of(queue_of_arn(arn, parameter, asked.principal), scope)
    except (SqsError, Problem) as exc:
        if sqs_error_of(exc, "").name != "QueueDoesNotExist":
            raise
        detail = f"The resource that you specified for the {parameter} parameter doesn't exist."
        raise SqsError("ResourceNotFoundException", detail) from exc


def _tasks_of(topic: Topic) -> list[Task]:
    rows = Task.objects.filter(
        namespace=topic.namespace,
        group_name__in=topic.letter_sources,
        kind=TaskKind.REDRIVE.value,
    )
    return list(rows.order_by("-id")[:TASKS_MAX])


def _shown(asked: Asked, source_arn: str, task: Task) -> MoveTask:
    destination = None
    if task.target:
        topic = Topic.objects.filter(namespace_id=task.namespace_id, name=task.target).first()
        destination = None if topic is None else asked.arn_of(topic)
    return MoveTask(
        task_handle=_handle_of([task.public_id]) if task.is_active else None,
        status=_STATUSES[TaskState(task.state)],
        source_arn=source_arn,
        destination_arn=destination,
        max_number_of_messages_per_second=task.rate,
        approximate_number_of_messages_moved=task.moved_count,
        approximate_number_of_messages_to_move=task.to_look_count,
        failure_reason=task.error or None,
        started_timestamp=datetime_ms(task.created_at),
    )


def _handle_of(task_ids: list[str]) -> str:
    return base64.urlsafe_b64encode(",".join(task_ids).encode()).decode()


def _ids_of(handle: str) -> list[str]:
    try:
        ids = base64.b64decode(handle, altchars=b"-_", validate=True).decode("ascii")
        if "\0" in ids:
            raise ValueError("PostgreSQL has no such text")
        return ids.split(",")
    except (binascii.Error, ValueError) as exc:
        detail = "Value for parameter TaskHandle is invalid."
        raise SqsError("InvalidParameterValue", detail) from exc
