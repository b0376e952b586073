"""What a task moves, what it leaves, and what it says about it; on a real engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytest_django import Settings

from mqservice.lib.names import MAIN_SHARD
from mqservice.store import PurgeRequest, RedriveRequest, blocking_client
from mqservice.tasks import batch, limits, turns
from mqservice.tasks.models import Task, TaskKind, TaskState
from mqservice.tasks.selection import Selection
from mqservice.tasks.services import cancel_task
from mqservice.tasks.steps import take_turn
from tests.mqservice.asked import holds
from tests.mqservice.tasks.desk import Desk, numbered, outcomes


def ended(task: Task) -> Task:
    task.refresh_from_db()
    assert not task.is_active
    assert (task.claimed_until_ms, task.batch) == (0, None)
    return task


def counts(task: Task) -> tuple[int, int, int]:
    return task.moved_count, task.skipped_count, task.failed_count


def test_all_dead_letters_go_where_they_came_from_once_and_in_order(desk: Desk) -> None:
    desk.give_up(*numbered(250))
    task = desk.order()
    take_turn(task.public_id, desk.clock)
    take_turn(task.public_id, desk.clock)

    done = ended(task)
    assert (done.state, counts(done)) == (TaskState.DONE, (250, 0, 0))
    assert (done.looked_count, done.to_look_count) == (250, 250)
    assert done.started_at is not None
    assert done.finished_at is not None
    assert desk.dead() == []
    assert desk.taken() == numbered(250)


def test_what_fails_again_meanwhile_is_not_moved_a_second_time(desk: Desk) -> None:
    desk.give_up(*numbered(10))
    task = desk.order(rate=5)
    take_turn(task.public_id, desk.clock)
    desk.give_up_delivered(5)
    desk.clock.advance(1_000)
    take_turn(task.public_id, desk.clock)

    assert counts(ended(task)) == (10, 0, 0)
    assert sorted(desk.dead()) == numbered(5)
    assert sorted(desk.taken()) == numbered(10)[5:]


def test_group_that_has_given_nothing_up_is_done_at_once(desk: Desk) -> None:
    everything, some = desk.order(), desk.order(Selection(ids=["01AC"]))
    for task in (everything, some):
        take_turn(task.public_id, desk.clock)
    assert (ended(everything).state, counts(everything)) == (TaskState.DONE, (0, 0, 0))
    assert (ended(some).state, counts(some)) == (TaskState.DONE, (0, 0, 1))


def test_ids_are_moved_and_the_unknown_one_is_named(desk: Desk) -> None:
    ids = desk.give_up(*numbered(5))
    task = desk.order(Selection(ids=[ids[3], "01AC" * 8, ids[1]]))
    assert task.total_count == 3
    take_turn(task.public_id, desk.clock)

    assert counts(ended(task)) == (2, 0, 1)
    [failure] = task.failures.all()
    assert (failure.message_id, failure.queue_offset, failure.outcome) == (
        "01AC" * 8,
        None,
        "not_found",
    )
    assert desk.taken() == [b"3", b"1"]
    assert desk.dead() == [b"0", b"2", b"4"]


def test_filter_moves_what_fits_all_of_its_conditions(desk: Desk) -> None:
    desk.give_up(*numbered(3), tag="a", keys=["k1"])
    desk.give_up(b"b0", b"b1", tag="b", keys=["k1", "k2"])
    by_both = desk.order(Selection(tags=["a", "b"], key="k2"))
    take_turn(by_both.public_id, desk.clock)
    assert (counts(ended(by_both)), desk.taken()) == ((2, 0, 0), [b"b0", b"b1"])

    by_tag = desk.order(Selection(tags=["b"]))
    take_turn(by_tag.public_id, desk.clock)
    assert counts(ended(by_tag)) == (0, 0, 0)

    by_key = desk.order(Selection(key="k1"), rate=2)
    take_turn(by_key.public_id, desk.clock)
    assert desk.taken() == [b"0", b"1"]
    desk.clock.advance(1_000)
    take_turn(by_key.public_id, desk.clock)
    assert (counts(ended(by_key)), desk.taken()) == ((3, 0, 0), [b"2"])


def test_filter_by_time_counts_from_when_messages_were_given_up(desk: Desk) -> None:
    desk.give_up(*numbered(3))
    never = desk.order(Selection(from_ms=4_000_000_000_000))
    before = desk.order(Selection(to_ms=1))
    assert (never.to_look_count, before.to_look_count) == (0, 0)
    assert desk.order(Selection(from_ms=1, to_ms=4_000_000_000_000)).to_look_count == 3


def test_target_takes_the_place_of_the_topic_of_origin(desk: Desk) -> None:
    desk.give_up(*numbered(3))
    other = desk.make_topic(f"{desk.topic.name}-other")
    task = desk.order(target=other)
    take_turn(task.public_id, desk.clock)
    assert counts(ended(task)) == (3, 0, 0)
    assert (desk.taken(), desk.taken(other)) == ([], numbered(3))


def test_target_that_is_gone_fails_the_task_and_moves_nothing(desk: Desk) -> None:
    desk.give_up(*numbered(3))
    task = desk.order()
    Task.objects.filter(pk=task.pk).update(target="nowhere")
    take_turn(task.public_id, desk.clock)
    task.refresh_from_db()
    assert (task.state, counts(task)) == (TaskState.FAILED, (0, 0, 0))
    assert task.error.startswith("TOPIC_NOT_FOUND")
    assert desk.dead() == numbered(3)


def test_purge_drops_what_it_is_for_and_nothing_else(desk: Desk) -> None:
    desk.give_up(*numbered(120), tag="a")
    desk.give_up(b"kept", tag="b")
    task = desk.order(Selection(tags=["a"]), kind=TaskKind.PURGE)
    take_turn(task.public_id, desk.clock)
    assert counts(ended(task)) == (120, 0, 0)
    assert (desk.dead(), desk.taken()) == ([b"kept"], [])


def test_what_someone_else_took_is_passed_over_or_listed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.give_up(*numbered(6))
    task = desk.order()
    with blocking_client(MAIN_SHARD) as client:
        client.purge(PurgeRequest(group=desk.group.engine_name, queue_offsets=[1]))
    real_send = batch.send

    def send_late(*args: object, **kwargs: object) -> batch.Result:
        """Another one is faster between the look and the move."""
        with blocking_client(MAIN_SHARD) as client:
            client.redrive(RedriveRequest(group=desk.group.engine_name, queue_offsets=[3]))
        return real_send(*args, **kwargs)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr("mqservice.tasks.steps.send", send_late)
    take_turn(task.public_id, desk.clock)
    assert counts(ended(task)) == (4, 1, 0)
    assert outcomes(task) == {"gone": 1}
    assert sorted(desk.taken()) == [b"0", b"2", b"3", b"4", b"5"]


def test_two_tasks_at_once_share_the_work_and_double_nothing(desk: Desk) -> None:
    desk.give_up(*numbered(30))
    tasks = [desk.order(rate=10), desk.order(rate=10)]
    for _ in range(4):
        for task in tasks:
            take_turn(task.public_id, desk.clock)
        desk.clock.advance(1_000)
    assert sum(ended(task).moved_count for task in tasks) == 30
    assert desk.taken() == numbered(30)


def test_rate_is_kept_turn_by_turn(desk: Desk) -> None:
    desk.give_up(*numbered(35))
    task = desk.order(rate=10)
    moved = []
    for _ in range(8):
        take_turn(task.public_id, desk.clock)
        task.refresh_from_db()
        moved.append(task.moved_count)
        desk.clock.advance(500)
    assert moved == [10, 10, 20, 20, 30, 30, 35, 35]


def test_nobody_gets_a_turn_before_it_is_due_or_while_another_has_it(desk: Desk) -> None:
    desk.give_up(*numbered(3))
    task = desk.order(rate=1)
    now_ms = desk.clock.now_ms()
    assert holds(turns.ANY_DUE, now_ms)
    assert turns.find_due(now_ms) == [task.public_id]
    assert not holds(turns.ANY_DUE, now_ms)
    assert turns.find_due(now_ms) == []  # it was asked for
    assert turns.claim(task.public_id, now_ms) is not None
    assert turns.claim(task.public_id, now_ms) is None
    take_turn(task.public_id, desk.clock)
    task.refresh_from_db()
    assert task.moved_count == 0
    assert not holds(turns.ANY_DUE, now_ms + limits.CLAIM_MS - 1)
    assert turns.find_due(now_ms + limits.CLAIM_MS - 1) == []
    assert holds(turns.ANY_DUE, now_ms + limits.CLAIM_MS)
    assert turns.find_due(now_ms + limits.CLAIM_MS) == [task.public_id]


def test_cancelled_task_moves_no_more(desk: Desk) -> None:
    desk.give_up(*numbered(30))
    task = desk.order(rate=10)
    take_turn(task.public_id, desk.clock)
    cancel_task(desk.principal, desk.namespace, task.public_id)
    desk.clock.advance(10_000)
    assert not holds(turns.ANY_DUE, desk.clock.now_ms())
    assert turns.find_due(desk.clock.now_ms()) == []
    take_turn(task.public_id, desk.clock)
    task.refresh_from_db()
    assert (task.state, task.moved_count) == (TaskState.CANCELLED, 10)
    assert desk.dead() == numbered(30)[10:]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_cancel_during_a_step_counts_what_was_under_way(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    desk.give_up(*numbered(250))
    task = desk.order()
    place = {"before": "mqservice.tasks.steps.note", "after": "mqservice.tasks.steps.save"}[moment]
    real: Callable[..., bool] = turns.note if moment == "before" else turns.save

    def cancelled_first(*args: object) -> bool:
        cancel_task(desk.principal, desk.namespace, task.public_id)
        return real(*args)

    monkeypatch.setattr(place, cancelled_first)
    take_turn(task.public_id, desk.clock)
    task.refresh_from_db()
    assert task.state == TaskState.CANCELLED
    assert task.moved_count == {"before": 0, "after": 100}[moment]
    assert len(desk.dead()) == 250 - task.moved_count
    assert task.finished_at is not None


def test_engine_that_is_unavailable_is_waited_for(desk: Desk, settings: Settings) -> None:
    desk.give_up(*numbered(3))
    task = desk.order()
    socket, settings.MQ_ENGINE_SOCKET = settings.MQ_ENGINE_SOCKET, "/nonexistent/engine.sock"
    pauses = []
    for _ in range(8):
        take_turn(task.public_id, desk.clock)
        task.refresh_from_db()
        assert task.state == TaskState.RUNNING
        assert task.error.startswith("ENGINE_UNAVAILABLE")
        pauses.append(task.next_step_ms - desk.clock.now_ms())
        desk.clock.advance(pauses[-1])
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]

    settings.MQ_ENGINE_SOCKET = socket
    take_turn(task.public_id, desk.clock)
    assert (ended(task).error, counts(task)) == ("", (3, 0, 0))


def test_worker_that_comes_back_finds_its_task_taken(desk: Desk) -> None:
    desk.give_up(*numbered(3))
    task = desk.order()
    late = turns.claim(task.public_id, desk.clock.now_ms())
    assert late is not None
    desk.clock.advance(limits.CLAIM_MS)
    take_turn(task.public_id, desk.clock)
    nothing = batch.Batch(spots=[], place=None, looked_count=0)
    assert not turns.note(late, nothing, desk.clock.now_ms())
    assert not turns.save(late, nothing, batch.Result(moved_count=9), desk.clock.now_ms())
    turns.end(late, TaskState.FAILED, "late")
    assert (ended(task).state, counts(task)) == (TaskState.DONE, (3, 0, 0))


def test_task_that_kills_its_workers_fails_in_the_end(desk: Desk) -> None:
    desk.give_up(*numbered(3))
    task = desk.order()
    for _ in range(limits.LOST_MAX):
        assert turns.claim(task.public_id, desk.clock.now_ms()) is not None
        desk.clock.advance(limits.CLAIM_MS)
    take_turn(task.public_id, desk.clock)
    task.refresh_from_db()
    assert (task.state, desk.dead()) == (TaskState.FAILED, numbered(3))
    assert "5 times" in task.error


def test_list_of_failures_has_an_end_and_the_rest_is_counted(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "FAILURES_MAX", 3)
    desk.give_up(b"x")
    task = desk.order(Selection(ids=[f"absent{number}" for number in range(5)]))
    take_turn(task.public_id, desk.clock)
    assert counts(ended(task)) == (0, 0, 5)
    assert (task.listed_count, task.failures.count()) == (3, 3)
