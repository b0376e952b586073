"""Messages whose delivery failed, or that wait: the cases that the models found, one by one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from storage_engine.errors import BadRequest, DiskFull, LeaseExpired, StoreReadOnly
from storage_engine.puts import put_path
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.delay_levels import DAY_MS, DELAY_MS_MAX
from storage_engine.records.record import PROPERTIES_BYTES_MAX, Record, encode_record
from storage_engine.records.record_run import decode_records
from storage_engine.records.retry_record import DeadLetter, find_dead_letter
from storage_engine.records.schedule_topic import PROPERTY_DELIVER_AT, SCHEDULE_TOPIC
from storage_engine.wire.deliveries import Extend, Nack, SettleRequest
from storage_engine.wire.groups import Dispatch, GroupConfig
from storage_engine.wire.reads import PullRequest
from tests.storage_engine.doubles import BORN_MS, SEGMENT_BYTES, Leased, OpenStore, message


async def begun(store_dir: Path, *, max_reconsume_times: int = 16) -> tuple[OpenStore, Leased]:
    """A store in which group ``g`` has leased the one message of ``t`` for a second."""
    store = OpenStore(store_dir).open()
    store.topic()
    store.store.catalog.group_put(GroupConfig(group="g", max_reconsume_times=max_reconsume_times))
    await store.put_bodies(b"a")
    return store, store.receive(lease_ms=1_000)


def nack(
    leased: Leased, *, group: str = "g", delay_ms: int | None = None, is_dead: bool = False
) -> SettleRequest:
    (record,) = leased.records
    one = Nack(
        topic=record.topic, queue_id=record.queue_id, lease_generation=leased.generation,
        queue_offset=record.queue_offset, delay_ms=delay_ms, is_dead=is_dead,
    )  # fmt: skip
    return SettleRequest(group=group, nacks=[one])


def dead_letters(store: OpenStore) -> list[Record]:
    request = PullRequest(
        topic="%DLQ%g", queue_id=0, queue_offset=0, messages_max=10, bytes_max=1 << 20
    )
    _, found = store.store.pull(request)
    return decode_records(store.store.read_records(found))


@pytest.mark.parametrize("is_dead", [False, True])
async def test_a_late_ack_of_the_first_message_that_is_dead_has_expired(
    tmp_path: Path, is_dead: bool
) -> None:
    store, leased = await begun(tmp_path, max_reconsume_times=0)
    if is_dead:
        store.store.consumption.settle(nack(leased, is_dead=True))
    await store.pass_time(1_000)
    assert [failure.code for failure in store.ack(leased).failures] == [LeaseExpired.code]
    assert len(dead_letters(store)) == 1
    await store.close()


async def test_an_extended_delivery_began_when_it_did_before(tmp_path: Path) -> None:
    store, leased = await begun(tmp_path)
    began_ms = store.clock.now_ms()
    extend = Extend(
        topic="t", queue_id=0, lease_generation=leased.generation, queue_offset=0, lease_ms=5_000
    )
    await store.pass_time(500)
    store.store.consumption.settle(SettleRequest(group="g", extends=[extend]))
    store.store.consumption.settle(nack(leased, is_dead=True))
    await store.pass_time(1)
    (dead,) = dead_letters(store)
    assert find_dead_letter(dead) == DeadLetter(
        origin_topic="t",
        origin_message_id=dead.message_id,
        attempts=1,
        first_delivery_ms=began_ms,
        last_delivery_ms=began_ms,
        reason="",
    )
    await store.close()


async def test_positions_of_the_schedule_that_find_no_room_are_written_later(
    tmp_path: Path,
) -> None:
    store, leased = await begun(tmp_path)
    store.store.consumption.settle(nack(leased, delay_ms=0))
    await store.pass_time(0)  # the retry queue's own position is written
    again = store.receive(lease_ms=60_000)
    store.store.consumption.settle(nack(again, delay_ms=300))
    store.files.full.add("append")
    await store.pass_time(300)
    assert store.receive().bodies == []
    store.files.full.clear()
    await store.pass_time(0)
    assert (store.receive().bodies, store.store.consumption.schedule.pending_count) == ([b"a"], 0)
    await store.close()


async def test_a_damaged_message_that_retention_deletes_does_not_stop_the_schedule(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path, limits={"retention_bytes": 2 * 4_096}) as store:
        store.topic()
        store.topic(SCHEDULE_TOPIC)
        to_come = msgspec.structs.replace(
            message(b"to come", topic=SCHEDULE_TOPIC),
            properties={
                "REAL_TOPIC": "t",
                "REAL_QID": "0",
                PROPERTY_DELIVER_AT: str(BORN_MS + 30 * DAY_MS),
            },
        )
        for _ in range(3):
            await store.put(to_come)
        (queue,) = store.store.catalog.get_queues(SCHEDULE_TOPIC)
        (segment,) = store.store._commit_log.segments()
        segment.view[queue.unit(0)[0] + 90] ^= 0x10
        await store.put_bodies(*[bytes(1_000)] * 14)
        await store.store.retention.run()
        schedule = store.store.consumption.schedule
        assert (queue.min_offset, schedule.pending_count) == (3, 2)
        store.store.tick()
        (source,) = schedule.sources
        assert (source.progress.consumer_offset, len(source.progress.settled)) == (3, 0)
        assert schedule.pending_count == 2


async def test_a_message_that_cannot_be_moved_is_released_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its properties leave no room, as an older engine allowed; others of its batch wait."""
    monkeypatch.setattr(put_path, "_PROPERTIES_MAX", PROPERTIES_BYTES_MAX)
    async with OpenStore(
        tmp_path, limits={"segment_bytes": 1 << 20, "frame_bytes_max": 1 << 20}
    ) as store:
        store.topic()
        store.group()
        full = msgspec.structs.replace(
            message(b"full"), properties={"p": "x" * (PROPERTIES_BYTES_MAX - 100)}
        )
        await store.put(full, message(b"moves"))
        leased = store.receive(lease_ms=1_000)
        store.store.durability.refusal = StoreReadOnly("for one tick")
        store.clock.advance(1_000)
        store.store.tick()
        store.store.durability.refusal = None
        await store.pass_time(0)
        assert store.receive(lease_ms=600_000).bodies == [b"moves"]
        assert len(leased.records) == 2
        await store.pass_time(60_000)
        again = store.receive()
        assert (again.bodies, again.attempts) == ([b"full"], [2])


async def test_a_message_that_retention_took_while_it_waited_to_be_moved_is_not_looked_for(
    tmp_path: Path,
) -> None:
    """On a full disk retention raises min_offset, and cannot settle what lies below it."""
    store, leased = await begun(tmp_path)
    store.store.durability.refusal = StoreReadOnly("for one tick")
    store.store.consumption.settle(nack(leased, delay_ms=0))
    store.store.tick()
    assert store.store.consumption.retries.waiting_count == 1
    (queue,) = store.store.catalog.get_queues("t")
    queue.raise_min(1)
    store.files.full.add("append")
    with pytest.raises(DiskFull):
        store.store.retention.settle_expired()
    store.store.durability.refusal = None
    store.store.tick()
    assert store.store.consumption.retries.waiting_count == 0
    store.files.full.clear()
    assert store.store.retention.settle_expired() == 1
    assert store.receive().bodies == []
    await store.close()


async def test_a_message_whose_new_place_cannot_be_made_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retry topic and the DLQ of one group can have no more queues."""
    store = OpenStore(tmp_path).open()
    own_topic = store.store.catalog.own_topic

    def refuse(topic: str, queue_count: int) -> list[ConsumeQueue]:
        if topic.endswith("without"):
            raise BadRequest("a topic can have no more queues")
        return own_topic(topic, queue_count)

    monkeypatch.setattr(store.store.catalog, "own_topic", refuse)
    store.topic()
    store.group("with")
    store.group("without")
    await store.put_bodies(b"a")
    for group in ("with", "without"):
        leased = store.receive(group=group)
        store.store.consumption.settle(nack(leased, group=group, delay_ms=0))
        if group == "with":
            await store.settled()
    again = store.receive(group="with")
    store.store.consumption.settle(nack(again, group="with", delay_ms=0))
    await store.settled()
    assert store.receive(group="with").attempts == [3]
    await store.pass_time(60_000)
    in_place = store.receive(group="without")
    assert (in_place.bodies, in_place.attempts) == ([b"a"], [2])
    await store.close()


async def test_a_message_that_is_larger_than_a_segment_with_its_retry_stays_in_its_place(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path, limits={"body_bytes_max": SEGMENT_BYTES}) as store:
        store.topic()
        store.group()
        largest = bytes(store.store._commit_log.batch_bytes_max - len(encode_record(message(b""))))
        await store.put_bodies(b"a", largest, b"b")
        assert len(store.receive(lease_ms=1_000).records) == 3
        await store.pass_time(1_000)
        assert store.receive(lease_ms=600_000).bodies == [b"a", b"b"]
        await store.pass_time(60_000)
        again = store.receive()
        assert (again.bodies, again.attempts) == ([largest], [2])


async def test_a_message_on_its_way_is_nobodys_whatever_generation_is_said(tmp_path: Path) -> None:
    store, leased = await begun(tmp_path)
    store.store.consumption.settle(nack(leased, delay_ms=0))
    forged = leased._replace(generation=0)
    place = {"topic": "t", "queue_id": 0, "lease_generation": 0, "queue_offset": 0}
    extend = msgspec.convert({**place, "lease_ms": 1_000}, Extend)
    request = msgspec.structs.replace(nack(forged, delay_ms=0), extends=[extend])
    assert len(store.store.consumption.settle(request).failures) == 2
    assert len(store.ack(forged).failures) == 1
    await store.settled()
    assert store.receive().bodies == [b"a"]
    await store.pass_time(100_000)
    assert store.receive().bodies == [b"a"]
    await store.close()


async def test_messages_that_waited_for_the_disk_are_moved_in_the_order_of_their_failures(
    tmp_path: Path,
) -> None:
    store, leased = await begun(tmp_path)
    await store.put_bodies(b"b", b"c")
    store.store.consumption.settle(nack(leased, delay_ms=0))
    for _ in range(2):
        store.store.consumption.settle(nack(store.receive(1), delay_ms=0))
    store.store.durability.refusal = StoreReadOnly("for one tick")
    store.store.tick()
    store.store.durability.refusal = None
    await store.settled()
    assert store.receive().bodies == [b"a", b"b", b"c"]
    await store.close()


async def test_no_delay_is_longer_than_the_longest(tmp_path: Path) -> None:
    store, leased = await begun(tmp_path)
    store.store.consumption.settle(nack(leased, delay_ms=1 << 62))
    await store.pass_time(DELAY_MS_MAX - 1)
    await store.pass_time(0)
    assert store.receive().bodies == []
    await store.pass_time(1)
    assert store.receive().bodies == [b"a"]
    await store.close()


async def test_how_often_a_message_was_retried_is_read_from_its_head_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = OpenStore(tmp_path).open()
    store.topic()
    store.group()
    await store.put_bodies(bytes(2_000))
    store.store.consumption.settle(nack(store.receive(), delay_ms=0))
    await store.settled()
    read_bytes: list[int] = []
    read_many = store.store._commit_log.read_many

    def counted(records: list[tuple[int, int]]) -> bytes:
        content = read_many(records)
        read_bytes.append(len(content))
        return content

    monkeypatch.setattr(store.store._commit_log, "read_many", counted)
    again = store.receive()
    assert (again.attempts, len(again.records)) == ([2], 1)
    assert sum(read_bytes) < 2_000 + 2_000
    await store.close()


async def test_an_ack_of_a_message_that_waits_for_its_retry_settles_no_other(
    tmp_path: Path,
) -> None:
    store, leased = await begun(tmp_path)
    store.store.consumption.settle(nack(leased, delay_ms=5_000))
    await store.settled()
    assert [failure.code for failure in store.ack(leased).failures] == [LeaseExpired.code]
    await store.pass_time(5_000)
    await store.pass_time(0)
    assert store.receive().bodies == [b"a"]
    await store.close()


async def test_a_group_that_became_ordered_has_no_order_to_keep_among_its_retries(
    tmp_path: Path,
) -> None:
    store, leased = await begun(tmp_path)
    store.store.consumption.settle(nack(leased, delay_ms=0))
    await store.settled()
    ordered = GroupConfig(group="g", dispatch=Dispatch.EXCLUSIVE, is_ordered=True)
    store.store.catalog.group_put(ordered)
    for attempt in (2, 3):
        again = store.receive()
        assert (again.bodies, again.attempts) == ([b"a"], [attempt])
        store.store.consumption.settle(nack(again, delay_ms=0))
        await store.settled()
    await store.close()
