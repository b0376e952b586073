"""Marks of what groups had delivered and settled, and the ranges that reports read from them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db.models import Count

from mqservice.lib.durations import DAY_MS
from mqservice.lib.names import MAIN_SHARD
from mqservice.reports.settle_export import are_marks_available, write_settles
from mqservice.sampling import progress_marks
from mqservice.sampling.limits import MARK_ROWS_DAY_MAX, MARKS_RETAINED_MS, SAMPLE_MS
from mqservice.sampling.models import RETRY_TOPIC, ProgressMark
from mqservice.sampling.progress_marks import (
    GroupPositions,
    QueuePosition,
    decode_positions,
    delete_old_marks,
    encode_positions,
    mark_pause_ms,
    write_marks,
)
from mqservice.sampling.samples import take_samples
from mqservice.store import GroupQueueStats, GroupRef, blocking_client
from tests.mqservice.tasks.desk import Desk, numbered
from tests.people import People

NOW_MS = 1_800_000_000_000


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    """As a worker that has written nothing yet."""
    progress_marks._written.clear()
    yield
    progress_marks._written.clear()


def standing(people: People, *names: str, consumer_offset: int = 5) -> list[GroupPositions]:
    queue = GroupQueueStats(
        topic="acme%orders", queue_id=0, min_offset=0, max_offset=9, inflight_count=1,
        consumer_offset=consumer_offset, ready_count=3,
    )  # fmt: skip
    return [GroupPositions(people.acme.pk, name, [queue]) for name in names]


def rows_of(path: Path, from_ms: int, to_ms: int, group: str) -> list[tuple[str, str, int, int]]:
    """(topic, what, from_offset, to_offset) of the group."""
    write_settles(path, from_ms, to_ms)
    with path.open(newline="") as file:
        return [
            (row["topic"], row["what"], int(row["from_offset"]), int(row["to_offset"]))
            for row in csv.DictReader(file)
            if row["group"] == group
        ]


def test_a_mark_says_what_was_settled_and_what_was_given_out(desk: Desk, tmp_path: Path) -> None:
    group, topic = desk.group.name, desk.topic.name
    with blocking_client(MAIN_SHARD) as client:
        desk.give_up(*numbered(2))
        take_samples(client, NOW_MS)
        desk.give_up(*numbered(3))
        take_samples(client, NOW_MS + SAMPLE_MS)
        take_samples(client, NOW_MS + 2 * SAMPLE_MS)  # nothing moved
    mine = ProgressMark.objects.filter(group_name=group, topic=topic).order_by("at_ms")
    assert [(mark.after_ms, mark.at_ms) for mark in mine] == [
        (0, NOW_MS), (NOW_MS, NOW_MS + SAMPLE_MS),
    ]  # fmt: skip
    with blocking_client(MAIN_SHARD) as client:
        (queue,) = client.group_stats(GroupRef(group=desk.group.engine_name)).queues
    places = [decode_positions(mark.places) for mark in mine]
    # A group that was deleted before under this name counts its resets on.
    resets = queue.reset_count
    assert places == [[QueuePosition(0, 2, 2, resets)], [QueuePosition(0, 5, 5, resets)]]
    assert rows_of(tmp_path / "s.csv", NOW_MS, NOW_MS + DAY_MS, group) == [
        (topic, "delivered", 2, 5), (topic, "settled", 2, 5),
    ]  # fmt: skip


def test_marks_of_many_groups_lie_further_apart(people: People) -> None:
    at_most = MARK_ROWS_DAY_MAX // (DAY_MS // SAMPLE_MS)
    assert mark_pause_ms(0) == mark_pause_ms(at_most) == SAMPLE_MS
    assert mark_pause_ms(at_most + 1) == 2 * SAMPLE_MS
    names = [f"g{number}" for number in range(at_most + 1)]
    written = [
        write_marks("b", standing(people, *names, consumer_offset=step), NOW_MS + step * SAMPLE_MS)
        for step in range(5)
    ]
    assert written == [len(names), 0, len(names), 0, len(names)]
    last = ProgressMark.objects.order_by("-at_ms").first()
    assert last is not None
    assert last.at_ms - last.after_ms == 2 * SAMPLE_MS


def test_another_worker_writes_no_mark_twice(people: People) -> None:
    write_marks("b", standing(people, "g"), NOW_MS)
    progress_marks._written.clear()  # the other worker knows of nothing
    write_marks("b", standing(people, "g"), NOW_MS)
    write_marks("b", standing(people, "g"), NOW_MS - DAY_MS)  # its clock is behind
    counted = ProgressMark.objects.values("group_name", "at_ms").annotate(rows=Count("pk"))
    assert {row["rows"] for row in counted} == {1}
    last = ProgressMark.objects.order_by("-pk").first()
    assert last is not None
    assert last.after_ms == 0  # nobody knows what was before


def test_a_reset_settles_nothing_and_nothing_is_settled_twice(
    people: People, tmp_path: Path
) -> None:
    def mark(minute: int, *places: QueuePosition, topic: str = "orders") -> None:
        at_ms = NOW_MS + minute * 60_000
        ProgressMark.objects.create(
            namespace=people.acme, group_name="g", topic=topic, after_ms=at_ms - SAMPLE_MS,
            at_ms=at_ms, places=encode_positions(list(places)),
        )  # fmt: skip

    mark(-90, QueuePosition(0, 3, 3, 0))  # the day before: where it stood
    mark(1, QueuePosition(0, 10, 12, 0), QueuePosition(1, 7, 7, 0))
    mark(2, QueuePosition(0, 4, 4, 1), QueuePosition(1, 7, 7, 0))  # set back
    mark(3, QueuePosition(0, 8, 9, 1), QueuePosition(1, 9, 9, 0))  # what it did already
    mark(4, QueuePosition(0, 11, 14, 1), QueuePosition(1, 9, 9, 0))
    mark(5, QueuePosition(0, 90, 90, 2), QueuePosition(1, 9, 9, 0))  # set ahead
    mark(6, QueuePosition(0, 91, 91, 2), QueuePosition(1, 9, 9, 0))
    mark(7, QueuePosition(2, 5, 5, 0), topic=RETRY_TOPIC)
    mark(8, QueuePosition(2, 6, 5, 0), topic=RETRY_TOPIC)
    mark(1_800, QueuePosition(0, 95, 95, 2))  # of the next day

    found = rows_of(tmp_path / "s.csv", NOW_MS, NOW_MS + DAY_MS, "g")

    assert found == [
        (f"{RETRY_TOPIC}g", "settled", 5, 6),
        ("orders", "delivered", 3, 12), ("orders", "settled", 3, 10),
        ("orders", "delivered", 7, 9), ("orders", "settled", 7, 9),
        ("orders", "delivered", 12, 14), ("orders", "settled", 10, 11),
        ("orders", "delivered", 90, 91), ("orders", "settled", 90, 91),
    ]  # fmt: skip


def test_marks_are_kept_for_the_nights_that_need_them(people: People) -> None:
    write_marks("b", standing(people, "old"), NOW_MS)
    write_marks("b", standing(people, "new"), NOW_MS + SAMPLE_MS)
    assert are_marks_available(NOW_MS, NOW_MS + MARKS_RETAINED_MS)
    assert not are_marks_available(NOW_MS, NOW_MS + MARKS_RETAINED_MS + 1)
    assert delete_old_marks(NOW_MS + MARKS_RETAINED_MS) == 0
    assert delete_old_marks(NOW_MS + MARKS_RETAINED_MS + 1) == 1
    assert ProgressMark.objects.get().group_name == "new"
