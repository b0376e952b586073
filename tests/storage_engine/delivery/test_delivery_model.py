"""Delivery and retries against a model: random receives, settles, times, restarts and kills."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from storage_engine.delivery.subscription import Delivered
from storage_engine.errors import LeaseExpired
from storage_engine.records.delay_levels import DAY_MS, DELAY_LEVELS_MS, HOUR_MS
from storage_engine.records.record import Record
from storage_engine.records.record_run import decode_records
from storage_engine.records.retry_record import DeadLetter, find_dead_letter, shown_record
from storage_engine.records.schedule_topic import DELAY_QUEUE, PROPERTY_DELIVER_AT, SCHEDULE_TOPIC
from storage_engine.settings.retry_policy import LevelDelays, ListDelays
from storage_engine.wire.deliveries import (
    Extend,
    LeaseRef,
    Nack,
    ReceiveRequest,
    SettleReply,
    SettleRequest,
)
from storage_engine.wire.groups import GroupConfig
from storage_engine.wire.reads import PullRequest
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import ManualClock, OpenStore, message
from tests.storage_engine.model.message_model import (
    Answer,
    Message,
    MessageModel,
    Place,
    Receipt,
    State,
)
from tests.storage_engine.stopping import kill

RETRY, DLQ = "%RETRY%g", "%DLQ%g"
QUEUES = (("t", 0), ("t", 1), (RETRY, 0))
INFLIGHT_MAX = 16  # on one queue
LEASE_MS = 1_000
LONG_MS = 3 * HOUR_MS  # longer than any delay
# Power cuts are tested elsewhere; a thousand real fsyncs would only take time.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
POLICIES = (LevelDelays(), ListDelays(delays_ms=(300, 5_000, 7_000)))
delays = st.sampled_from([0, 0, 300, 5_000, None])
times = st.sampled_from([1, 299, 300, 1_000, 6_000, 30_000])


class DeliveryMachine(RuleBasedStateMachine):
    """One group on two queues; the model knows where each message is, and who may have it."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="delivery", dir=MEMORY)
        self.clock = ManualClock()

    @initialize(
        max_reconsume_times=st.sampled_from([2, 2, 0, 16, -1]), policy=st.sampled_from(POLICIES)
    )
    def start(self, max_reconsume_times: int, policy: LevelDelays | ListDelays) -> None:
        group = GroupConfig(group="g", max_reconsume_times=max_reconsume_times, retry=policy)
        self.model = MessageModel(group)
        self.seen: dict[tuple[str, int], int] = {}
        self._open()
        self.store.topic(queues=2, durability=Durability.ASYNC)
        self.store.store.catalog.group_put(group)
        self.put(0, 3)
        self.receive(8)

    def _open(self) -> None:
        # A loop of its own: what a killed engine still wanted to do is never done.
        self.loop = asyncio.new_event_loop()
        self.store = OpenStore(Path(self.directory.name), clock=self.clock)

        async def opened() -> None:
            self.store.open()

        self._run(opened())

    def _run(self, awaitable: Awaitable[object]) -> None:
        async def waited() -> None:
            await awaitable

        self.loop.run_until_complete(waited())

    # Members ----------------------------------------------------------------------------------

    @rule(queue_id=st.integers(0, 1), count=st.integers(1, 5))
    def put(self, queue_id: int, count: int) -> None:
        first = len(self.model.messages)
        bodies = [b"%d" % number for number in range(first, first + count)]
        offset = self.store.store.topic_stats("t").queues[queue_id].max_offset
        self._run(self.store.put(*[message(body, queue_id=queue_id) for body in bodies]))
        for at, body in enumerate(bodies, start=offset):
            self.model.put(body, Place("t", queue_id, at))

    @rule(count=st.integers(1, 8))
    def receive(self, count: int) -> None:
        ready = {queue: self.model.ready(*queue) for queue in QUEUES}
        room = {queue: INFLIGHT_MAX - self.model.inflight_count(*queue) for queue in QUEUES}
        answers: list[Delivered] = []
        request = ReceiveRequest(
            group="g", topic="t", member_id="m", messages_max=count, bytes_max=1 << 20, wait_ms=0,
            lease_ms=LEASE_MS,
        )  # fmt: skip
        self.store.store.consumption.receive(request, answers.append)
        (delivered,) = answers
        records = decode_records(self.store.store.read_records(delivered.records))
        possible = sum(min(len(ready[queue]), room[queue]) for queue in QUEUES)
        assert len(records) == min(count, possible)
        for queue in QUEUES:
            given = [r.queue_offset for r in records if (r.topic, r.queue_id) == queue]
            assert given == ready[queue][: len(given)]
        if records:
            assert delivered.lease_until_ms == self.clock.now_ms() + LEASE_MS
        until_ms = self.clock.monotonic_ms() + LEASE_MS
        for record, attempt in zip(records, delivered.attempts, strict=True):
            place = Place(record.topic, record.queue_id, record.queue_offset)
            leased = self.model.at[place]
            self._check_content(record, leased)
            assert attempt == leased.failures + 1
            self.model.leased(leased, delivered.lease_generation, until_ms, self.clock.now_ms())

    def _check_content(self, record: Record, known: Message) -> None:
        shown, sent = shown_record(record), message(known.body)
        assert (shown.topic, shown.body, shown.message_id) == ("t", sent.body, sent.message_id)
        assert (shown.properties, shown.born_timestamp_ms) == ({}, sent.born_timestamp_ms)

    def _drawn(self, data: st.DataObject) -> Receipt:
        """Of all receipts most are spent: those that still say something are drawn as often."""
        receipts = self.model.receipts
        kinds = [
            receipts,
            [one for one in receipts if self.model.holds(one)],
            [one for one in receipts if self.model.has_left(one)],
        ]
        return data.draw(st.sampled_from(data.draw(st.sampled_from([k for k in kinds if k]))))

    def _settle(self, request: SettleRequest) -> SettleReply:
        reply = self.store.store.consumption.settle(request)
        assert {failure.code for failure in reply.failures} <= {LeaseExpired.code}
        return reply

    @precondition(lambda self: self.model.receipts)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        self._ack(self._drawn(data))

    def _ack(self, receipt: Receipt) -> None:
        place = receipt.place
        ref = LeaseRef(
            topic=place.topic, queue_id=place.queue_id, lease_generation=receipt.generation,
            queue_offsets=[place.offset],
        )  # fmt: skip
        reply = self._settle(SettleRequest(group="g", acks=[ref]))
        is_good = self.model.ack(receipt) is not Answer.EXPIRED
        assert (reply.acked_count, len(reply.failures)) == (is_good, not is_good)

    @precondition(lambda self: self.model.receipts)
    @rule(data=st.data(), delay_ms=delays, is_dead=st.sampled_from([False, False, False, True]))
    def nack(self, data: st.DataObject, delay_ms: int | None, is_dead: bool) -> None:
        receipt = self._drawn(data)
        place, reason = receipt.place, f"no {len(self.model.receipts)}"
        nack = Nack(
            topic=place.topic, queue_id=place.queue_id, lease_generation=receipt.generation,
            queue_offset=place.offset, delay_ms=delay_ms, reason=reason, is_dead=is_dead,
        )  # fmt: skip
        reply = self._settle(SettleRequest(group="g", nacks=[nack]))
        now_ms = self.delay_ms()
        is_mine = self.model.nack(receipt, delay_ms, reason, now_ms, is_dead=is_dead)
        counts = reply.nacked_count, reply.dead_lettered_count
        assert counts == (is_mine and not is_dead, is_mine and is_dead)
        assert len(reply.failures) == (not is_mine)

    @precondition(lambda self: self.model.receipts)
    @rule(data=st.data(), lease_ms=st.sampled_from([1_000, 3_000]))
    def extend(self, data: st.DataObject, lease_ms: int) -> None:
        receipt = self._drawn(data)
        place = receipt.place
        extend = Extend(
            topic=place.topic, queue_id=place.queue_id, lease_generation=receipt.generation,
            queue_offset=place.offset, lease_ms=lease_ms,
        )  # fmt: skip
        reply = self._settle(SettleRequest(group="g", extends=[extend]))
        is_mine = self.model.extend(receipt, self.clock.monotonic_ms() + lease_ms)
        until_ms = self.clock.now_ms() + lease_ms if is_mine else 0
        assert reply.extended_until_ms == [until_ms]
        assert len(reply.failures) == (not is_mine)

    # Time -------------------------------------------------------------------------------------

    def delay_ms(self) -> int:
        """What time it is for delays; ``test_delay_clock`` has that clock's own tests."""
        return self.store.store._delay_clock.delay_ms()

    @rule(by_ms=times, wall_by_ms=st.sampled_from([0, 0, 0, -5_000, HOUR_MS, DAY_MS]))
    def time_passes_unseen(self, by_ms: int, wall_by_ms: int) -> None:
        """Nothing follows from it before the next tick; the wall clock may jump."""
        self.clock.advance(by_ms)
        self.clock.wall_ms += wall_by_ms

    @rule(by_ms=times)
    def time_passes(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self._run(self._ticked())
        assert self._tick() is False

    async def _ticked(self) -> None:
        while self._tick():
            await self.store.store.durability.durable_to(self._append_offset())
            while not self.store.store.dispatcher.is_idle:  # the flusher has still to say so
                await asyncio.sleep(0)
            self._arrive()

    def _tick(self) -> bool:
        """One tick of both; something is appended when, and only when, messages move."""
        before = self._append_offset()
        self.store.store.tick()
        moves = self.model.tick(self.clock.monotonic_ms(), self.delay_ms())
        assert (self._append_offset() > before) == moves
        assert self.store.store.consumption.retries.waiting_count == 0
        return moves

    def _append_offset(self) -> int:
        return self.store.store.stats(0).append_offset

    def _arrive(self) -> None:
        """Each message that moves is in its new place, once, and nothing else is there."""
        topics = self.store.store.catalog.topics
        assert set(topics) <= {"t", RETRY, DLQ, SCHEDULE_TOPIC}
        for topic in sorted(set(topics) - {"t"}):
            for stats in self.store.store.topic_stats(topic).queues:
                queue = topic, stats.queue_id
                for record in self._records(queue, self.seen.get(queue, 0), stats.max_offset):
                    place = Place(*queue, record.queue_offset)
                    self._check_arrival(record, self.model.arrived(record.body, place))
                self.seen[queue] = stats.max_offset
        assert self.model.moving == {}

    def _records(self, queue: tuple[str, int], first: int, end: int) -> list[Record]:
        if first == end:
            return []
        request = PullRequest(
            topic=queue[0], queue_id=queue[1], queue_offset=first, messages_max=end - first,
            bytes_max=1 << 20,
        )  # fmt: skip
        _, found = self.store.store.pull(request)
        records = decode_records(self.store.store.read_records(found))
        assert [record.queue_offset for record in records] == list(range(first, end))
        return records

    def _check_arrival(self, record: Record, known: Message) -> None:
        self._check_content(record, known)
        assert record.reconsume_times == known.failures
        match known.state:
            case State.DEAD:
                assert (record.topic, record.queue_id) == (DLQ, 0)
                assert find_dead_letter(record) == DeadLetter(
                    origin_topic="t",
                    origin_message_id=record.message_id,
                    attempts=known.failures,
                    first_delivery_ms=known.first_ms,
                    last_delivery_ms=known.began_ms,
                    reason=known.reason,
                )
            case State.DELAYED:
                is_level = known.delay_ms in DELAY_LEVELS_MS
                queue_id = DELAY_LEVELS_MS.index(known.delay_ms) if is_level else DELAY_QUEUE
                assert (record.topic, record.queue_id) == (SCHEDULE_TOPIC, queue_id)
                assert record.properties[PROPERTY_DELIVER_AT] == str(known.due_ms)
            case _:
                assert (record.topic, record.queue_id) == (RETRY, 0)
                assert PROPERTY_DELIVER_AT not in record.properties

    # Stops ------------------------------------------------------------------------------------

    @rule(how=st.sampled_from(["closed", "killed", "killed while messages move"]), by_ms=times)
    def restart(self, how: str, by_ms: int) -> None:
        """What was appended before a kill is there, and has settled the old places."""
        if how == "killed while messages move":
            self.clock.advance(by_ms)
            self._tick()
        if how == "closed":
            self._run(self.store.close())
        else:
            kill(self.store.store)
        self.loop.close()
        self._open()
        self._arrive()
        self.model.restarted()
        self._run(self._ticked())

    @rule()
    def checkpoint(self) -> None:
        self._run(self.store.store.checkpoint())

    # What always holds ------------------------------------------------------------------------

    @invariant()
    def each_queue_is_as_far_as_the_model_says(self) -> None:
        if not hasattr(self, "store"):
            return
        consumption = self.store.store.consumption
        for queue in consumption.group_stats("g").queues:
            name = queue.topic, queue.queue_id
            assert name in QUEUES
            assert queue.consumer_offset == self.model.consumer_offset(*name)
            assert queue.inflight_count == self.model.inflight_count(*name)
        delayed = self.model.in_state(State.DELAYED)
        assert consumption.schedule.pending_count == len(delayed)

    def teardown(self) -> None:
        try:
            if hasattr(self, "store"):
                self._drain()
                self._run(self.store.close())
                self.loop.close()
        finally:
            self.directory.cleanup()

    def _drain(self) -> None:
        """In the end each message is settled or dead: none is lost, and none comes twice."""
        self.time_passes(LONG_MS)
        self.time_passes(LONG_MS)  # those that were on their way to the schedule
        for _ in range(1_000):
            known = len(self.model.receipts)
            self.receive(16)
            for receipt in self.model.receipts[known:]:
                self._ack(receipt)
            if len(self.model.receipts) == known:
                break
        ended = self.model.in_state(State.SETTLED, State.DEAD)
        assert len(ended) == len(self.model.messages)
        self.restart("killed", 0)
        self.time_passes(LONG_MS)
        self.receive(16)
        self.each_queue_is_as_far_as_the_model_says()
        self._check_dead()

    def _check_dead(self) -> None:
        topics = self.store.store.catalog.topics
        (stats, *_) = self.store.store.topic_stats(DLQ if DLQ in topics else "t").queues
        end = stats.max_offset if DLQ in topics else 0
        found = sorted(record.body for record in self._records((DLQ, 0), 0, end))
        assert found == sorted(one.body for one in self.model.in_state(State.DEAD))


# `make torture` runs many more in its step delivery_model.
TestDelivery = DeliveryMachine.TestCase
TestDelivery.settings = settings(max_examples=25, stateful_step_count=50, deadline=None)
