"""What may happen to a store: random puts, reads, settles, times, stops and faults.

rules ──▶ [StoreMachine] ── the same to both ──▶ Store, and its model of dicts and lists
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from storage_engine.errors import DiskFull
from storage_engine.records.schedule_topic import SCHEDULE_QUEUES, SCHEDULE_TOPIC
from storage_engine.wire.topics import Durability, TopicConfig
from tests.storage_engine.doubles import SEGMENT_BYTES
from tests.storage_engine.model.group_model import Receipt
from tests.storage_engine.model.modelled_consumption import FULL_PERCENT, ROOMY, ConsumedStore
from tests.storage_engine.model.modelled_store import (
    BODY_BYTES_MAX,
    GROUPS,
    RETENTION_MS,
    Cursor,
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


def has_receipts(machine: StoreMachine) -> bool:
    return any(group.receipts for group in machine.both.groups.values())


class StoreMachine(RuleBasedStateMachine):
    """One store; every rule does the same to the store and to its model."""

    @initialize(
        retention_segments=st.sampled_from([0, 4]),
        durability=st.sampled_from([Durability.SYNC, Durability.ASYNC]),
        max_reconsume_times=st.sampled_from([2, 16]),
        has_begun=st.booleans(),
    )
    def start(
        self,
        retention_segments: int,
        durability: Durability,
        max_reconsume_times: int,
        has_begun: bool,
    ) -> None:
        self.both = ConsumedStore(retention_segments * SEGMENT_BYTES, max_reconsume_times)
        self.cursors: list[Cursor] = []
        topic = TopicConfig(topic="a", queue_count=QUEUES_MAX, durability=durability)
        self.both.topic_put(topic)
        self.both.topic_put(TopicConfig(topic="c", queue_count=1))
        self.both.topic_put(TopicConfig(topic=SCHEDULE_TOPIC, queue_count=SCHEDULE_QUEUES))
        self.both.tick()  # the schedule follows its queues from here on
        for group in sorted(GROUPS) if has_begun else ():
            self.both.receive(group, "a", 1, LEASES_MS[0])
            self.both.receive(group, "c", 1, LEASES_MS[0])

    # Topics and puts --------------------------------------------------------------------------

    @rule(
        topic=topics,
        queue_count=st.integers(1, QUEUES_MAX),
        durability=st.sampled_from([Durability.SYNC, Durability.ASYNC]),
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

    @rule(
        group=st.sampled_from(sorted(GROUPS)),
        topic=topics,
        count=st.integers(1, 4),
        times=st.integers(1, 4),
        delay_ms=st.sampled_from([0, 300, 5_000, None]),
        full=st.sampled_from([(), (), ("create", "allocate"), ("append",), ("replace",)]),
    )
    def receive_and_give_back(
        self,
        group: str,
        topic: str,
        count: int,
        times: int,
        delay_ms: int | None,
        full: tuple[str, ...],
    ) -> None:
        """Again and again, so that messages come as far as the dead letters.

        A disk that is full when they must move holds them up, and no more than that.
        """
        self.both.model.is_pristine = self.both.model.is_pristine and not full
        receipts = self.both.groups[group].receipts
        for _ in range(times):
            known = len(receipts)
            self.both.receive(group, topic, count, LEASES_MS[0])
            for receipt in receipts[known:]:
                self.both.nack(group, receipt, delay_ms, is_dead=False)
            self.both.files.full = set(full)
            self.both.tick(may_fail=bool(full))
            self.both.files.full = set()
            self.tick()
            self.time_passes(delay_ms or 0, 0, ticks=True)

    def drawn_receipt(self, data: st.DataObject) -> tuple[str, Receipt]:
        """Of all receipts most are spent: those that still say something are drawn as often."""
        groups = self.both.groups
        name = data.draw(st.sampled_from(sorted(n for n in groups if groups[n].receipts)))
        group = groups[name]
        kinds = [
            group.receipts[-12:],
            [receipt for receipt in group.receipts if group.holds(receipt)],
            [receipt for receipt in group.receipts if group.went_at_once(receipt)],
        ]
        kinds = [kind for kind in kinds if kind]
        kind = data.draw(st.integers(0, len(kinds) - 1))
        return name, data.draw(st.sampled_from(kinds[kind]))

    @precondition(has_receipts)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        self.both.ack(*self.drawn_receipt(data))

    @precondition(has_receipts)
    @rule(
        data=st.data(),
        delay_ms=st.sampled_from([0, 0, 300, 5_000, None]),
        is_dead=st.sampled_from([False, False, False, True]),
    )
    def nack(self, data: st.DataObject, delay_ms: int | None, is_dead: bool) -> None:
        self.both.nack(*self.drawn_receipt(data), delay_ms, is_dead=is_dead)

    @precondition(has_receipts)
    @rule(data=st.data(), lease_ms=st.sampled_from(LEASES_MS))
    def extend(self, data: st.DataObject, lease_ms: int) -> None:
        self.both.extend(*self.drawn_receipt(data), lease_ms)

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
        self.both.tick()

    @rule()
    def tick_while_a_sync_fails(self) -> None:
        """What moves is settled when what takes its place has been written anew."""
        self.both.files.sync_failures = 1
        self.both.tick()
        self.both.files.sync_failures = 0

    @rule()
    def checkpoint(self) -> None:
        self.both.run(self.both.store.checkpoint())
        self.both.lacks_settles = False

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
        self.both.store.disk.measure()

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
            deleted, queue_file = deleted - {"consumequeue"}, -1  # nothing tells how many
        self.tick()  # so that the index is complete
        before = derived(self.both.store_dir, self.both.model)
        self.both.stop(is_killed=is_killed)
        delete_derived(self.both.store_dir, deleted, queue_file)
        self.both.open()
        assert derived(self.both.store_dir, self.both.model) == before
        self.read_everything()

    @precondition(lambda self: any(True for _ in self.both.model.readable()))
    @rule(data=st.data(), is_killed=st.booleans(), bit=st.integers(0, 1 << 15))
    def bit_flips_while_stopped(self, data: st.DataObject, is_killed: bool, bit: int) -> None:
        places = [(name, at) for name, _, at in self.both.model.readable()]
        name, offset = data.draw(st.sampled_from(places))
        queue = self.both.model.queues[name]
        hurt = queue.records[offset]
        newest = max(self._stored(), key=lambda one: one.physical_offset)
        # After a kill nobody knows that the disk had the very last one: a torn tail.
        # After a journal without room only the record of a move may know what that has settled.
        is_known = hurt is not newest and not self.both.lacks_settles
        self.both.stop(is_killed=is_killed and is_known)
        flip_bit(self.both.store_dir, hurt, bit)
        queue.damaged.add(offset)
        self.both.model.is_pristine = False
        self.both.open()

    def _stored(self) -> list[Stored]:
        return [one for queue in self.both.model.queues.values() for one in queue.records]

    @rule(
        full=st.sets(st.sampled_from(["create", "allocate", "append", "replace"]), min_size=1),
        frame=frames,
        what=st.sampled_from(["put", "receive", "tick", "topic", "checkpoint", "read", "open"]),
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
                case "tick":
                    self.both.tick(may_fail=True)
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
        self.read_everything(is_with_empty=False)
        count = self.both.store.parts.quarantine.count
        assert bool(count) == bool(self.both.model.damaged_in_log())  # the alarm stays
        self.both.check_groups()

    def read_everything(self, *, is_with_empty: bool = True) -> None:
        """The queues that have never had a message are most of them, and say the same each time."""
        for name, queue in self.both.model.queues.items():
            offset = queue.min_offset
            while offset < queue.max_offset:
                offset = self.both.pull(name, offset, 1_000)
            if queue.max_offset or is_with_empty:
                self.both.pull(name, offset, 1)

    def teardown(self) -> None:
        if hasattr(self, "both"):
            try:
                if self.both.is_open:
                    self.both.stop(is_killed=False)
            finally:
                self.both.discard()
