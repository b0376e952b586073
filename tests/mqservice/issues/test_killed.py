"""Workers that are killed, or count at the same time: each dead letter is counted once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import pytest
from django.db import connection, connections, transaction

from mqservice.issues.models import Issue, IssueBook, ScanPlace
from tests.mqservice.delivery.wait_until import wait_until
from tests.mqservice.issues.failing import counts, fail, tick, tick_group
from tests.mqservice.tasks.desk import Desk, open_desk

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 60
TICKS = 6


def run_dying_scanner(desk: Desk, moment: str, engine_socket: str) -> None:
    url = urlsplit(os.environ["DATABASE_URL"])
    name = str(connection.settings_dict["NAME"])
    arguments = (str(desk.group.pk), moment, str(desk.clock.now_ms()), engine_socket)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.mqservice.issues.killed_scanner", *arguments],
        env={**os.environ, "DATABASE_URL": url._replace(path=f"/{name}").geturl()},
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.parametrize("moment", ["read", "counted", "placed", "committed"])
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
    start = threading.Barrier(TICKS)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            start.wait(WAIT_S)
            for each in groups:
                tick(each)
                tick_group(each)
        except BaseException as exc:
            failures.append(exc)
        finally:
            connections.close_all()

    # When
    threads = [threading.Thread(target=run) for _ in range(TICKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    tick(desk)
    # Then
    assert failures == []
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
