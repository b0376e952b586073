"""Long runs of unwanted messages and hostile filters: the loop goes on, and nobody is forgotten."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from storage_engine.config import MIB
from storage_engine.errors import BadRequest
from storage_engine.filters.limits import DEPTH_MAX, NODES_MAX, TEXT_BYTES_MAX
from storage_engine.records.record_run import decode_records
from storage_engine.wire.reads import PullRequest, PullStatus
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import Leased, ManualClock, OpenStore, message

ROOMY = {
    "segment_bytes": 32 * MIB, "consume_queue_units": 300_000, "frame_bytes_max": 16 * MIB,
    "body_bytes_max": MIB, "index_slots": 100_000, "index_entries": 200_000,
    "consume_queue_allocate_bytes": 1 << 16, "index_allocate_bytes": 1 << 20,
}  # fmt: skip


async def filled(
    store_dir: Path, count: int, *, queues: int = 1, clock: ManualClock | None = None
) -> OpenStore:
    """A store with ``count`` messages of tag ``b`` and then one of tag ``a`` in its last queue."""
    store = OpenStore(store_dir, limits=ROOMY, clock=clock).open()
    store.topic(queues=queues, durability=Durability.ASYNC)
    store.group()
    frame = [message(b"b", tag="b", properties={"n": "7"})] * 5_000
    for _ in range(count // len(frame)):
        await store.put(*frame)
    await store.put(message(b"a", tag="a", queue_id=queues - 1, properties={"n": "8"}))
    return store


async def turns(answers: list[Leased], turns_max: int = 1_000) -> int:
    """How many turns of the loop go by until there is an answer."""
    for count in range(turns_max):
        if answers:
            return count
        await asyncio.sleep(0)
    raise AssertionError("no answer")


@pytest.mark.parametrize(("tags", "sql"), [("a", ""), ("", "n = 8")])
async def test_fifty_thousand_are_skipped_over_many_turns_for_one_that_waits(
    tmp_path: Path, tags: str, sql: str
) -> None:
    store = await filled(tmp_path, 50_000)

    answers, parked = store.park(tags=tags, sql=sql)

    assert (answers, parked is not None) == ([], True)
    assert 0 < store.consumer_offset() <= 10_000
    assert await turns(answers) >= (4 if tags else 40)
    assert answers[0].bodies == [b"a"]
    assert store.consumer_offset() == 50_000
    await store.close()


async def test_a_receive_that_does_not_wait_continues_where_the_last_one_ended(
    tmp_path: Path,
) -> None:
    store = await filled(tmp_path, 25_000)
    found = [store.receive(tags="a").bodies for _ in range(3)]
    assert found == [[], [], [b"a"]]
    await store.close()


async def test_a_long_run_in_one_queue_does_not_hold_up_the_others(tmp_path: Path) -> None:
    store = await filled(tmp_path, 50_000, queues=2)
    answers, _ = store.park(tags="a")
    assert await turns(answers) <= 1
    assert store.consumer_offset(0) < 50_000
    await store.close()


async def test_those_who_wait_take_turns(tmp_path: Path) -> None:
    store = await filled(tmp_path, 50_000)
    store.group("h")
    first, _ = store.park(tags="a")
    second, _ = store.park(tags="a", group="h")
    await turns(first)
    assert store.consumer_offset(group="h") > 30_000
    await turns(second)
    await store.close()


async def test_nobody_who_waits_is_forgotten_when_the_time_of_a_tick_is_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SlowClock(ManualClock):
        """Every question takes a while."""

        def monotonic_ms(self) -> int:
            self.steady_ms += 1
            return self.steady_ms

    store = await filled(tmp_path, 5_000, clock=SlowClock())
    answers, _ = store.park(sql="n = 8")
    for _ in range(50):
        await asyncio.sleep(0)
    at_rest = store.consumer_offset()
    for _ in range(50):
        await asyncio.sleep(0)
    assert store.consumer_offset() == at_rest < 200  # until the next tick
    store.receive(sql="n = 8")
    assert store.consumer_offset() == at_rest
    monkeypatch.setattr(SlowClock, "monotonic_ms", ManualClock.monotonic_ms)
    store.store.tick()
    await turns(answers)
    assert answers[0].bodies == [b"a"]
    await store.close()


async def test_a_store_that_closes_looks_no_more(tmp_path: Path) -> None:
    store = await filled(tmp_path, 50_000)
    answers, _ = store.park(tags="a")
    await store.close()
    for _ in range(20):
        await asyncio.sleep(0)
    assert answers == []


class WorkingTime(ManualClock):
    """Measures what a look takes of a core, whatever else the machine does; leases and members
    stay as they are.
    """

    def monotonic_ms(self) -> int:
        return time.thread_time_ns() // 1_000_000


TERMS = NODES_MAX // 4  # of two operands, their operator, and the OR behind it
BOMBS = {
    "deep": "NOT " * (DEPTH_MAX - 1) + "(p1 <> p2)",
    "contains": " OR ".join(f"p{number % 2} CONTAINS 'yyyyz{number}'" for number in range(TERMS)),
    "texts": " OR ".join(["p0 <> p1"] * TERMS),
    "numbers": " OR ".join(["p2 > p3"] * TERMS),
    "members": f"p2 IN ({', '.join(f'{number}.5' for number in range(NODES_MAX - 2))})",
    "needle": f"p0 CONTAINS '{'y' * (TEXT_BYTES_MAX - 20)}z'",
}


@pytest.mark.parametrize("name", BOMBS)
async def test_a_filter_bomb_is_cut_off_in_time_and_all_is_checked_in_the_end(
    tmp_path: Path, name: str
) -> None:
    clock = WorkingTime()
    store = OpenStore(tmp_path, limits=ROOMY, clock=clock).open()
    store.topic(durability=Durability.ASYNC)
    store.group()
    hostile = {"p0": "y" * 14_000, "p1": "y" * 14_000, "p2": "9" * 400, "p3": "9" * 400}
    for _ in range(10):
        put = await store.put(*[message(b"b", properties=hostile)] * 20)
        assert put.error is None
        assert min(put.offsets)[0] >= 0
    took_ms: list[int] = []
    while len(took_ms) < 400:
        began_ms = clock.monotonic_ms()
        assert store.receive(1, sql=BOMBS[name]).bodies == []
        took_ms.append(clock.monotonic_ms() - began_ms)
        store.store.tick()
    assert store.consumer_offset() == 200
    # 5 ms and one message; caches that others use as well cost a few of them more.
    assert sum(took_ms) < 200 * 50
    assert sorted(took_ms)[-20] < 50
    await store.close()


# Pull -----------------------------------------------------------------------------------------


async def test_a_pull_takes_the_same_filters_and_says_where_to_continue(tmp_path: Path) -> None:
    store = await filled(tmp_path, 5_000)

    def pull(offset: int, **fields: object) -> tuple[PullStatus, int, list[bytes]]:
        values = {
            "topic": "t", "queue_id": 0, "queue_offset": offset, "messages_max": 10,
            "bytes_max": MIB, **fields,
        }  # fmt: skip
        head, found = store.store.pull(PullRequest(**values))  # type: ignore[arg-type]  # a dict
        bodies = [record.body for record in decode_records(store.store.read_records(found))]
        return head.status, head.next_offset, bodies

    sql = {"filter": "n = 8", "filter_kind": "sql92"}
    assert pull(0, **sql) == (PullStatus.NO_MATCHED_MSG, 800, [])
    assert pull(4_500, **sql) == (PullStatus.FOUND, 5_001, [b"a"])
    assert pull(4_500, filter="a || c") == (PullStatus.FOUND, 5_001, [b"a"])
    assert pull(4_999, filter="*") == (PullStatus.FOUND, 5_001, [b"b", b"a"])
    assert pull(5_001, filter="a") == (PullStatus.NO_NEW_MSG, 5_001, [])
    with pytest.raises(BadRequest, match="one of them"):
        pull(0, filter="a", tags=["a"])
    await store.close()


async def test_nobody_looks_on_once_the_engine_stops(tmp_path: Path) -> None:
    """Its files are about to be closed."""
    store = await filled(tmp_path, 25_000)
    _, parked = store.park(tags="a")
    looking = store.store.consumption.delivery.filter_scans
    looking.stop()
    assert parked is not None
    store.store.consumption.delivery.serve(parked.subscription)
    assert looking._waiting == {}
    await store.close()


async def test_a_look_that_finds_messages_takes_no_time_from_others(tmp_path: Path) -> None:
    store = await filled(tmp_path, 0)
    store.receive(tags="a")
    looking = store.store.consumption.delivery.filter_scans
    subscription = store.store.consumption.delivery.subscriptions.find("g", "t")
    assert subscription is not None
    looking.tick()
    for found_count, left_ms in ((500, 30), (250, 25), (0, 15)):
        look = looking.start_scan(subscription)
        look.found_count = found_count
        store.clock.advance(10)
        looking.finish_scan(subscription, look)
        assert looking._ms_left == left_ms
    await store.close()
