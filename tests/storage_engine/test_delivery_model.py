"""Delivery against dicts and lists: random receives, settles, times and restarts."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from storage_engine.wire.deliveries import Extend, LeaseRef, Nack, SettleRequest
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import ManualClock, OpenStore, message

LEASE_MS = 1_000
# Power cuts are tested elsewhere; a thousand real fsyncs would only take time.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
Place = tuple[int, int]


class DeliveryMachine(RuleBasedStateMachine):
    """One group on two queues. The model knows who holds what, and until when."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = tempfile.TemporaryDirectory(prefix="delivery", dir=MEMORY)
        self.clock = ManualClock()
        self.put_count = [0, 0]
        self.settled: set[Place] = set()
        self.held: dict[Place, tuple[int, int]] = {}  # → (generation, until)
        self.delayed: dict[Place, int] = {}  # → not before
        self.attempts: dict[Place, int] = {}
        self.receipts: list[tuple[int, Place]] = []
        self.superseded: set[tuple[int, Place]] = set()

    @initialize()
    def start(self) -> None:
        self._open()
        self.store.topic(queues=2, durability=Durability.ASYNC)
        self.store.group()

    def _open(self) -> None:
        self.store = OpenStore(Path(self.directory.name), clock=self.clock)

        async def opened() -> None:
            self.store.open()

        self.loop.run_until_complete(opened())

    def _in_loop(self, request: SettleRequest) -> None:
        self.reply = self.store.store.consumption.settle(request)

    @rule(queue_id=st.integers(0, 1), count=st.integers(1, 5))
    def put(self, queue_id: int, count: int) -> None:
        async def put() -> None:
            await self.store.put(*[message(b"x", queue_id=queue_id)] * count)

        self.loop.run_until_complete(put())
        self.put_count[queue_id] += count

    def ready(self) -> set[Place]:
        now = self.clock.monotonic_ms()
        return {
            place
            for place in ((q, o) for q in (0, 1) for o in range(self.put_count[q]))
            if place not in self.settled
            and place not in self.held
            and self.delayed.get(place, 0) <= now
        }

    @rule(count=st.integers(1, 8))
    def receive(self, count: int) -> None:
        leased = self.store.receive(count, lease_ms=LEASE_MS)
        places = [(record.queue_id, record.queue_offset) for record in leased.records]
        ready = self.ready()
        assert set(places) <= ready
        assert len(set(places)) == len(places)
        assert len(places) == min(count, len(ready)) or self._is_full(places)
        for place, attempt in zip(places, leased.attempts, strict=True):
            self.superseded |= {r for r in self.receipts if r[1] == place}
            self.attempts[place] = self.attempts.get(place, 0) + 1
            assert attempt == self.attempts[place]
            self.delayed.pop(place, None)
            self.held[place] = (leased.generation, self.clock.monotonic_ms() + LEASE_MS)
            self.receipts.append((leased.generation, place))

    def _is_full(self, taken: list[Place]) -> bool:
        return any(sum(p[0] == q for p in [*self.held, *taken]) >= 16 for q in (0, 1))

    @precondition(lambda self: self.receipts)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        receipt = data.draw(st.sampled_from(self.receipts))
        generation, place = receipt
        ref = LeaseRef(
            topic="t", queue_id=place[0], lease_generation=generation, queue_offsets=[place[1]]
        )
        self._in_loop(SettleRequest(group="g", acks=[ref]))
        if place in self.settled:
            assert self.reply.failures == []
        elif receipt in self.superseded:
            assert len(self.reply.failures) == 1
        else:
            assert (self.reply.acked_count, self.reply.failures) == (1, [])
            self.settled.add(place)
            self.held.pop(place, None)
            self.delayed.pop(place, None)

    @precondition(lambda self: self.receipts)
    @rule(data=st.data(), delay_ms=st.sampled_from([0, 300, 5_000]))
    def nack(self, data: st.DataObject, delay_ms: int) -> None:
        generation, place = data.draw(st.sampled_from(self.receipts))
        nack = Nack(
            topic="t", queue_id=place[0], lease_generation=generation, queue_offset=place[1],
            delay_ms=delay_ms,
        )  # fmt: skip
        self._in_loop(SettleRequest(group="g", nacks=[nack]))
        is_mine = self.held.get(place, (0, 0))[0] == generation
        assert self.reply.nacked_count == int(is_mine)
        if is_mine:
            del self.held[place]
            self.delayed[place] = self.clock.monotonic_ms() + delay_ms

    @precondition(lambda self: self.receipts)
    @rule(data=st.data(), lease_ms=st.sampled_from([1_000, 3_000]))
    def extend(self, data: st.DataObject, lease_ms: int) -> None:
        generation, place = data.draw(st.sampled_from(self.receipts))
        extend = Extend(
            topic="t", queue_id=place[0], lease_generation=generation, queue_offset=place[1],
            lease_ms=lease_ms,
        )  # fmt: skip
        self._in_loop(SettleRequest(group="g", extends=[extend]))
        is_mine = self.held.get(place, (0, 0))[0] == generation
        assert bool(self.reply.extended_until_ms[0]) == is_mine
        if is_mine:
            self.held[place] = (generation, self.clock.monotonic_ms() + lease_ms)

    @rule(by_ms=st.sampled_from([1, 300, 1_000, 6_000]))
    def time_passes(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self.store.store.tick()
        now = self.clock.monotonic_ms()
        self.held = {place: held for place, held in self.held.items() if held[1] > now}

    @rule()
    def restart(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self._open()
        self.held.clear()
        self.delayed.clear()
        self.attempts.clear()
        # Which of two receipts came later is not remembered across a restart.
        self.receipts = [receipt for receipt in self.receipts if receipt not in self.superseded]
        self.superseded.clear()

    @rule()
    def checkpoint(self) -> None:
        self.loop.run_until_complete(self.store.store.checkpoint())

    @invariant()
    def consumer_offsets_cover_exactly_the_settled_prefix(self) -> None:
        if not hasattr(self, "store"):
            return
        for queue in self.store.store.consumption.group_stats("g").queues:
            expected = 0
            while (queue.queue_id, expected) in self.settled:
                expected += 1
            assert queue.consumer_offset == expected
            held = sum(place[0] == queue.queue_id for place in self.held)
            assert queue.inflight_count == held

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self._drain()
            self.loop.run_until_complete(self.store.close())
        self.loop.close()
        self.directory.cleanup()

    def _drain(self) -> None:
        """In the end everything is delivered: nothing is lost."""
        self.time_passes(10_000)
        for _ in range(1_000):
            leased = self.store.receive(16)
            if not leased.records:
                break
            self.store.ack(leased)
            self.settled |= {(r.queue_id, r.queue_offset) for r in leased.records}
        assert self.settled == {(q, o) for q in (0, 1) for o in range(self.put_count[q])}


pytestmark = pytest.mark.timeout(600)  # half a minute on a core of its own
TestDelivery = DeliveryMachine.TestCase
TestDelivery.settings = settings(max_examples=500, stateful_step_count=50, deadline=None)
