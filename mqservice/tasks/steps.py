"""A worker's turn at a task: a few seconds of small steps, after any of which it may die.

    claim ──▶ page of the walk ──▶ note ──▶ REDRIVE or PURGE ──▶ save ──▶ page … ──▶ release

Killed between any two of these, the task is claimed by another worker when the claim is stale, and
goes on from the note. The engine moves each message once, so nothing is doubled; the walk goes on
from what was saved, so nothing is left out. Each step asks the row whether the task was cancelled.
"""

from __future__ import annotations

import enum
import logging

from mqservice.errors import problem_from_store
from mqservice.lib.clock import Clock
from mqservice.lib.names import engine_name
from mqservice.store import StoreClient, StoreError, blocking_client
from mqservice.tasks.batch import batch_of, read_note, send
from mqservice.tasks.limits import BATCH_MESSAGES_MAX, TURN_MS_MAX
from mqservice.tasks.models import Task, TaskKind, TaskState
from mqservice.tasks.pace import allowance, next_turn_ms
from mqservice.tasks.selection import selection_of
from mqservice.tasks.turns import claim, end, note, pause, release, save
from mqservice.tasks.walk import Walk

log = logging.getLogger(__name__)


class StepEnd(enum.Enum):
    """What comes after a step."""

    NEXT_STEP = enum.auto()
    LATER = enum.auto()  # the rate allows no more now
    NEVER = enum.auto()  # the task has ended, or is another worker's


def take_turn(public_id: str, clock: Clock) -> None:
    """Go on with a task, if it is due and nobody else does. Safe to call any number of times."""
    task = claim(public_id, clock.now_ms())
    if task is None:
        return
    ends_at_ms = clock.monotonic_ms() + TURN_MS_MAX
    try:
        with blocking_client(task.namespace.shard) as client:
            while (ended := _step(client, task, clock)) is StepEnd.NEXT_STEP:
                if clock.monotonic_ms() >= ends_at_ms:
                    break
    except StoreError as exc:
        problem = problem_from_store(exc)
        error = f"{problem.code}: {problem.detail}"
        log.warning(
            "A step of a task failed",
            extra={"action": "task_step_failed", "task": public_id, "error": str(exc)},
        )
        if exc.retriable:
            pause(task, error, clock.now_ms())
        else:
            end(task, TaskState.FAILED, error)
        return
    now_ms = clock.now_ms()
    if ended is StepEnd.NEXT_STEP:
        release(task, now_ms)
    elif ended is StepEnd.LATER:
        release(task, next_turn_ms(task.paced_us, now_ms=now_ms, rate=task.rate))


def walk_of(task: Task) -> Walk:
    """The walk of a task, the same at each call. Reads ``namespace``."""
    return Walk(
        group=task.engine_group,
        selection=selection_of(task.selection),
        begin_offset=task.begin_offset,
        end_offset=task.end_offset,
    )


def _step(client: StoreClient, task: Task, clock: Clock) -> StepEnd:
    is_repeated = task.batch is not None
    if is_repeated:
        batch = read_note(task.batch)
    else:
        allowed = allowance(task.paced_us, now_ms=clock.now_ms(), rate=task.rate)
        if not allowed:
            return StepEnd.LATER
        page = walk_of(task).page(client, task.place, min(allowed, BATCH_MESSAGES_MAX))
        batch = batch_of(page)
    # A repetition is noted again: the task may have been cancelled since.
    if batch.spots and not note(task, batch, clock.now_ms()):
        return StepEnd.NEVER
    target = engine_name(namespace=task.namespace.name, name=task.target) if task.target else ""
    kind = TaskKind(task.kind)
    result = send(client, kind, task.engine_group, target, batch, is_repeated=is_repeated)
    goes_on = save(task, batch, result, clock.now_ms())
    return StepEnd.NEXT_STEP if goes_on else StepEnd.NEVER
