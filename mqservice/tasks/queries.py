"""Reads of long tasks, and the preview that a dry run is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from mqservice.accounts.models import Namespace
from mqservice.errors import problem_from_store
from mqservice.lib.clock import Clock, SystemClock
from mqservice.store import StoreError, blocking_client
from mqservice.tasks.limits import COUNTED_MAX, COUNTING_MS_MAX, PAGE_MAX, SCANNED_MAX
from mqservice.tasks.models import Task, TaskFailure
from mqservice.tasks.services import TaskRequest, find_walk, task_not_found
from mqservice.topics.models import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What a task would move: how many to which topic, "" where the message does not say.

    ``is_complete`` is False when counting stopped before the end. ``not_found``: ids without a
    message.
    """

    topics: dict[str, int]
    existing: frozenset[str]
    not_found: list[str]
    is_complete: bool


def tasks_of(namespace: Namespace, *, before: str = "", limit: int = PAGE_MAX) -> list[Task]:
    """Tasks made before the one with that id, the newest first. One query, or two."""
    rows = Task.objects.filter(namespace=namespace).select_related("namespace").order_by("-id")
    if before:
        rows = rows.filter(pk__lt=get_task(namespace, before).pk)
    return list(rows[: min(limit, PAGE_MAX)])


def get_task(namespace: Namespace, public_id: str) -> Task:
    """Raises Problem TASK_NOT_FOUND. One query."""
    rows = Task.objects.select_related("namespace")
    task = rows.filter(namespace=namespace, public_id=public_id).first()
    if task is None:
        raise task_not_found(namespace, public_id)
    return task


def failures_of(task: Task, *, after: int = 0, limit: int = PAGE_MAX) -> list[TaskFailure]:
    """Messages that were not moved, in the order in which that was found out. One query."""
    rows = TaskFailure.objects.filter(task=task, pk__gt=after).order_by("pk")
    return list(rows[: min(limit, PAGE_MAX)])


def count_ahead(order: TaskRequest, clock: Clock | None = None) -> Count:
    """What a task would move now, as far as a few seconds go. Changes nothing.

    Raises Problem when the engine does not answer.
    """
    clock = clock or SystemClock()
    walk = find_walk(order.group, order.selection)
    ends_at_ms = clock.monotonic_ms() + COUNTING_MS_MAX
    topics: Counter[str] = Counter()
    not_found: list[str] = []
    place: str | None = ""
    try:
        with blocking_client(order.group.namespace.shard) as client:
            while place is not None and topics.total() < COUNTED_MAX:
                if clock.monotonic_ms() >= ends_at_ms:
                    break
                page = walk.page(client, place, SCANNED_MAX)
                topics.update(page.topics)
                not_found += [s.message_id for s in page.spots if s.queue_offset is None]
                place = page.place
    except StoreError as exc:
        raise problem_from_store(exc) from exc
    if order.target is not None and topics:
        topics = Counter({order.target.name: topics.total()})
    names = Topic.objects.filter(namespace=order.group.namespace, name__in=list(topics))
    return Count(
        topics=dict(topics),
        existing=frozenset(names.values_list("name", flat=True)),
        not_found=not_found,
        is_complete=place is None,
    )
