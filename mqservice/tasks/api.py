"""Long tasks over REST: redrive and purge of a group's dead letters, and how far they have come.

POST /v1/ns/{ns}/groups/{group}/dlq:redrive, dlq:purge    202 a task, or 200 what it would move
GET  /v1/ns/{ns}/tasks, tasks/{task}, tasks/{task}/failures
POST /v1/ns/{ns}/tasks/{task}:cancel
"""

from __future__ import annotations

from typing import Annotated, Final

from django.http import HttpResponse
from ninja import Router, Status
from pydantic import Field

from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.scopes import Kind, Scope
from mqservice.groups.queries import get_group
from mqservice.tasks.limits import PAGE_MAX
from mqservice.tasks.models import TaskKind
from mqservice.tasks.queries import count_ahead, failures_of, get_task, tasks_of
from mqservice.tasks.schemas import (
    DryRunOut,
    FailureListOut,
    FailureOut,
    PurgeIn,
    RedriveIn,
    TaskListOut,
    TaskOut,
)
from mqservice.tasks.services import TaskRequest, cancel_task, create_task
from mqservice.topics.queries import get_topic

router = Router(tags=["tasks"])

Limit = Annotated[int, Field(ge=1, le=PAGE_MAX)]
ANSWERS: Final = {200: DryRunOut, 202: TaskOut}
Answer = Status[DryRunOut] | Status[TaskOut]


@router.post(
    "/ns/{ns}/groups/{group}/dlq:redrive",
    response=ANSWERS,
    by_alias=True,
    operation_id="redriveDeadLetters",
)
def redrive(
    request: AuthedRequest, response: HttpResponse, ns: str, group: str, order: RedriveIn
) -> Answer:
    """Redrive dead letters: send them back to their topic. A few queries, and one or two calls to
    the engine."""
    return _order(request, response, ns, group, TaskKind.REDRIVE, order, order.target)


@router.post(
    "/ns/{ns}/groups/{group}/dlq:purge",
    response=ANSWERS,
    by_alias=True,
    operation_id="purgeDeadLetters",
)
def purge(
    request: AuthedRequest, response: HttpResponse, ns: str, group: str, order: PurgeIn
) -> Answer:
    """Purge dead letters. As ``redrive``."""
    return _order(request, response, ns, group, TaskKind.PURGE, order, None)


@router.get("/ns/{ns}/tasks", response=TaskListOut, by_alias=True)
def list_tasks(
    request: AuthedRequest, ns: str, before: str = "", limit: Limit = 100
) -> TaskListOut:
    """List tasks, the newest first. Two or three queries."""
    tasks = tasks_of(get_namespace(request.auth, ns), before=before, limit=limit)
    return TaskListOut(
        tasks=[TaskOut.of(task) for task in tasks],
        next=tasks[-1].public_id if len(tasks) == limit else None,
    )


@router.post(
    "/ns/{ns}/tasks/{task_id}:cancel", response=TaskOut, by_alias=True, operation_id="cancelTask"
)
def cancel(request: AuthedRequest, ns: str, task_id: str) -> TaskOut:
    """Cancel a task. Messages already moved stay moved."""
    namespace = get_namespace(request.auth, ns)
    task = get_task(namespace, task_id)
    request.auth.require(Scope.MANAGE, Kind.GROUP, task.group_name)
    return TaskOut.of(cancel_task(request.auth, namespace, task_id))


@router.get("/ns/{ns}/tasks/{task_id}/failures", response=FailureListOut)
def list_failures(
    request: AuthedRequest,
    ns: str,
    task_id: str,
    after: Annotated[int, Field(ge=0, lt=1 << 63)] = 0,
    limit: Limit = 100,
) -> FailureListOut:
    """List the messages that a task did not move, and why. Three queries."""
    task = get_task(get_namespace(request.auth, ns), task_id)
    failures = failures_of(task, after=after, limit=limit)
    return FailureListOut(
        failures=[FailureOut.of(failure) for failure in failures],
        next=failures[-1].pk if len(failures) == limit else None,
        unlisted=task.failed_count + task.skipped_count - task.listed_count,
    )


@router.get("/ns/{ns}/tasks/{task_id}", response=TaskOut, by_alias=True)
def read_task(request: AuthedRequest, ns: str, task_id: str) -> TaskOut:
    """Read the progress of a task. Two queries."""
    return TaskOut.of(get_task(get_namespace(request.auth, ns), task_id))


def _order(
    request: AuthedRequest,
    response: HttpResponse,
    ns: str,
    group: str,
    kind: TaskKind,
    wanted: PurgeIn,
    target: str | None,
) -> Answer:
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE, Kind.GROUP, group)
    if target is not None:  # messages come into that topic
        request.auth.require(Scope.MANAGE, Kind.TOPIC, target)
    order = TaskRequest(
        kind=kind,
        group=get_group(namespace, group),
        selection=wanted.selection(),
        target=None if target is None else get_topic(namespace, target),
        rate=wanted.checked_rate(),
    )
    if wanted.dry_run:
        return Status(200, DryRunOut.of(count_ahead(order)))
    task = create_task(order, request.auth)
    response["Location"] = f"/v1/ns/{namespace.name}/tasks/{task.public_id}"
    return Status(202, TaskOut.of(task))
