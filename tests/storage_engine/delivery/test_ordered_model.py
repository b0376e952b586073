"""Ordered groups against a model: random receives, settles, times, resets, stops and settings."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from storage_engine.delivery.subscription import ProcessQueue
from storage_engine.errors import LeaseExpired
from storage_engine.moves.retries import SUSPEND_MS, SUSPEND_MS_MIN
from storage_engine.records.record import Record
from storage_engine.records.record_run import decode_records
from storage_engine.wire.deliveries import (
    Extend,
    LeaseRef,
    Nack,
    SettleReply,
    SettleRequest,
)
from storage_engine.wire.groups import Dispatch, GroupConfig
from storage_engine.wire.offsets import ResetTo
from storage_engine.wire.reads import PullRequest
from storage_engine.wire.topics import Durability
from tests.sizes import sized
from tests.storage_engine.delivery.grouped import DLQ, grouped
from tests.storage_engine.doubles import ManualClock, OpenStore
from tests.storage_engine.groups.resetting import reset
from tests.storage_engine.model.ordered_model import (
    DONE,
    RETRY,
    Message,
    OrderedModel,
    Queue,
    Receipt,
    State,
)
from tests.storage_engine.stopping import kill

LEASE_MS = 1_000
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
ROOMY = {"inflight_count_max": 1_000}
TIGHT = {"inflight_count_max": 3, "inflight_span_max": 7, "message_group_waiting_max": 2}
SHARED, EXCLUSIVE = Dispatch.SHARED, Dispatch.EXCLUSIVE
times = st.sampled_from([1, 9, 10, 300, 1_000, 1_010, 30_000])


class OrderedMachine(RuleBasedStateMachine):
    """One group on two queues. ``changes``: whether its filter or its settings change."""

    changes = ""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="ordered", dir=MEMORY)
        self.clock = ManualClock()
        self.seen: dict[Queue, int] = {}

    @initialize(
        dispatch=st.sampled_from([SHARED, SHARED, EXCLUSIVE]),
        batch=st.sampled_from([1, 1, 2, 5]),
        max_reconsume_times=st.sampled_from([2, 0, -1]),
        limits=st.sampled_from([ROOMY, ROOMY, TIGHT]),
    )
    def start(
        self, dispatch: Dispatch, batch: int, max_reconsume_times: int, limits: dict[str, int]
    ) -> None:
        config = GroupConfig(
            group="g", dispatch=dispatch, is_ordered=True, batch_per_group=batch,
            max_reconsume_times=max_reconsume_times,
        )  # fmt: skip
        self.limits = limits
        self.model = OrderedModel(config)
        self.numbers = 0
        self._open()
        self.store.topic(queues=2, durability=Durability.ASYNC)
        self.store.store.catalog.group_put(config)
        self.put(0, "aab-a")
        self.receive(1)

    def _open(self) -> None:
        # A loop of its own: what a killed engine still wanted to do is never done.
        self.loop = asyncio.new_event_loop()
        self.store = OpenStore(Path(self.directory.name), clock=self.clock, limits=self.limits)

        async def opened() -> None:
            self.store.open()

        self._run(opened())

    def _run(self, awaitable: Awaitable[object]) -> None:
        async def waited() -> None:
            await awaitable

        self.loop.run_until_complete(waited())

    # Members ----------------------------------------------------------------------------------

    @rule(queue_id=st.integers(0, 1), keys=st.text("aab-", min_size=1, max_size=6), data=st.data())
    def put_more(self, queue_id: int, keys: str, data: st.DataObject) -> None:
        tags = st.text("xy", min_size=len(keys), max_size=len(keys))
        self.put(queue_id, keys, data.draw(tags) if self.changes == "filter" else "")

    def put(self, queue_id: int, keys: str, tags: str = "") -> None:
        queue = ("t", queue_id)
        sent = []
        for key, tag in zip(keys, tags or "x" * len(keys), strict=True):
            text = f"{key}{self.numbers}"
            self.numbers += 1
            sent.append(grouped(text, queue_id=queue_id, tag=tag))
            offset = len(self.model.queues.get(queue, []))
            self.model.put(Message(queue, offset, text.encode(), key.strip("-"), tag))
        self._run(self.store.put(*sent))

    @rule(count=st.integers(1, 8))
    def receive(self, count: int) -> None:
        now_ms = self.clock.monotonic_ms()
        tags = " || ".join(sorted(self.model.wanted))
        runs = self.model.runs(now_ms)
        leased = self.store.receive(count, lease_ms=LEASE_MS, tags=tags)
        given = [self._message_of(record) for record in leased.records]
        assert len(set(map(id, given))) == len(given)
        for run in runs:
            mine = [one for one in given if any(one is other for other in run)]
            assert mine == run[: len(mine)]  # in order, and none left out
        possible = [one for run in runs for one in run]
        early = [one for one in given if not any(one is other for other in possible)]
        assert not early, f"{early} is early, {possible} is not"
        if self.limits is ROOMY:
            assert len(given) == min(count, len(possible))
        elif possible and not self._is_anything_held_up(now_ms):
            assert given
        for one, attempt in zip(given, leased.attempts, strict=True):
            assert attempt == one.failures + one.moves + 1
            self.model.received(one, leased.generation, now_ms + LEASE_MS)
        self._adopt_skipped()

    def _is_anything_held_up(self, now_ms: int) -> bool:
        busy = {State.HELD, State.LEAVING}
        return any(
            one.state in busy or (one.state is State.SUSPENDED and one.until_ms > now_ms)
            for one in self.model.messages
        )

    def _message_of(self, record: Record) -> Message:
        one = self.model.queues[record.topic, record.queue_id][record.queue_offset]
        assert one.body == record.body
        return one

    def _adopt_skipped(self) -> None:
        for one in self.model.messages:
            is_open = one.state is State.READY and not self.model.is_wanted(one)
            if is_open and self._is_settled(one):
                self.model.skipped(one)

    def _is_settled(self, message: Message) -> bool:
        progress = self.store.store._consumer_offsets.find("g", *message.queue)
        return progress is not None and progress.is_settled(message.offset)

    def _drawn(self, data: st.DataObject) -> Receipt | None:
        """Those that still say something are drawn as often as the spent ones."""
        receipts = [one for one in self.model.receipts if one.message.state is not State.GONE]
        kinds = [receipts, [one for one in receipts if self.model.holds(one)]]
        kinds = [kind for kind in kinds if kind]
        return data.draw(st.sampled_from(data.draw(st.sampled_from(kinds)))) if kinds else None

    def _settle(self, request: SettleRequest, *, is_good: bool) -> SettleReply:
        reply = self.store.store.consumption.settle(request)
        codes = [failure.code for failure in reply.failures]
        assert codes == ([] if is_good else [LeaseExpired.code])
        return reply

    @precondition(lambda self: self.model.receipts)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        receipt = self._drawn(data)
        if receipt is not None:
            self._ack(receipt)

    def _ack(self, receipt: Receipt) -> None:
        one = receipt.message
        was_done = one.state in DONE
        ref = LeaseRef(
            topic=one.queue[0], queue_id=one.queue[1], lease_generation=receipt.generation,
            queue_offsets=[one.offset],
        )  # fmt: skip
        is_good = self.model.ack(receipt)
        self._settle(SettleRequest(group="g", acks=[ref]), is_good=is_good)
        config = self.model.config
        if is_good and not was_done and one.key and not self.changes:
            before = self.model.queues[one.queue][: one.offset]
            behind = [each for each in before if each.key == one.key and each.state not in DONE]
            assert not behind or config.dispatch is EXCLUSIVE or config.batch_per_group > 1

    @precondition(lambda self: self.model.receipts)
    @rule(
        data=st.data(),
        delay_ms=st.sampled_from([None, 0, 300]),
        how=st.sampled_from(["", "", "", "is_dead", "is_release"]),
    )
    def nack(self, data: st.DataObject, delay_ms: int | None, how: str) -> None:
        receipt = self._drawn(data)
        if receipt is None:
            return
        one = receipt.message
        keeps_place = self.model.keeps_its_place(one)
        if not keeps_place or one.settings != self.model.settings:
            delay_ms = 0
        nack = Nack(
            topic=one.queue[0], queue_id=one.queue[1], lease_generation=receipt.generation,
            queue_offset=one.offset, delay_ms=delay_ms, is_dead=how == "is_dead",
            is_release=how == "is_release",
        )  # fmt: skip
        is_mine = self.model.holds(receipt)
        self._settle(SettleRequest(group="g", nacks=[nack]), is_good=is_mine)
        if how == "is_release":
            assert self.model.release(receipt) == is_mine
        elif is_mine:
            wait_ms = SUSPEND_MS if delay_ms is None else max(delay_ms, SUSPEND_MS_MIN)
            self._failed(one, self.clock.monotonic_ms() + wait_ms, is_dead=how == "is_dead")

    def _failed(self, one: Message, ready_ms: int, *, is_dead: bool = False) -> None:
        keeps_place = self.model.keeps_its_place(one)
        if one.settings != self.model.settings:
            # Delivered under other settings: whether it has a place the engine may say.
            keeps_place = one.offset in self._process_queue(one.queue).released
        self.model.fail(one, ready_ms, keeps_place=keeps_place, is_dead=is_dead)

    def _process_queue(self, queue: Queue) -> ProcessQueue:
        subscription = self.store.store.consumption.delivery.subscriptions.find("g", "t")
        assert subscription is not None
        retry = subscription.retry
        if queue[0] == RETRY:
            assert retry is not None
            return retry
        return subscription.queues[queue[1]]

    @precondition(lambda self: self.model.receipts)
    @rule(data=st.data(), lease_ms=st.sampled_from([1_000, 3_000]))
    def extend(self, data: st.DataObject, lease_ms: int) -> None:
        receipt = self._drawn(data)
        if receipt is None:
            return
        one = receipt.message
        extend = Extend(
            topic=one.queue[0], queue_id=one.queue[1], lease_generation=receipt.generation,
            queue_offset=one.offset, lease_ms=lease_ms,
        )  # fmt: skip
        is_mine = self.model.holds(receipt)
        self._settle(SettleRequest(group="g", extends=[extend]), is_good=is_mine)
        if is_mine:
            one.until_ms = self.clock.monotonic_ms() + lease_ms

    # Time, stops, resets, changes -------------------------------------------------------------

    @rule(by_ms=times)
    def time_passes(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        ended = self.model.ended(self.clock.monotonic_ms())
        self._run(self.store.settled())
        for one in ended:
            self._failed(one, self.clock.monotonic_ms() + SUSPEND_MS_MIN)
        self._arrive()

    def _arrive(self) -> None:
        """Each message that left is in one new place."""
        left = [one for one in self.model.messages if one.state is State.LEAVING]
        self.model.ticked()
        dead = sorted(one.body for one in left if one.is_given_up)
        assert sorted(record.body for record in self._new((DLQ, 0))) == dead
        retried = self._new((RETRY, 0))
        # After a reset a message may leave twice: from its place, and from where it went before.
        others = [one for one in left if not one.is_given_up]
        arrived = sorted((record.body, record.reconsume_times) for record in retried)
        assert arrived == sorted((one.body, one.moves + 1) for one in others)
        for record in retried:
            before = next(one for one in others if one.body == record.body)
            self.model.put(
                Message((RETRY, 0), record.queue_offset, record.body, "", before.tag,
                        moves=record.reconsume_times)
            )  # fmt: skip

    def _new(self, queue: Queue) -> list[Record]:
        """Records of a queue that have not been seen."""
        if queue[0] not in self.store.store.catalog.topics:
            return []
        seen = self.seen.get(queue, 0)
        (stats,) = self.store.store.topic_stats(queue[0]).queues
        if seen == stats.max_offset:
            return []
        request = PullRequest(
            topic=queue[0], queue_id=0, queue_offset=seen, messages_max=1_000, bytes_max=1 << 20
        )
        _, found = self.store.store.pull(request)
        self.seen[queue] = stats.max_offset
        return decode_records(self.store.store.read_records(found))

    @rule(is_killed=st.booleans())
    def restart(self, is_killed: bool) -> None:
        if is_killed:
            kill(self.store.store)
        else:
            self._run(self.store.close())
        self.loop.close()
        self._open()
        self.model.restarted(is_killed=is_killed)
        for one in self.model.messages:
            if one.is_skipped and not self._is_settled(one):
                one.state, one.is_skipped = State.READY, False  # the filter looks again

    @rule()
    def checkpoint(self) -> None:
        self._run(self.store.store.checkpoint())
        for one in self.model.messages:
            one.saved_failures = one.failures

    @rule(queue_id=st.integers(0, 1), share=st.integers(0, 3))
    def reset(self, queue_id: int, share: int) -> None:
        offset = len(self.model.queues.get(("t", queue_id), [])) * share // 3
        reset(self.store, ResetTo.OFFSET, offset, queue_id)
        if ("t", queue_id) in self.model.queues:
            self.model.reset(("t", queue_id), offset)

    @precondition(lambda self: self.changes == "filter")
    @rule(wanted=st.sampled_from(["x", "y", "xy"]))
    def change_filter(self, wanted: str) -> None:
        self.model.wanted = set(wanted)
        self.receive(1)

    @precondition(lambda self: self.changes == "settings")
    @rule(dispatch=st.sampled_from([SHARED, EXCLUSIVE]), is_ordered=st.booleans())
    def change_settings(self, dispatch: Dispatch, is_ordered: bool) -> None:
        config = replace(self.model.config, dispatch=dispatch, is_ordered=is_ordered)
        self.store.store.catalog.group_put(config)
        self.model.change(config)
        self.receive(1)

    # What always holds ------------------------------------------------------------------------

    @invariant()
    def the_engine_has_settled_what_the_model_has(self) -> None:
        for one in self.model.messages if hasattr(self, "store") else ():
            assert self._is_settled(one) == (one.state in DONE), one

    def teardown(self) -> None:
        try:
            if hasattr(self, "store"):
                self._drain()
                self._run(self.store.close())
                self.loop.close()
        finally:
            self.directory.cleanup()

    def _drain(self) -> None:
        """In the end each message is settled: none is lost."""
        self.time_passes(30_000)
        self.time_passes(30_000)
        for _ in range(1_000):
            known = len(self.model.receipts)
            self.receive(16)
            for receipt in self.model.receipts[known:]:
                self._ack(receipt)
            if len(self.model.receipts) == known:
                break
        assert all(one.state in DONE or not self.model.is_wanted(one) for one in
                   self.model.messages)  # fmt: skip


class FilteredMachine(OrderedMachine):
    changes = "filter"


class ChangedMachine(OrderedMachine):
    changes = "settings"


pytestmark = [pytest.mark.sized, pytest.mark.timeout(600)]
TestOrdered = OrderedMachine.TestCase
TestFiltered = FilteredMachine.TestCase
TestChanged = ChangedMachine.TestCase
for _case in (TestOrdered, TestFiltered, TestChanged):
    _case.settings = settings(
        max_examples=sized(25, torture=300), stateful_step_count=40, deadline=None
    )
del _case
