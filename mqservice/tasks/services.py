"""Creates and cancels long tasks. The worker's own writes are in ``turns``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import record
from mqservice.accounts.models import Namespace
from mqservice.errors import problem_from_store
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.clock import Clock, SystemClock
from mqservice.lib.problem import Problem
from mqservice.store import StoreError, blocking_client
from mqservice.tasks.limits import ACTIVE_TASKS_MAX, RETAINED_TASKS_MAX
from mqservice.tasks.models import ACTIVE_STATES, Task, TaskKind, TaskState, new_task_id
from mqservice.tasks.pace import first_pace_us
from mqservice.tasks.selection import Selection, document_of
from mqservice.tasks.walk import Walk, walk_from
from mqservice.topics.models import Topic

CANCEL_ACTION: Final = "task.cancel"
_DELETED_PER_CALL: Final = 2  # more than are made, so that the number comes down


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """What a task is to do. ``target`` None: to the topic that each message came from.

    ``rate``: messages per second; None: for a redrive the default of the settings, for a purge,
    which nobody feels, their maximum. ``public_id`` None: a random one.
    """

    kind: TaskKind
    group: ConsumerGroup
    selection: Selection
    target: Topic | None = None
    rate: int | None = None
    public_id: str | None = None


def create_task(order: TaskRequest, principal: Principal, clock: Clock | None = None) -> Task:
    """Note a task for what is in the DLQ now, audited; a worker begins with it within seconds.

    Raises Problem: QUOTA_EXCEEDED, or what the engine's failure means.
    """
    walk = find_walk(order.group, order.selection)
    now_ms = (clock or SystemClock()).now_ms()
    default = (
        settings.MQ_REDRIVE_RATE_MAX
        if order.kind is TaskKind.PURGE
        else settings.MQ_REDRIVE_RATE_DEFAULT
    )
    task = Task(
        public_id=order.public_id or new_task_id(),
        namespace=order.group.namespace,
        kind=order.kind.value,
        group_name=order.group.name,
        target="" if order.target is None else order.target.name,
        selection=document_of(order.selection),
        rate=order.rate or default,
        begin_offset=walk.begin_offset,
        end_offset=walk.end_offset,
        created_by=principal.actor,
        total_count=len(order.selection.ids) or None,
        to_look_count=walk.to_look_count,
        next_step_ms=now_ms,
        paced_us=first_pace_us(now_ms),
    )
    with transaction.atomic():
        _require_room(order.group.namespace)
        task.save()
        record(
            principal,
            task.namespace,
            f"dead_letters.{task.kind}",
            f"groups/{task.group_name}",
            {
                "task": task.public_id,
                "selection": task.selection,
                "target": task.target,
                "rate": task.rate,
            },
        )
    return task


@transaction.atomic
def cancel_task(principal: Principal, namespace: Namespace, public_id: str) -> Task:
    """End a task before it is done; once more is harmless. A step under way ends and is counted.

    Raises Problem: TASK_NOT_FOUND, or CONFLICT when it has ended by itself.
    """
    rows = Task.objects.select_for_update(of=("self",)).select_related("namespace")
    task = rows.filter(namespace=namespace, public_id=public_id).first()
    if task is None:
        raise task_not_found(namespace, public_id)
    if task.is_active:
        before = task.state
        task.state = TaskState.CANCELLED.value
        task.finished_at = timezone.now()
        task.save(update_fields=["state", "finished_at"])
        moved = {"moved": task.moved_count}
        record(
            principal,
            task.namespace,
            CANCEL_ACTION,
            f"tasks/{public_id}",
            moved,
            before={"state": before},
            after={"state": task.state},
        )
    elif task.state != TaskState.CANCELLED:
        raise Problem.of("CONFLICT", f"{public_id} can no longer be cancelled: it is {task.state}")
    return task


def find_walk(group: ConsumerGroup, selection: Selection) -> Walk:
    """What is there now to be walked through. Raises Problem when the engine cannot tell."""
    try:
        with blocking_client(group.namespace.shard) as client:
            return walk_from(client, group.engine_name, selection)
    except StoreError as exc:
        raise problem_from_store(exc) from exc


def task_not_found(namespace: Namespace, public_id: str) -> Problem:
    return Problem.of("TASK_NOT_FOUND", f"{public_id} does not exist in {namespace.name}")


def _require_room(namespace: Namespace) -> None:
    """Refuse one active task too many; forget the oldest of too many that have ended."""
    Namespace.objects.select_for_update().get(pk=namespace.pk)  # two at once: in turn
    tasks = Task.objects.filter(namespace=namespace)
    if tasks.filter(state__in=ACTIVE_STATES).count() >= ACTIVE_TASKS_MAX:
        raise Problem.of(
            "QUOTA_EXCEEDED",
            f"{ACTIVE_TASKS_MAX} tasks are in progress in {namespace.name} already, "
            "which is the limit; wait until one has finished, or cancel one",
            retryable=True,
        )
    ended = tasks.exclude(state__in=ACTIVE_STATES).order_by("-id").values_list("id", flat=True)
    old = list(ended[RETAINED_TASKS_MAX - 1 : RETAINED_TASKS_MAX - 1 + _DELETED_PER_CALL])
    if old:
        Task.objects.filter(pk__in=old).delete()
