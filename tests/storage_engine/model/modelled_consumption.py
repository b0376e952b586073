"""What groups and retention do to a store, done to its model as well.

machine ── receive, ack, nack, retain, … ──▶ [ConsumedStore] ──▶ Store, GroupModel, StoreModel

Each method checks the store's answer against the model's.
"""

from __future__ import annotations

from typing import Final

from storage_engine.delivery.subscription import Delivered
from storage_engine.errors import DiskFull, LeaseExpired
from storage_engine.records.record_run import decode_records
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.wire.deliveries import (
    Extend,
    LeaseRef,
    Nack,
    ReceiveRequest,
    SettleReply,
    SettleRequest,
)
from tests.storage_engine.doubles import SEGMENT_BYTES
from tests.storage_engine.model.group_model import Answer, GroupModel, Held, Place, Receipt
from tests.storage_engine.model.modelled_moves import MovedStore
from tests.storage_engine.model.modelled_store import RETENTION_MS
from tests.storage_engine.model.store_model import Queue

INFLIGHT_MAX: Final = 16
ROOMY: Final = (1 << 40, 1 << 40)
FORCE_PERCENT: Final = 85
FULL_PERCENT: Final = 90


class ConsumedStore(MovedStore):
    """See the module's docstring."""

    # Delivery ---------------------------------------------------------------------------------

    def receive(self, group_name: str, topic: str, count: int, lease_ms: int) -> None:
        group = self.groups[group_name]
        answers: list[Delivered] = []
        request = ReceiveRequest(
            group=group_name, topic=topic, member_id="m", messages_max=count, bytes_max=1 << 20,
            wait_ms=0, lease_ms=lease_ms,
        )  # fmt: skip
        self.store.consumption.receive(request, answers.append)
        group.subscribe(topic)
        (delivered,) = answers
        records = decode_records(self.store.read_records(delivered.records))
        places = [Place((record.topic, record.queue_id), record.queue_offset) for record in records]
        self._check_received(group, topic, places, count)
        until_ms = self.clock.monotonic_ms() + lease_ms
        held = Held(delivered.lease_generation, until_ms, self.clock.now_ms())
        for place, record, attempt in zip(places, records, delivered.attempts, strict=True):
            assert record.body == self.model.queues[place.queue].records[place.offset].body
            assert attempt == group.leased(place, held)

    def _check_received(
        self, group: GroupModel, topic: str, places: list[Place], count: int
    ) -> None:
        """As many as possible, the first ones of each queue."""
        sources = group.sources(topic)
        assert {place.queue for place in places} <= set(sources)
        possible = certain = damaged_count = 0
        for name in sources:
            ready = group.ready(name)
            given = [place.offset for place in places if place.queue == name]
            assert given == ready[: len(given)]
            room = INFLIGHT_MAX - group.inflight_count(name)
            damaged = len(self.model.queues[name].damaged)
            damaged_count += damaged
            possible += min(len(ready), room)
            # Damaged ones stay leased when there was no room to settle them.
            certain += min(len(ready), max(room - damaged, 0))
        assert len(places) <= min(count, possible)
        # Damaged ones are passed over, and count as long as they are not.
        assert len(places) >= min(1 if damaged_count else count, certain)

    def _settle(self, request: SettleRequest) -> SettleReply:
        reply = self.store.consumption.settle(request)
        assert {failure.code for failure in reply.failures} <= {LeaseExpired.code}
        return reply

    def ack(self, group_name: str, receipt: Receipt) -> None:
        generation, place, _ = receipt
        ref = LeaseRef(
            topic=place.queue[0], queue_id=place.queue[1], lease_generation=generation,
            queue_offsets=[place.offset],
        )  # fmt: skip
        reply = self._settle(SettleRequest(group=group_name, acks=[ref]))
        is_good = self.groups[group_name].ack(receipt) is not Answer.EXPIRED
        assert (reply.acked_count, len(reply.failures)) == (is_good, not is_good)

    def nack(
        self, group_name: str, receipt: Receipt, delay_ms: int | None, *, is_dead: bool
    ) -> None:
        generation, place, _ = receipt
        reason = f"#{generation}"
        nack = Nack(
            topic=place.queue[0], queue_id=place.queue[1], lease_generation=generation,
            queue_offset=place.offset, delay_ms=delay_ms, reason=reason, is_dead=is_dead,
        )  # fmt: skip
        reply = self._settle(SettleRequest(group=group_name, nacks=[nack]))
        group, now_ms = self.groups[group_name], self.delay_ms()
        is_held = group.nack(receipt, delay_ms, reason, now_ms, is_dead=is_dead)
        counts = reply.nacked_count, reply.dead_lettered_count
        assert counts == (is_held and not is_dead, is_held and is_dead)
        assert len(reply.failures) == (not is_held)

    def extend(self, group_name: str, receipt: Receipt, lease_ms: int) -> None:
        generation, place, _ = receipt
        extend = Extend(
            topic=place.queue[0], queue_id=place.queue[1], lease_generation=generation,
            queue_offset=place.offset, lease_ms=lease_ms,
        )  # fmt: skip
        reply = self._settle(SettleRequest(group=group_name, extends=[extend]))
        until_ms = self.clock.monotonic_ms() + lease_ms
        is_held = self.groups[group_name].extend(receipt, until_ms)
        assert bool(reply.extended_until_ms[0]) == is_held
        assert len(reply.failures) == (not is_held)

    def check_groups(self) -> None:
        """Each group is where the model says, and so is the schedule."""
        for group_name, group in self.groups.items():
            for stats in self.store.consumption.group_stats(group_name).queues:
                name = stats.topic, stats.queue_id
                queue = self.model.queues[name]
                assert (stats.min_offset, stats.max_offset) == (queue.min_offset, queue.max_offset)
                low = group.consumer_offset(name)
                high = group.consumer_offset(name, with_damaged=True)
                # What expired before the group knew the queue is settled by the next retention.
                assert low <= max(stats.consumer_offset, queue.min_offset) <= high
                # Damaged ones stay leased when there was no room to settle them.
                more = stats.inflight_count - group.inflight_count(name)
                assert 0 <= more <= len(queue.damaged)
        count = self.store.consumption.schedule.pending_count
        # A damaged one is to come until its time has, which a rebuild of its queue forgets.
        damaged_count = sum(
            len(queue.damaged)
            for name, queue in self.model.queues.items()
            if name[0] == SCHEDULE_TOPIC
        )
        assert 0 <= count - len(self.scheduled()) <= damaged_count

    # Retention --------------------------------------------------------------------------------

    def retain(self, used_percent: int) -> None:
        """One pass with a disk that full. Raises ``DiskFull``: then it must be run again."""
        self.files.disk = (100, 100 - used_percent)
        is_forced = used_percent >= FORCE_PERCENT
        held = {} if is_forced else self._lowest_held()
        bases = self.segments()
        count = int(is_forced)
        if self.retention_bytes:
            count = max(count, len(bases) - self.retention_bytes // SEGMENT_BYTES)
        count = min(count, 10, len(bases) - 1)
        self.model.expire(self.store.retention.age.now_ms(), RETENTION_MS, held)
        if count > 0:
            self.model.force(bases[count], held)
        try:
            self.run(self.store.retention.run())
        except DiskFull:
            # Its queues may begin behind what has been appended again, with nothing deleted yet.
            self._adopt_forwarded()
            for name, queue in self.model.queues.items():
                if name[0] == SCHEDULE_TOPIC:
                    stats = self.store.topic_stats(SCHEDULE_TOPIC).queues[name[1]]
                    self._begin_schedule(name, max(queue.min_offset, stats.min_offset))
            raise
        self._adopt_forwarded()
        log_start = (self.segments() or [0])[0]
        below = max(log_start, bases[count] if count > 0 else 0)
        for name, queue in self.model.queues.items():
            if name[0] == SCHEDULE_TOPIC:
                self._begin_schedule(name, max(queue.min_offset, queue.first_at_or_above(below)))
        assert (self.store.disk.refusal is not None) == (used_percent >= FULL_PERCENT)
        self.adopt_begins()
        if count > 0 and not held:
            assert self.segments()[0] >= bases[count]
        for group_name, group in self.groups.items():
            group.forget_below_min()
            queues = self.store.consumption.group_stats(group_name).queues
            assert all(stats.consumer_offset >= stats.min_offset for stats in queues)

    def _lowest_held(self) -> dict[Queue, int]:
        lowest: dict[Queue, int] = {}
        for group in self.groups.values():
            for place in [*group.held, *group.leaving]:
                lowest[place.queue] = min(place.offset, lowest.get(place.queue, place.offset))
        return lowest

    def _adopt_forwarded(self) -> None:
        self.run(self.arrived())
        self.adopt_moves(self.forwardable())

    def _begin_schedule(self, name: Queue, first: int) -> None:
        """What was to come below that must stand behind it again."""
        assert all(at.offset >= first for at in self.scheduled() if at.queue == name)
        self.model.queues[name].min_offset = first
