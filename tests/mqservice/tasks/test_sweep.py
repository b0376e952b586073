"""What beat and workers do: each due task is asked for by its id, on a queue of its own."""

from __future__ import annotations

import pytest

from mqservice.celery import app
from mqservice.lib.clock import SystemClock
from mqservice.supervisor.processes import ANALYTICS_QUEUES, CLOCK_QUEUES, WORKER_QUEUES
from mqservice.tasks import limits
from mqservice.tasks.models import Task, TaskState
from mqservice.tasks.tasks import advance, sweep
from tests.mqservice.tasks.desk import Desk, numbered


def test_sweep_asks_for_each_due_task_and_the_turn_does_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.give_up(*numbered(3))
    due, later = desk.order(), desk.order()
    now_ms = SystemClock().now_ms()
    Task.objects.filter(pk=due.pk).update(next_step_ms=now_ms, paced_us=now_ms * 1_000 - 1_000_000)
    Task.objects.filter(pk=later.pk).update(next_step_ms=now_ms + 3_600_000)
    sent: list[tuple[tuple[str], float]] = []
    monkeypatch.setattr(
        advance, "apply_async", lambda args, *, expires: sent.append((args, expires))
    )
    sweep()
    sweep()
    assert sent == [((due.public_id,), limits.QUEUED_MS / 1_000)]

    advance(due.public_id)
    advance(due.public_id)
    advance("task_of_nobody")
    due.refresh_from_db()
    assert (due.state, due.moved_count) == (TaskState.DONE, 3)
    assert desk.taken() == numbered(3)


def test_turns_have_a_queue_that_a_worker_reads_and_end_before_their_claim() -> None:
    assert app.amqp.router.route({}, advance.name)["queue"].name == "tasks"
    assert "tasks" in WORKER_QUEUES.split(",")
    assert advance.acks_late
    assert advance.time_limit is not None
    assert advance.soft_time_limit is not None
    assert limits.TURN_MS_MAX < 1_000 * advance.soft_time_limit < 1_000 * advance.time_limit
    assert 1_000 * advance.time_limit < limits.CLAIM_MS


def test_workers_of_the_service_read_every_queue() -> None:
    read = ",".join((CLOCK_QUEUES, WORKER_QUEUES, ANALYTICS_QUEUES)).split(",")
    assert sorted(read) == sorted(queue.name for queue in app.conf.task_queues)
