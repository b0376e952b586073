"""The row of a task while a worker has it: claimed, noted, saved, released. Conditional updates
only.

    find_due ──▶ claim ──▶ ( note ──▶ engine ──▶ save )* ──▶ release
                   │                                └─ last page ──▶ done
                   └─ stale: the worker before is gone

Every write names the claim it was made under. A worker that was thought dead and comes back finds
that the row is no longer its own, and leaves it.
"""

from __future__ import annotations

import logging
from typing import Final

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from mqservice.tasks.batch import Batch, Result, encode_note
from mqservice.tasks.limits import (
    CLAIM_MS,
    FAILURES_MAX,
    LOST_MAX,
    PAUSE_MS_MAX,
    PAUSE_MS_MIN,
    QUEUED_MS,
    SWEPT_MAX,
)
from mqservice.tasks.models import ACTIVE_STATES, ERROR_CHARS_MAX, Task, TaskFailure, TaskState
from mqservice.tasks.pace import pace_after

log = logging.getLogger(__name__)

_SAVED: Final = (
    "place", "batch", "looked_count", "moved_count", "skipped_count", "failed_count",
    "listed_count", "paced_us", "claimed_until_ms", "error", "error_count", "lost_count",
)  # fmt: skip

# Whether ``find_due`` would find something, for one look at the database each second.
ANY_DUE: Final = f"""EXISTS (
    SELECT FROM tasks_task WHERE state IN ({", ".join(f"'{state}'" for state in ACTIVE_STATES)})
    AND greatest(next_step_ms, claimed_until_ms, queued_until_ms) <= %(now_ms)s
)"""


@transaction.atomic
def find_due(now_ms: int) -> list[str]:
    """Ids of tasks that a worker should have a turn at, the one that waits longest first.

    They are not found again for a few seconds. Two sweeps at once do not find the same ones.
    """
    due = Task.objects.select_for_update(skip_locked=True).filter(
        _is_free(now_ms), queued_until_ms__lte=now_ms
    )
    rows = list(due.order_by("next_step_ms").values_list("pk", "public_id")[:SWEPT_MAX])
    Task.objects.filter(pk__in=[pk for pk, _ in rows]).update(queued_until_ms=now_ms + QUEUED_MS)
    return [public_id for _, public_id in rows]


@transaction.atomic
def claim(public_id: str, now_ms: int) -> Task | None:
    """The task, now this worker's own; None when there is nothing to do, or another one has it."""
    rows = Task.objects.select_for_update(skip_locked=True, of=("self",))
    task = rows.select_related("namespace").filter(_is_free(now_ms), public_id=public_id).first()
    if task is None:
        return None
    if task.claimed_until_ms:
        task.lost_count += 1
        log.warning(
            "The worker that ran a task disappeared; another one continues",
            extra={"action": "task_lost", "task": public_id, "count": task.lost_count},
        )
    if task.lost_count >= LOST_MAX:
        task.state = TaskState.FAILED.value
        task.error = f"its worker died {task.lost_count} times at the same step"
        task.finished_at = timezone.now()
        task.save(update_fields=["state", "error", "finished_at", "lost_count"])
        return None
    task.claim += 1
    task.claimed_until_ms = now_ms + CLAIM_MS
    task.queued_until_ms = 0
    task.state = TaskState.RUNNING.value
    task.started_at = task.started_at or timezone.now()
    task.save(
        update_fields=[
            "claim", "claimed_until_ms", "queued_until_ms", "state", "started_at", "lost_count",
        ]
    )  # fmt: skip
    return task


def note(task: Task, batch: Batch, now_ms: int) -> bool:
    """Write down what is about to be done. False: it must not be, the task is ours no longer."""
    claimed_until_ms = now_ms + CLAIM_MS
    mine = Task.objects.filter(pk=task.pk, claim=task.claim, state=TaskState.RUNNING)
    if mine.update(batch=encode_note(batch), claimed_until_ms=claimed_until_ms) != 1:
        return False
    task.batch, task.claimed_until_ms = encode_note(batch), claimed_until_ms
    return True


@transaction.atomic
def save(task: Task, batch: Batch, result: Result, now_ms: int) -> bool:
    """Count what was done, and end the task after its last page. Whether it goes on.

    A task that was cancelled meanwhile stays so, and what was under way then is counted.
    """
    row = Task.objects.select_for_update().filter(pk=task.pk, claim=task.claim).first()
    if row is None:
        return False
    row.batch = None
    row.place = row.place if batch.place is None else batch.place
    row.looked_count = batch.looked_count
    row.moved_count += result.moved_count
    row.skipped_count += result.skipped_count
    row.failed_count += result.failed_count
    row.paced_us = pace_after(
        row.paced_us, now_ms=now_ms, rate=row.rate, moved_count=result.moved_count
    )
    row.claimed_until_ms = now_ms + CLAIM_MS
    row.error, row.error_count, row.lost_count = "", 0, 0
    listed = result.failures[: FAILURES_MAX - row.listed_count]
    TaskFailure.objects.bulk_create(
        TaskFailure(
            task=row,
            message_id=spot.message_id,
            queue_offset=spot.queue_offset,
            outcome=outcome.value,
        )
        for spot, outcome in listed
    )
    row.listed_count += len(listed)
    row.save(update_fields=_SAVED)
    for name in _SAVED:
        setattr(task, name, getattr(row, name))
    if row.state != TaskState.RUNNING:
        return False
    if batch.place is None:
        end(task, TaskState.DONE)
        return False
    return True


def release(task: Task, next_step_ms: int) -> None:
    """Give the task back until ``next_step_ms``. One statement, as ``pause`` and ``end``."""
    _release_claim(task, next_step_ms=next_step_ms)


def pause(task: Task, error: str, now_ms: int) -> None:
    """Give the task back for a while that grows with each error in a row, up to a minute."""
    pause_ms = min(PAUSE_MS_MAX, PAUSE_MS_MIN << min(task.error_count, 10))
    _release_claim(
        task,
        next_step_ms=now_ms + pause_ms,
        error=error[:ERROR_CHARS_MAX],
        error_count=task.error_count + 1,
    )


def end(task: Task, state: TaskState, error: str = "") -> None:
    """Bring the task to its end, unless it was cancelled meanwhile."""
    is_ended = _release_claim(
        task, state=state.value, error=error[:ERROR_CHARS_MAX], finished_at=timezone.now()
    )
    if is_ended:
        log.info(
            "A task ended",
            extra={"action": "task_ended", "task": task.public_id, "state": state.value},
        )


def _release_claim(task: Task, **values: object) -> bool:
    mine = Task.objects.filter(pk=task.pk, claim=task.claim, state=TaskState.RUNNING)
    return mine.update(claimed_until_ms=0, **values) == 1


def _is_free(now_ms: int) -> Q:
    return Q(state__in=ACTIVE_STATES, next_step_ms__lte=now_ms, claimed_until_ms__lte=now_ms)
