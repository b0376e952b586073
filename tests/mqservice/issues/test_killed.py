"""Workers that are killed, or count at the same time: each dead letter is counted once."""

from __future__ import annotations

import threading

import pytest
from django.db import connections, transaction

from mqservice.issues.models import Issue, IssueBook, ScanPlace
from tests.kill_points import WAIT_S, run_until_killed
from tests.mqservice.delivery.wait_until import wait_until
from tests.mqservice.issues.failing import counts, fail, tick, tick_group
from tests.mqservice.tasks.desk import Desk, open_desk
from tests.mqservice.tasks.test_killed import run_together
from tests.sizes import in_torture

pytestmark = pytest.mark.django_db(transaction=True)
MOMENTS = ("counted", *in_torture("read", "placed", "committed"))
TICKS = 6


def run_dying_scanner(desk: Desk, moment: str, engine_socket: str) -> None:
    arguments = (str(desk.group.pk), moment, str(desk.clock.now_ms()), engine_socket)
    run_until_killed("tests.mqservice.issues.killed_scanner", *arguments)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_worker_counts_nothing_twice_and_leaves_nothing_out(
    desk: Desk, engine: str, moment: str
) -> None:
    # Given letters of which a worker was killed while it counted them
    fail(desk, "a 1", "a 2", "b")
    run_dying_scanner(desk, moment, engine)
    fail(desk, "b", "c")

    def is_all_counted() -> bool:
        # PostgreSQL learns in its own time that a client is dead, and holds its locks until then.
        tick(desk)
        return sum(counts(desk).values()) >= 5

    # When the next ticks come
    wait_until(is_all_counted, WAIT_S)
    # Then
    assert counts(desk) == {"a <n>": 2, "b": 2, "c": 1}
    assert IssueBook.objects.get(namespace=desk.namespace).opening_count == 3
    assert tick(desk).letter_count == 0


def test_ticks_at_the_same_time_count_each_letter_once(desk: Desk) -> None:
    # Given
    groups = [desk, open_desk(desk.namespace)]
    for each in groups:
        fail(each, *(f"reason {letter} of 7" for letter in "abcabcab"))

    def work() -> None:
        for each in groups:
            tick(each)
            tick_group(each)

    # When
    run_together([work] * TICKS)
    tick(desk)
    # Then
    for each in groups:
        assert counts(each) == {
            "reason a of <n>": 3, "reason b of <n>": 3, "reason c of <n>": 2,
        }  # fmt: skip
    numbers = Issue.objects.order_by("opening_number").values_list("opening_number", flat=True)
    assert list(numbers) == list(range(1, 7))


def test_a_worker_passes_over_the_group_that_another_counts(desk: Desk) -> None:
    fail(desk, "a")
    tick(desk)
    fail(desk, "a")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            ScanPlace.objects.select_for_update().get(group_name=desk.group.name)
            held.set()
            done.wait(WAIT_S)
        connections.close_all()

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(WAIT_S)
    try:
        assert tick_group(desk) == (0, True)
    finally:
        done.set()
        thread.join(WAIT_S)
    assert tick_group(desk) == (1, True)
