"""Consumer offsets in PostgreSQL: what changed, once, whatever is cut off in between."""

from __future__ import annotations

import threading

import pytest
from django.db import DatabaseError, connection, connections

from mqservice.groups.models import ConsumerGroup
from mqservice.lib.names import MAIN_SHARD
from mqservice.sampling import offsets
from mqservice.sampling.limits import OFFSET_STEP_MS, OFFSET_STEPS_RETAINED_MS
from mqservice.sampling.models import (
    RETRY_TOPIC,
    ConsumerOffset,
    ConsumerOffsetStep,
    OffsetFeedPlace,
)
from mqservice.sampling.offsets import delete_old_offsets, persist_offsets, save_offset_step
from mqservice.sampling.tasks import persist
from mqservice.store import (
    ChangedOffset,
    GroupConfig,
    OffsetCommitRequest,
    OffsetsChangedRequest,
    StoreClient,
    TopicConfig,
    blocking_client,
)
from tests.engine import running_engine
from tests.mqservice.tasks.desk import Desk, numbered, open_desk
from tests.people import People, create_people

NOW_MS = 1_800_000_000_000
WAIT_S = 60


def stood(desk: Desk, topic: str | None = None) -> int | None:
    rows = ConsumerOffset.objects.filter(
        group_name=desk.group.name, topic=desk.topic.name if topic is None else topic
    )
    row = rows.first()
    return None if row is None else row.consumer_offset


def take(desk: Desk, count: int) -> None:
    """The group is ``count`` messages further."""
    desk.give_up(*numbered(count))


def test_an_offset_is_written_once_and_moves_with_the_group(desk: Desk) -> None:
    take(desk, 3)
    with blocking_client(MAIN_SHARD) as client:
        persist_offsets(client, NOW_MS)
        assert stood(desk) == 3
        take(desk, 2)
        assert persist_offsets(client, NOW_MS + 1).row_count >= 1
        assert stood(desk) == 5
        assert persist_offsets(client, NOW_MS + 2).row_count == 0
    row = ConsumerOffset.objects.get(group_name=desk.group.name, topic=desk.topic.name)
    assert (row.namespace, row.changed_ms) == (desk.namespace, NOW_MS + 1)


def test_the_queue_of_retries_has_a_name_of_its_own(desk: Desk) -> None:
    row = ChangedOffset(desk.group.engine_name, f"%RETRY%{desk.group.engine_name}", 2, 7, 0)
    offsets._upsert([row], NOW_MS)
    assert ConsumerOffset.objects.get(topic=RETRY_TOPIC, queue_id=2).consumer_offset == 7


def test_a_page_written_twice_changes_nothing(desk: Desk) -> None:
    take(desk, 3)
    with blocking_client(MAIN_SHARD) as client:
        persist_offsets(client, NOW_MS)
        before = list(ConsumerOffset.objects.order_by("id").values())
        OffsetFeedPlace.objects.update(since=0)  # as if the place had not been kept
        assert persist_offsets(client, NOW_MS + 1).row_count >= 1
    assert list(ConsumerOffset.objects.order_by("id").values()) == before


def test_an_outage_of_the_database_delays_and_loses_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise DatabaseError("the server closed the connection")

    take(desk, 3)
    with blocking_client(MAIN_SHARD) as client:
        with monkeypatch.context() as away:
            away.setattr(offsets, "_upsert", refuse)
            for _ in range(3):
                take(desk, 1)
                with pytest.raises(DatabaseError):
                    persist_offsets(client, NOW_MS)
        assert stood(desk) is None
        persist_offsets(client, NOW_MS)
        assert stood(desk) == 6


def test_all_pages_are_written_and_each_is_kept_on_its_own(
    desk: Desk, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    desks = [desk, *(open_desk(people.acme) for _ in range(4))]
    with blocking_client(MAIN_SHARD) as client:  # what other tests left in the engine
        while not persist_offsets(client, NOW_MS).is_complete:
            pass
    for count, each in enumerate(desks, start=1):
        take(each, count)
    real, calls = offsets._upsert, 0

    def third_fails(rows: object, now_ms: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise DatabaseError("the server closed the connection")
        real(rows, now_ms)  # type: ignore[arg-type]  # passed on as it came

    with blocking_client(MAIN_SHARD) as client:
        with monkeypatch.context() as away:
            away.setattr(offsets, "_upsert", third_fails)
            with pytest.raises(DatabaseError):
                persist_offsets(client, NOW_MS, page_rows=2, batch_pages=1)
        persist_offsets(client, NOW_MS, page_rows=2, batch_pages=2)
    assert [stood(each) for each in desks] == [1, 2, 3, 4, 5]


def test_another_engine_is_read_from_its_beginning(people: People, settings: object) -> None:
    with running_engine() as socket:
        settings.MQ_ENGINE_SOCKET = socket  # type: ignore[attr-defined]  # pytest-django's
        desk = open_desk(people.acme)
        take(desk, 2)
        with blocking_client(MAIN_SHARD) as client:
            persist_offsets(client, NOW_MS)
        assert stood(desk) == 2
        OffsetFeedPlace.objects.update(epoch=12345, since=10**12)
        ConsumerOffset.objects.update(consumer_offset=0)
        with blocking_client(MAIN_SHARD) as client:
            persist_offsets(client, NOW_MS)
        assert stood(desk) == 2


def test_a_group_of_no_namespace_is_passed_over(db: None, engine: str) -> None:
    with blocking_client(MAIN_SHARD) as client:
        client.topic_put(TopicConfig(topic="nobody%t", queue_count=1))
        client.group_put(GroupConfig(group="nobody%g"))
        request = OffsetCommitRequest(group="nobody%g", topic="nobody%t", queue_id=0, offset=0)
        client.offset_commit(request)
        names = {row.group for row in client.offsets_changed(OffsetsChangedRequest()).rows}
        assert "nobody%g" in names
        assert persist_offsets(client, NOW_MS).is_complete
    assert not ConsumerOffset.objects.filter(group_name="g").exists()


@pytest.mark.parametrize("client_id", ["tab\tx", "line\nx", "back\\x", "back\\", "\\N", "\\."])
def test_any_name_is_written_as_it_is(desk: Desk, client_id: str) -> None:
    group = f"{desk.group.engine_name}@{client_id}"
    offsets._upsert([ChangedOffset(group, desk.topic.engine_name, 0, 7, 0)], NOW_MS)
    row = ConsumerOffset.objects.get(group_name__startswith=f"{desk.group.name}@")
    assert (row.group_name, row.consumer_offset) == (f"{desk.group.name}@{client_id}", 7)


def test_the_task_is_let_go_while_the_engine_is_unavailable(db: None) -> None:
    persist()
    assert not ConsumerOffset.objects.exists()


def test_a_step_holds_what_moved_since_the_one_before(desk: Desk, people: People) -> None:
    other = open_desk(people.acme)
    take(desk, 1)
    take(other, 1)
    with blocking_client(MAIN_SHARD) as client:
        persist_offsets(client, NOW_MS - 1)
        assert save_offset_step(NOW_MS) == ConsumerOffset.objects.count()
        assert save_offset_step(NOW_MS + 1) == 0, "the same step again"
        take(desk, 4)
        later_ms = NOW_MS + OFFSET_STEP_MS
        persist_offsets(client, later_ms)
    # A step that was missed: the next one has what moved before it as well.
    save_offset_step(later_ms + 2 * OFFSET_STEP_MS)
    steps = ConsumerOffsetStep.objects.filter(topic=desk.topic.name).order_by("at_ms")
    begin_ms = NOW_MS - NOW_MS % OFFSET_STEP_MS
    assert [(step.at_ms - begin_ms, step.consumer_offset) for step in steps] == [
        (0, 1),
        (3 * OFFSET_STEP_MS, 5),
    ]
    assert ConsumerOffsetStep.objects.filter(topic=other.topic.name).count() == 1


def test_old_steps_and_the_oldest_of_too_many_go(desk: Desk) -> None:
    take(desk, 1)
    with blocking_client(MAIN_SHARD) as client:
        persist_offsets(client, NOW_MS)
    row = ConsumerOffset.objects.get(topic=desk.topic.name)
    for age_ms in (OFFSET_STEPS_RETAINED_MS + 1, 5_000, 4_000, 3_000):
        ConsumerOffsetStep.objects.create(
            namespace=desk.namespace, group_name=desk.group.name, topic=desk.topic.name,
            queue_id=0, at_ms=NOW_MS - age_ms, consumer_offset=row.consumer_offset, reset_count=0,
        )  # fmt: skip
    delete_old_offsets(NOW_MS, rows_max=2)
    kept = ConsumerOffsetStep.objects.order_by("at_ms").values_list("at_ms", flat=True)
    assert list(kept) == [NOW_MS - 4_000, NOW_MS - 3_000]


def test_what_is_left_of_a_deleted_group_goes(desk: Desk, people: People) -> None:
    other = open_desk(people.rival)
    take(desk, 1)
    take(other, 1)
    with blocking_client(MAIN_SHARD) as client:
        persist_offsets(client, NOW_MS)
        save_offset_step(NOW_MS)
    # A group of the same name in another namespace is another group.
    ConsumerGroup.objects.create(namespace=people.rival, name=desk.group.name)
    desk.group.delete()
    delete_old_offsets(NOW_MS)
    assert stood(desk) is None
    assert stood(other) == 1
    assert not ConsumerOffsetStep.objects.filter(topic=desk.topic.name).exists()


@pytest.mark.django_db(transaction=True)
def test_workers_at_once_wait_for_each_other(engine: str) -> None:
    desks = [open_desk(create_people().acme)]
    desks += [open_desk(desks[0].namespace) for _ in range(5)]
    for each in desks:
        take(each, 2)
    start = threading.Barrier(4)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            start.wait(WAIT_S)
            with StoreClient(engine, client_name="test") as client:
                persist_offsets(client, NOW_MS, page_rows=2)
        except BaseException as exc:
            failures.append(exc)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert failures == []
    assert [stood(each) for each in desks] == [2] * 6
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM sampling_offsetfeedplace")
        assert cursor.fetchone() == (1,)
