"""How ordered groups read what they pass over: in turns, within a share of time, never twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

from storage_engine.wire.topics import Durability
from tests.storage_engine.delivery.grouped import ack, grouped, ordered_group, received, texts_of
from tests.storage_engine.delivery.test_filter_scan import ROOMY, turns
from tests.storage_engine.doubles import ManualClock, OpenStore


class HastyClock(ManualClock):
    """Some milliseconds go by whenever it is asked."""

    def __init__(self, step_ms: int = 1) -> None:
        super().__init__()
        self.step_ms = step_ms

    def monotonic_ms(self) -> int:
        self.steady_ms += self.step_ms
        return self.steady_ms


async def filled(
    store_dir: Path, *texts: str, clock: ManualClock | None = None, waiting_max: int = 2_000
) -> OpenStore:
    limits = {**ROOMY, "message_group_waiting_max": waiting_max, "inflight_count_max": 1_000}
    store = OpenStore(store_dir, limits=limits, clock=clock).open()
    store.topic(durability=Durability.ASYNC)
    store.store.catalog.group_put(ordered_group())
    await store.put(*[grouped(text) for text in texts])
    return store


async def test_a_long_run_of_a_busy_message_group_is_passed_over_in_many_turns(
    tmp_path: Path,
) -> None:
    store = await filled(tmp_path, *["a"] * 4_500, "b", waiting_max=10_000)
    first = store.receive(1, lease_ms=60_000)
    answers, _ = store.park()
    assert answers == []
    assert await turns(answers) >= 3
    assert [texts_of(one) for one in answers] == [["b"]]
    ack(store, first)
    assert received(store) == ["a"]
    await store.close()


async def test_nobody_looks_for_ever_when_no_more_may_be_passed_over(tmp_path: Path) -> None:
    store = await filled(tmp_path, *["a"] * 2_500, "b")
    held = store.receive(1, lease_ms=60_000)
    answers, _ = store.park()
    looking = store.store.consumption.delivery.filter_scans
    for _ in range(10):
        await asyncio.sleep(0)
    assert answers == []
    assert not looking._waiting
    process_queue = store.store.consumption.delivery.subscriptions.find("g", "t").queues[0]  # type: ignore[union-attr]
    assert process_queue.message_groups is not None
    assert process_queue.message_groups.waiting_count == 2_000
    assert process_queue.position == 2_001
    ack(store, held)
    assert [texts_of(one) for one in answers] == [["a"]]
    await store.close()


async def test_what_may_come_takes_no_share_of_the_time_for_looking(tmp_path: Path) -> None:
    store = await filled(tmp_path, *["-"] * 800, clock=HastyClock())
    for _ in range(40):
        assert received(store)
    await store.close()


async def test_a_process_that_is_held_up_gives_all_that_a_small_receive_asks_for(
    tmp_path: Path,
) -> None:
    store = await filled(tmp_path, "a", "b", "c", clock=HastyClock(step_ms=50))
    assert received(store) == ["a", "b", "c"]
    await store.close()


async def test_a_message_is_read_once_however_often_it_is_passed_over(tmp_path: Path) -> None:
    store = await filled(tmp_path, *["a"] * 500)
    looking = store.store.consumption.delivery.filter_scans
    read, *others = looking._reading
    places: list[int] = []

    def noted(physical_offset: int, record_bytes: int) -> bytes | None:
        places.append(physical_offset)
        return read(physical_offset, record_bytes)

    looking._reading = (noted, *others)  # type: ignore[assignment]  # as it was, but for the first
    for _ in range(100):
        ack(store, store.receive(lease_ms=60_000))
    assert len(places) == len(set(places)) == 500
    await store.close()
