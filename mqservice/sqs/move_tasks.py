"""Message move tasks: redrives of the dead letters that a queue has, by the runner of all tasks.

    StartMessageMoveTask ──▶ a redrive of each source of the queue ──▶ one handle of them all

    task_ 0123456789abcdef0123 0001     id of the second of them
          of the move task     number

A redrive that was started by other means is a move task of its own. What was sent to the
dead-letter queue itself has no source, and stays.
"""

from __future__ import annotations

import base64
import secrets
from itertools import islice
from typing import Final
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from mqservice.accounts.locks import lock_namespace
from mqservice.accounts.scopes import Kind, Scope
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import datetime_ms
from mqservice.sqs.asked import Asked
from mqservice.sqs.errors import KINDS, SqsError, invalid_value, sqs_error_of
from mqservice.sqs.queue_names import queue_arn, queue_name, queue_of_arn
from mqservice.sqs.replies import MoveTask, MoveTaskCancelled, MoveTaskList, MoveTaskStarted
from mqservice.sqs.requests import (
    CancelMessageMoveTask,
    ListMessageMoveTasks,
    StartMessageMoveTask,
)
from mqservice.tasks.models import (
    ACTIVE_STATES,
    ID_PREFIX,
    ID_RANDOM_BYTES,
    Task,
    TaskKind,
    TaskState,
)
from mqservice.tasks.selection import Selection
from mqservice.tasks.services import TaskRequest, cancel_task, create_task
from mqservice.topics.models import Topic
from mqservice.topics.settings import MessageType

RATE_MAX: Final = 500
TASKS_MAX: Final = 10
_NUMBER_DIGITS: Final = 4
_ID_DIGITS: Final = 2 * ID_RANDOM_BYTES - _NUMBER_DIGITS
_LOOK_MAX: Final = 1_000  # tasks that are looked at for the ten newest
_STATUSES: Final = {
    TaskState.PENDING: "RUNNING",
    TaskState.RUNNING: "RUNNING",
    TaskState.FAILED: "FAILED",
    TaskState.CANCELLED: "CANCELLED",
    TaskState.DONE: "COMPLETED",
}
"""From what decides for all tasks of a move on."""


_FAILURES: Final = {"TOPIC_NOT_FOUND": KINDS["QueueDoesNotExist"].code}


class _Handle(msgspec.Struct, frozen=True, rename="camel"):
    """What a task handle says, as AWS has it: JSON in base64."""

    task_id: UUID
    source_arn: str


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
    move_id = secrets.token_hex(_ID_DIGITS // 2)
    orders = [
        TaskRequest(
            kind=TaskKind.REDRIVE,
            group=each,
            selection=Selection(),
            target=target,
            rate=None if rate is None else max(rate // len(sources), 1),
            public_id=f"{ID_PREFIX}{move_id}{number:0{_NUMBER_DIGITS}x}",
        )
        for number, each in enumerate(sources)
    ]
    with transaction.atomic():
        lock_namespace(topic.namespace)  # nobody else starts one meanwhile
        if _tasks_of(topic).filter(state__in=ACTIVE_STATES).exists():
            detail = "There is already a task running. Only one active task is allowed for a "
            raise SqsError("InvalidParameterValue", f"{detail}source queue arn at a given time.")
        for order in orders:
            create_task(order, asked.principal)
    return MoveTaskStarted(task_handle=_handle_of(move_id, wanted.source_arn))


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
    moves: dict[str, list[Task]] = {}
    for task in _tasks_of(topic).order_by("-id")[:_LOOK_MAX]:
        moves.setdefault(_move_id_of(task), []).append(task)
    newest = islice(moves.values(), wanted.max_results)
    return MoveTaskList(
        results=[_shown(asked, wanted.source_arn, topic, tasks) for tasks in newest]
    )


def cancel_move_task(asked: Asked) -> MoveTaskCancelled:
    """CancelMessageMoveTask. What was moved stays moved."""
    wanted: CancelMessageMoveTask = asked.wanted
    handle = _read_handle(wanted.task_handle)
    _topic_of(asked, handle.source_arn, "SourceArn")
    asked.changing()
    rows = Task.objects.filter(
        namespace=asked.namespace,
        kind=TaskKind.REDRIVE.value,
        public_id__startswith=f"{ID_PREFIX}{handle.task_id.hex[-_ID_DIGITS:]}",
    )
    tasks = list(rows.order_by("id"))
    for task in tasks:
        asked.principal.require(Scope.MANAGE, Kind.GROUP, task.group_name)
    if not any(task.is_active for task in tasks):
        raise SqsError("ResourceNotFoundException", "Task does not exist.")
    moved_count = sum(_cancelled(asked, task).moved_count for task in tasks)
    return MoveTaskCancelled(approximate_number_of_messages_moved=moved_count)


def _cancelled(asked: Asked, task: Task) -> Task:
    """The task once it has ended, by itself perhaps."""
    try:
        return cancel_task(asked.principal, asked.namespace, task.public_id)
    except Problem as problem:
        if problem.code != "CONFLICT":
            raise
        return task


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


def _tasks_of(topic: Topic) -> QuerySet[Task]:
    """Those of a queue of the same name that was deleted are not its own."""
    return Task.objects.filter(
        namespace=topic.namespace,
        group_name__in=topic.letter_sources,
        kind=TaskKind.REDRIVE.value,
        created_at__gte=topic.created_at,
    )


def _move_id_of(task: Task) -> str:
    return task.public_id[len(ID_PREFIX) : -_NUMBER_DIGITS]


def _shown(asked: Asked, source_arn: str, source: Topic, tasks: list[Task]) -> MoveTask:
    """``tasks``: of one move."""
    states = {task.state for task in tasks}
    status = next(status for state, status in _STATUSES.items() if state in states)
    first = tasks[0]
    destination = None
    if first.target:
        is_fifo = source.message_type == MessageType.FIFO
        name = queue_name(first.target, is_fifo=is_fifo)
        destination = queue_arn(asked.region, asked.account, name)
    error = next((task.error for task in tasks if task.error), "")
    is_paced = first.rate != settings.MQ_REDRIVE_RATE_DEFAULT
    return MoveTask(
        task_handle=_handle_of(_move_id_of(first), source_arn) if status == "RUNNING" else None,
        status=status,
        source_arn=source_arn,
        destination_arn=destination,
        max_number_of_messages_per_second=first.rate * len(tasks) if is_paced else None,
        approximate_number_of_messages_moved=sum(task.moved_count for task in tasks),
        approximate_number_of_messages_to_move=sum(task.to_look_count for task in tasks),
        failure_reason=_FAILURES.get(error.partition(":")[0], error) or None,
        started_timestamp=datetime_ms(tasks[-1].created_at),
    )


def _handle_of(move_id: str, source_arn: str) -> str:
    handle = _Handle(UUID(int=int(move_id, 16)), source_arn)
    return base64.b64encode(msgspec.json.encode(handle)).decode()


def _read_handle(text: str) -> _Handle:
    try:
        return msgspec.json.decode(base64.b64decode(text, validate=True), type=_Handle)
    except (ValueError, msgspec.DecodeError, RecursionError) as exc:  # binascii.Error is one
        detail = "Value for parameter TaskHandle is invalid."
        raise SqsError("InvalidParameterValue", detail) from exc
