"""Workers that are killed, or do the same at once: no message twice, none left out."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connections

from mqservice.tasks import limits, turns
from mqservice.tasks.models import Task, TaskKind, TaskState
from mqservice.tasks.steps import take_turn
from tests.kill_points import WAIT_S, run_until_killed
from tests.mqservice.delivery.wait_until import wait_until
from tests.mqservice.tasks.desk import Desk, numbered
from tests.sizes import in_torture

pytestmark = pytest.mark.django_db(transaction=True)
MOMENTS = ("sent", *in_torture("noted", "saving", "saved"))


def run_dying_worker(task: Task, moment: str, now_ms: int, engine_socket: str) -> None:
    run_until_killed(
        "tests.mqservice.tasks.killed_worker", task.public_id, moment, str(now_ms), engine_socket
    )


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("kind", TaskKind)
def test_task_continues_where_its_worker_was_killed(
    desk: Desk, engine: str, moment: str, kind: TaskKind
) -> None:
    # Given a worker killed in the first of three steps, and one killed while it took the task up
    desk.give_up(*numbered(250))
    task = desk.order(kind=kind)
    run_dying_worker(task, moment, desk.clock.now_ms(), engine)
    desk.clock.advance(limits.CLAIM_MS - 1)
    take_turn(task.public_id, desk.clock)
    task.refresh_from_db()
    assert task.lost_count == 0, "the claim is not stale yet"
    desk.clock.advance(1)
    run_dying_worker(task, moment, desk.clock.now_ms(), engine)
    # When the next sweep finds it
    desk.clock.advance(limits.CLAIM_MS)
    found: list[str] = []

    def is_found() -> bool:
        # PostgreSQL learns in its own time that a client is dead, and holds its locks until then.
        found.extend(turns.find_due(desk.clock.now_ms()))
        return bool(found)

    wait_until(is_found, WAIT_S)
    assert found == [task.public_id]
    take_turn(task.public_id, desk.clock)
    # Then each message was moved once, and counted once
    task.refresh_from_db()
    assert (task.state, task.moved_count) == (TaskState.DONE, 250)
    assert (task.skipped_count, task.failed_count, task.failures.count()) == (0, 0, 0)
    assert desk.dead() == []
    assert desk.taken() == ([] if kind is TaskKind.PURGE else numbered(250))


def test_cancelled_task_of_a_killed_worker_is_not_taken_up(desk: Desk, engine: str) -> None:
    desk.give_up(*numbered(250))
    task = desk.order()
    run_dying_worker(task, "noted", desk.clock.now_ms(), engine)
    Task.objects.filter(pk=task.pk).update(state=TaskState.CANCELLED)
    desk.clock.advance(limits.CLAIM_MS)
    assert turns.find_due(desk.clock.now_ms()) == []
    take_turn(task.public_id, desk.clock)
    assert desk.dead() == numbered(250)


def test_one_task_given_to_many_workers_at_once_is_done_once(desk: Desk) -> None:
    desk.give_up(*numbered(250))
    task = desk.order()
    run_together([lambda: take_turn(task.public_id, desk.clock)] * 6)
    task.refresh_from_db()
    assert (task.state, task.moved_count, task.claim) == (TaskState.DONE, 250, 1)
    assert desk.taken() == numbered(250)


def test_tasks_for_the_same_messages_at_once_move_each_once(desk: Desk) -> None:
    desk.give_up(*numbered(250))
    tasks = [desk.order() for _ in range(4)]
    run_together([lambda task=task: take_turn(task.public_id, desk.clock) for task in tasks])  # type: ignore[misc]  # a default as a capture
    for task in tasks:
        task.refresh_from_db()
        assert task.state == TaskState.DONE
    assert sum(task.moved_count for task in tasks) == 250
    assert sorted(desk.taken()) == sorted(numbered(250))


def test_sweeps_at_once_ask_for_a_turn_once(desk: Desk) -> None:
    desk.give_up(b"x")
    tasks = {desk.order().public_id for _ in range(8)}
    found: list[str] = []
    run_together([lambda: found.extend(turns.find_due(desk.clock.now_ms()))] * 4)
    assert sorted(found) == sorted(tasks)


def run_together(works: list[Callable[[], object]]) -> None:
    """Each on a thread with a database connection of its own, all begun at one moment."""
    start = threading.Barrier(len(works))
    failures: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            start.wait(WAIT_S)
            work()
        except BaseException as exc:
            failures.append(exc)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert failures == []
