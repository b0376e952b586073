"""The whole store against dicts and lists: random puts, reads, settles, times, stops and faults."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from storage_engine.errors import DiskFull
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.wire.deliveries import Extend, LeaseRef, Nack, SettleReply, SettleRequest
from storage_engine.wire.topics import Durability, TopicConfig
from tests.storage_engine.doubles import SEGMENT_BYTES
from tests.storage_engine.model.group_model import Receipt
from tests.storage_engine.model.modelled_store import (
    BODY_BYTES_MAX,
    FULL_PERCENT,
    GROUPS,
    RETENTION_MS,
    ROOMY,
    Cursor,
    ModelledStore,
    Wanted,
)
from tests.storage_engine.model.stopped_files import delete_derived, derived, flip_bit
from tests.storage_engine.model.store_model import Queue, Stored

TOPICS = ("a", "c")  # one bit apart
QUEUES_MAX = 3
TAGS = (None, "Aa", "BB", "x")  # two of them have one hash
KEYS = ("k", "Aa", "BB")
LEASES_MS = (1_000, 3_000, 3 * RETENTION_MS)

wanted = st.builds(
    Wanted,
    topic=st.sampled_from(["a", "a", "a", "c", "c", SCHEDULE_TOPIC, "unknown"]),
    queue_id=st.integers(0, QUEUES_MAX - 1),
    body_bytes=st.sampled_from([8, 60, 200, 200, 500, 900, BODY_BYTES_MAX, BODY_BYTES_MAX + 1]),
    tag=st.sampled_from(TAGS),
    keys=st.lists(st.sampled_from(KEYS), max_size=2),
)
frames = st.lists(wanted, min_size=1, max_size=10)
queue_ids = st.integers(0, QUEUES_MAX - 1)
topics = st.sampled_from(TOPICS)


class StoreMachine(RuleBasedStateMachine):
    """One store; every rule does the same to the store and to its model."""

    @initialize(retention_segments=st.sampled_from([0, 4]), durability=st.sampled_from(Durability))
    def start(self, retention_segments: int, durability: Durability) -> None:
        self.both = ModelledStore(retention_segments * SEGMENT_BYTES)
        self.cursors: list[Cursor] = []
        topic = TopicConfig(topic="a", queue_count=QUEUES_MAX, durability=durability)
        self.both.topic_put(topic)
        self.both.topic_put(TopicConfig(topic="c", queue_count=1))
        self.both.topic_put(TopicConfig(topic=SCHEDULE_TOPIC, queue_count=1))

    # Topics and puts --------------------------------------------------------------------------

    @rule(
        topic=topics,
        queue_count=st.integers(1, QUEUES_MAX),
        durability=st.sampled_from(Durability),
        retention_ms=st.sampled_from([0, 60_000, 5 * RETENTION_MS]),
    )
    def topic_is_made_or_changed(
        self, topic: str, queue_count: int, durability: Durability, retention_ms: int
    ) -> None:
        self.both.topic_put(
            TopicConfig(
                topic=topic,
                queue_count=queue_count,
                durability=durability,
                retention_ms=retention_ms,
            )
        )

    @rule(frame=frames, count=st.integers(1, 3))
    def put(self, frame: list[Wanted], count: int) -> None:
        for _ in range(count):
            self.both.put(frame)

    @rule(queue_id=queue_ids, count=st.integers(3, 20), body_bytes=st.sampled_from([200, 900]))
    def put_one_after_the_other(self, queue_id: int, count: int, body_bytes: int) -> None:
        queue_count = self.both.model.topics["a"].queue_count
        for tag in TAGS * (count // len(TAGS)):
            self.both.put([Wanted("a", queue_id % queue_count, body_bytes, tag, [KEYS[0]])])

    @rule(frame=frames)
    def put_while_a_sync_fails(self, frame: list[Wanted]) -> None:
        self.both.files.sync_failures = 1
        self.both.put([*frame, Wanted(SCHEDULE_TOPIC, 0, 8, None, [])])  # a sync topic
        assert self.both.files.sync_failures == 0

    # Reads ------------------------------------------------------------------------------------

    def drawn_queue(self, data: st.DataObject) -> Queue:
        return data.draw(st.sampled_from(sorted(self.both.model.queues)))

    @rule(
        data=st.data(),
        offset=st.integers(-3, 9),
        is_from_end=st.booleans(),
        count=st.integers(1, 9),
        bytes_max=st.sampled_from([0, 700, 1 << 20]),
        tags=st.sampled_from([(), (), ("Aa",), ("BB",), ("x", "Aa"), ("never",)]),
    )
    def pull(
        self, data: st.DataObject, offset: int, is_from_end: bool, count: int, bytes_max: int,
        tags: tuple[str, ...],
    ) -> None:  # fmt: skip
        name = self.drawn_queue(data)
        if name[0] == SCHEDULE_TOPIC:
            tags = ()  # its units hold due times in the place of tags
        queue = self.both.model.queues[name]
        begin = queue.max_offset - offset if is_from_end else queue.min_offset + offset
        self.both.pull(name, begin, count, bytes_max, tags)

    @rule(data=st.data(), back_ms=st.sampled_from([-1, 0, 1, 300, 6_000, 1 << 40]))
    def offset_at_time(self, data: st.DataObject, back_ms: int) -> None:
        self.both.offset_at_time(self.drawn_queue(data), self.both.model.stamp - back_ms)

    @rule(
        data=st.data(),
        topic=topics,
        is_id=st.booleans(),
        count=st.integers(1, 4),
        back_ms=st.tuples(st.sampled_from([0, 300, 6_000]), st.sampled_from([-1, 0, 300])),
    )
    def look_up(
        self, data: st.DataObject, topic: str, is_id: bool, count: int, back_ms: tuple[int, int]
    ) -> None:
        keys = [q.records[at].keys[0] for name, q, at in self.both.model.readable()]
        key = data.draw(st.sampled_from(keys if is_id and keys else KEYS))
        newest = self.both.model.stamp
        self.cursors += self.both.look_up(topic, key, count, 0, 1 << 60)[:2]
        if back_ms[0] >= back_ms[1]:
            self.both.look_up(topic, key, count, newest - back_ms[0], newest - back_ms[1])

    @precondition(lambda self: self.cursors)
    @rule(data=st.data(), count=st.integers(1, 4))
    def look_up_goes_on(self, data: st.DataObject, count: int) -> None:
        cursor = data.draw(st.sampled_from(self.cursors))
        self.both.look_up(cursor.topic, cursor.key, count, 0, 1 << 60, cursor)

    # Delivery ---------------------------------------------------------------------------------

    @rule(
        group=st.sampled_from(sorted(GROUPS)),
        topic=topics,
        count=st.integers(1, 8),
        lease_ms=st.sampled_from(LEASES_MS),
    )
    def receive(self, group: str, topic: str, count: int, lease_ms: int) -> None:
        self.both.receive(group, topic, count, lease_ms)

    def drawn_receipt(self, data: st.DataObject) -> tuple[str, Receipt]:
        known = [(n, r) for n, group in sorted(self.both.groups.items()) for r in group.receipts]
        return data.draw(st.sampled_from(known[-12:]))

    def settle(self, request: SettleRequest) -> SettleReply:
        return self.both.store.consumption.settle(request)

    @precondition(lambda self: any(group.receipts for group in self.both.groups.values()))
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        name, receipt = self.drawn_receipt(data)
        group, (generation, place) = self.both.groups[name], receipt
        ref = LeaseRef(
            topic=place.queue[0], queue_id=place.queue[1], lease_generation=generation,
            queue_offsets=[place.offset],
        )  # fmt: skip
        reply = self.settle(SettleRequest(group=name, acks=[ref]))
        if group.is_settled(place):
            assert reply.failures == []
        elif receipt in group.superseded:
            assert len(reply.failures) == 1
        else:
            assert (reply.acked_count, reply.failures) == (1, [])
            group.acked(place)

    @precondition(lambda self: any(group.receipts for group in self.both.groups.values()))
    @rule(data=st.data(), delay_ms=st.sampled_from([0, 300, 5_000]))
    def nack(self, data: st.DataObject, delay_ms: int) -> None:
        name, receipt = self.drawn_receipt(data)
        group, (generation, place) = self.both.groups[name], receipt
        nack = Nack(
            topic=place.queue[0], queue_id=place.queue[1], lease_generation=generation,
            queue_offset=place.offset, delay_ms=delay_ms,
        )  # fmt: skip
        is_held = group.holds(receipt)
        assert self.settle(SettleRequest(group=name, nacks=[nack])).nacked_count == int(is_held)
        if is_held:
            del group.held[place]
            group.delayed[place] = self.both.clock.monotonic_ms() + delay_ms

    @precondition(lambda self: any(group.receipts for group in self.both.groups.values()))
    @rule(data=st.data(), lease_ms=st.sampled_from(LEASES_MS))
    def extend(self, data: st.DataObject, lease_ms: int) -> None:
        name, receipt = self.drawn_receipt(data)
        group, (generation, place) = self.both.groups[name], receipt
        extend = Extend(
            topic=place.queue[0], queue_id=place.queue[1], lease_generation=generation,
            queue_offset=place.offset, lease_ms=lease_ms,
        )  # fmt: skip
        is_held = group.holds(receipt)
        reply = self.settle(SettleRequest(group=name, extends=[extend]))
        assert bool(reply.extended_until_ms[0]) == is_held
        if is_held:
            group.held[place] = generation, self.both.clock.monotonic_ms() + lease_ms

    # Time -------------------------------------------------------------------------------------

    @rule(
        by_ms=st.sampled_from([1, 300, 6_000, 61_000, RETENTION_MS // 3, RETENTION_MS + 1]),
        wall_by_ms=st.sampled_from([0, 0, 0, 0, -5_000, -RETENTION_MS, 24 * RETENTION_MS]),
        ticks=st.booleans(),
    )
    def time_passes(self, by_ms: int, wall_by_ms: int, ticks: bool) -> None:
        self.both.clock.advance(by_ms)
        self.both.clock.wall_ms += wall_by_ms
        if ticks:
            self.tick()

    @rule()
    def tick(self) -> None:
        self.both.store.tick()
        self.both.store.flush_async()
        self.both.store.sync_offsets()
        for group in self.both.groups.values():
            group.tick(self.both.clock.monotonic_ms())

    @rule()
    def checkpoint(self) -> None:
        self.both.run(self.both.store.checkpoint())

    @rule(
        used_percent=st.sampled_from([0, 0, 0, 80, 86, 95]),
        full=st.sampled_from(["", "", "append", "replace"]),
    )
    def retention_runs(self, used_percent: int, full: str) -> None:
        self.both.files.full = {full}
        try:
            self.both.retain(used_percent)
        except DiskFull:
            assert full
            self.both.files.full = set()
            self.both.retain(used_percent)
        self.both.files.full = set()
        if used_percent >= FULL_PERCENT:
            with pytest.raises(DiskFull):
                self.both.put([Wanted("a", 0, 8, None, [])])
        self.both.files.disk = ROOMY
        self.both.store.disk.look()

    # Stops and faults -------------------------------------------------------------------------

    @rule(
        is_killed=st.booleans(),
        deleted=st.sets(st.sampled_from(["consumequeue", "index"])),
        queue_file=st.integers(-9, 9),
    )
    def restart(self, is_killed: bool, deleted: set[str], queue_file: int) -> None:
        """Derived files are deleted meanwhile."""
        queues = self.both.model.queues.values()
        if any(queue.max_offset - 1 in queue.damaged for queue in queues):
            deleted, queue_file = (
                deleted - {"consumequeue"},
                -1,
            )  # nothing tells how many there were
        self.tick()  # so that the index is complete
        before = derived(self.both.store_dir, self.both.model)
        self.both.stop(is_killed=is_killed)
        delete_derived(self.both.store_dir, deleted, queue_file)
        self.both.open()
        assert derived(self.both.store_dir, self.both.model) == before

    @precondition(lambda self: any(True for _ in self.both.model.readable()))
    @rule(data=st.data(), is_killed=st.booleans(), bit=st.integers(0, 1 << 15))
    def bit_flips_while_stopped(self, data: st.DataObject, is_killed: bool, bit: int) -> None:
        places = [(name, at) for name, _, at in self.both.model.readable()]
        name, offset = data.draw(st.sampled_from(places))
        queue = self.both.model.queues[name]
        hurt = queue.records[offset]
        newest = max(self._stored(), key=lambda one: one.physical_offset)
        # After a kill nobody knows that the disk had the very last one: a torn tail.
        self.both.stop(is_killed=is_killed and hurt is not newest)
        flip_bit(self.both.store_dir, hurt, bit)
        queue.damaged.add(offset)
        self.both.model.is_pristine = False
        self.both.open()

    def _stored(self) -> list[Stored]:
        return [one for queue in self.both.model.queues.values() for one in queue.records]

    @rule(
        full=st.sets(st.sampled_from(["create", "allocate", "append", "replace"]), min_size=1),
        frame=frames,
        what=st.sampled_from(["put", "receive", "topic", "checkpoint", "read", "open"]),
    )
    def disk_is_full_for_a_while(self, full: set[str], frame: list[Wanted], what: str) -> None:
        self.both.model.is_pristine = False
        if what == "open":
            self.both.stop(is_killed=True)
        self.both.files.full = full
        try:
            match what:
                case "put":
                    self.both.put(frame)
                case "receive":
                    self.both.receive("g", "a", 3, LEASES_MS[0])
                case "topic":
                    is_one = self.both.model.topics["a"].queue_count == 1
                    queue_count = QUEUES_MAX if is_one else 1
                    self.both.topic_put(TopicConfig(topic="a", queue_count=queue_count))
                case "checkpoint":
                    self.both.run(self.both.store.checkpoint())
                case "open":
                    self.both.open()
                case _:
                    self.read_everything()
                    self.both.look_up("a", KEYS[0], 3, 0, 1 << 60)
        except DiskFull:
            assert what != "read"
        self.both.files.full = set()
        if not self.both.is_open:
            self.both.open()
        self.both.put(frame)  # without a restart

    # What always holds ------------------------------------------------------------------------

    @invariant()
    def store_is_as_the_model_says(self) -> None:
        self.read_everything()
        count = self.both.store.watched().quarantine.count
        assert bool(count) == bool(self.both.model.damaged_in_log())  # the alarm stays
        for group_name, group in self.both.groups.items():
            for stats in self.both.store.consumption.group_stats(group_name).queues:
                name = stats.topic, stats.queue_id
                queue = self.both.model.queues[name]
                assert (stats.min_offset, stats.max_offset) == (queue.min_offset, queue.max_offset)
                low = group.consumer_offset(name)
                high = group.consumer_offset(name, with_damaged=True)
                assert low <= stats.consumer_offset <= high
                # Damaged ones stay leased when there was no room to settle them.
                assert 0 <= stats.inflight_count - group.held_count(name) <= len(queue.damaged)

    def read_everything(self) -> None:
        for name, queue in self.both.model.queues.items():
            offset = queue.min_offset
            while offset < queue.max_offset:
                offset = self.both.pull(name, offset, 1_000)
            self.both.pull(name, offset, 1)

    def teardown(self) -> None:
        if hasattr(self, "both"):
            try:
                if self.both.is_open:
                    self.both.stop(is_killed=False)
            finally:
                self.both.discard()


pytestmark = pytest.mark.timeout(1_200)  # two minutes on a core of its own
TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=500,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
