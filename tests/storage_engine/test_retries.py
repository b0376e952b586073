"""Messages whose delivery failed, or that wait: the cases that the models found, one by one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from storage_engine import put_path
from storage_engine.errors import LeaseExpired, StoreReadOnly
from storage_engine.groups.retry_record import DeadLetter, find_dead_letter
from storage_engine.records.delay_levels import DAY_MS
from storage_engine.records.record import PROPERTIES_BYTES_MAX, Record, decode_records
from storage_engine.records.schedule_topic import PROPERTY_DELIVER_AT, SCHEDULE_TOPIC
from storage_engine.wire.deliveries import Extend, Nack, SettleRequest
from storage_engine.wire.groups import GroupConfig
from storage_engine.wire.reads import PullRequest
from tests.storage_engine.doubles import BORN_MS, Leased, OpenStore, message


async def begun(store_dir: Path, *, max_reconsume_times: int = 16) -> tuple[OpenStore, Leased]:
    """A store in which group ``g`` has leased the one message of ``t`` for a second."""
    store = OpenStore(store_dir).open()
    store.topic()
    store.store.catalog.group_put(GroupConfig(group="g", max_reconsume_times=max_reconsume_times))
    await store.put_bodies(b"a")
    return store, store.receive(lease_ms=1_000)


def nack(leased: Leased, *, delay_ms: int | None = None, is_dead: bool = False) -> SettleRequest:
    (record,) = leased.records
    one = Nack(
        topic=record.topic, queue_id=record.queue_id, lease_generation=leased.generation,
        queue_offset=record.queue_offset, delay_ms=delay_ms, is_dead=is_dead,
    )  # fmt: skip
    return SettleRequest(group="g", nacks=[one])


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
        (queue,) = store.store.queries.queues_of(SCHEDULE_TOPIC)
        (segment,) = store.store._commit_log.segments()
        segment.view[queue.unit(0)[0] + 90] ^= 0x10
        await store.put_bodies(*[bytes(1_000)] * 14)
        await store.store.retention.run()
        schedule = store.store.consumption.schedule
        assert (queue.min_offset, schedule.pending_count) == (3, 2)
        store.store.tick()
        (source,) = schedule.sources
        assert (source.progress.consumer_offset, source.progress.settled) == (3, set())
        assert schedule.pending_count == 2


async def test_a_message_that_cannot_be_moved_is_given_back_once(
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
