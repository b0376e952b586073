"""A group's lag is what a count of every message says, whatever has happened before."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from unittest import mock

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from storage_engine.errors import SubscriptionConflict
from storage_engine.lag import retry_ages, unread
from storage_engine.records.record import Record
from storage_engine.records.record_run import decode_records
from storage_engine.schedule import scheduled_retries
from storage_engine.wire.deliveries import SettleRequest
from storage_engine.wire.groups import LagIs, TopicLag
from storage_engine.wire.offsets import ResetTo
from storage_engine.wire.scheduled import ScheduledRef
from storage_engine.wire.topics import Durability, TopicPurgeRequest
from tests.sizes import sized
from tests.storage_engine.doubles import Leased, ManualClock, OpenStore, message
from tests.storage_engine.groups.resetting import ack_of, nack_of, reset
from tests.storage_engine.lag.lag_counting import counted, told
from tests.storage_engine.schedule.delaying import delayed, numbered
from tests.storage_engine.stopping import kill

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
FILTERS: tuple[dict[str, str], ...] = (
    {},
    {"tags": "a"},
    {"tags": "a || b"},
    {"tags": "Aa"},
    {"sql": "n > 4"},
)
tags = st.sampled_from([None, "a", "b", "Aa", "BB"])  # the last two have one hash
# Those that are of no level wait in one queue of the schedule, and leave it in any order.
delays = st.sampled_from([0, 300, 5_000, 7_001, 20_003, 61_000])
times = st.sampled_from([1, 299, 1_000, 6_000, 70_000])


class LagMachine(RuleBasedStateMachine):
    """Group ``g`` with filters that change and group ``h`` without, on a topic of two queues."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="lag", dir=MEMORY)
        self.clock = ManualClock()
        self.patches = [
            mock.patch.multiple(scheduled_retries, _SLICE=6, _ALONE_MAX=2, _AT_ONCE_MAX=4),
            mock.patch.multiple(scheduled_retries, _BLOCK_BITS=3, _BLOCK_UNITS=8),
            mock.patch.multiple(retry_ages, _BLOCK_BITS=2, _BLOCK_UNITS=4, _WHOLE_BLOCKS_MAX=5),
            mock.patch.multiple(retry_ages, _SLICE=6, _ALONE_MAX=1),
            mock.patch.multiple(unread, _SEARCH_UNITS=3),
        ]
        for patch in self.patches:
            patch.start()
        self.born_ms: dict[bytes, int] = {}
        self.leases: list[tuple[str, Leased, Record]] = []
        self.number = 0

    def teardown(self) -> None:
        kill(self.store.store)
        self.loop.close()
        for patch in self.patches:
            patch.stop()
        self.directory.cleanup()

    @initialize()
    def start(self) -> None:
        self._open()
        self.store.topic(queues=2, durability=Durability.ASYNC)
        for group in ("g", "h"):
            self.store.group(group)
            self.store.receive(1, group=group)

    def _open(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = OpenStore(Path(self.directory.name), clock=self.clock)

        async def opened() -> None:
            self.store.open()

        self._run(opened())

    def _run(self, awaitable: Awaitable[object]) -> None:
        async def waited() -> None:
            await awaitable

        self.loop.run_until_complete(waited())

    def _note_stored(self) -> None:
        """Whatever is in the topic now, and was not before, has just come."""
        for queue in self.store.store.catalog.queues_of("t"):
            for offset in range(queue.min_offset, queue.max_offset):
                unit = queue.unit(offset)[:2]
                content = self.store.store._commit_log.read_many([unit])
                (record,) = decode_records(content)
                self.born_ms.setdefault(record.body, record.store_timestamp_ms)

    @rule(queue_id=st.integers(0, 1), some=st.lists(tags, min_size=1, max_size=6))
    def put(self, queue_id: int, some: list[str | None]) -> None:
        messages = []
        for tag in some:
            self.number += 1
            properties = {"n": str(self.number % 9)}
            plain = message(b"%d" % self.number, queue_id=queue_id, tag=tag, properties=properties)
            messages.append(msgspec.structs.replace(plain, message_id=numbered(self.number)))
        self._run(self.store.put(*messages))

    @rule(delay_ms=st.sampled_from([1_000, 9_000]), count=st.integers(1, 3))
    def schedule_messages(self, delay_ms: int, count: int) -> None:
        for _ in range(count):
            self.number += 1
            waiting = delayed(b"%d" % self.number, self.number, delay_ms=delay_ms)
            self._run(self.store.put(waiting))

    @rule(count=st.integers(1, 8), wanted=st.sampled_from(FILTERS))
    def receive(self, count: int, wanted: dict[str, str]) -> None:
        try:
            leased = self.store.receive(
                count, lease_ms=1_000, is_unnamed=False, ignores_queues=False, **wanted
            )
        except SubscriptionConflict:
            return
        self.leases += [("g", leased, record) for record in leased.records]

    @rule(count=st.integers(1, 8))
    def receive_all_tags(self, count: int) -> None:
        leased = self.store.receive(count, group="h")
        self.leases += [("h", leased, record) for record in leased.records]

    def _settle(self, group: str, request: SettleRequest) -> None:
        self.store.store.consumption.settle(msgspec.structs.replace(request, group=group))

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        group, leased, record = data.draw(st.sampled_from(self.leases))
        self._settle(group, ack_of(leased, record))

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), delay_ms=delays, is_dead=st.sampled_from([False, False, False, True]))
    def nack(self, data: st.DataObject, delay_ms: int, is_dead: bool) -> None:
        group, leased, record = data.draw(st.sampled_from(self.leases))
        (nack,) = nack_of(leased, record, delay_ms).nacks
        nack = msgspec.structs.replace(nack, is_dead=is_dead)
        self._settle(group, SettleRequest(group=group, nacks=[nack]))
        self._run(self.store.settled())

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def nack_all(self, data: st.DataObject) -> None:
        for group, leased, record in self.leases[-16:]:
            self._settle(group, nack_of(leased, record, data.draw(delays)))
        self._run(self.store.settled())

    @rule(by_ms=times)
    def time_passes(self, by_ms: int) -> None:
        self._run(self.store.pass_time(by_ms))

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """Of what waits in the schedule, a retry too."""
        sources = self.store.store.consumption.schedule.sources
        places = [
            (source, offset)
            for source in sources
            for offset in range(source.start, source.end)
            if source.is_pending(offset)
        ]
        if not places:
            return
        source, offset = data.draw(st.sampled_from(places))
        content = self.store.store._commit_log.read_many([source.queue.unit(offset)[:2]])
        (record,) = decode_records(content)
        self.store.store.scheduled.cancel(
            ScheduledRef(
                topic=record.properties["REAL_TOPIC"],
                message_id=record.message_id,
                queue_id=source.queue.queue_id,
                queue_offset=offset,
            )
        )

    @rule(to=st.sampled_from([ResetTo.EARLIEST, ResetTo.LATEST]), group=st.sampled_from("gh"))
    def reset(self, to: ResetTo, group: str) -> None:
        reset(self.store, to, group=group)

    @rule()
    def purge(self) -> None:
        self.store.store.consumption.deletions.topic_purge(TopicPurgeRequest(topic="t"))
        self._run(self.store.settled())

    @rule(is_killed=st.booleans())
    def restart(self, is_killed: bool) -> None:
        self._run(self.store.settled())  # what was due by now
        before = self._told("g")
        self._run(self.store.store.checkpoint())
        if is_killed:
            kill(self.store.store)
        else:
            self._run(self.store.close())
        self.loop.close()
        self._open()
        self._run(self.store.settled())
        after = self._told("g")
        # In flight is ready again; all the rest is as it was.
        assert after.lag == before.lag
        assert after.oldest_stored_ms == before.oldest_stored_ms

    def _told(self, group: str) -> TopicLag:
        """As soon as it is known."""
        while True:
            (lag,) = self.store.store.consumption.group_stats(group).topics
            if lag.lag is not None and (lag.oldest_stored_ms is not None or not lag.lag):
                return lag
            self._run(asyncio.sleep(0))

    @invariant()
    def lag_is_what_a_count_says(self) -> None:
        if not hasattr(self, "store"):
            return
        self._note_stored()
        for group in ("g", "h"):
            # The oldest among very many is looked for tick by tick.
            for _ in range(2):
                self._told(group)
                self.clock.advance(scheduled_retries._PASS_PAUSE_MS)
                self.store.store.consumption._scheduled_retries.tick()
            lag = self._told(group)
            assert told(lag) == counted(self.store, group, "t", self.born_ms)
            assert lag.lag_is is LagIs.EXACT


pytestmark = [pytest.mark.sized, pytest.mark.timeout(600)]
TestLag = LagMachine.TestCase
TestLag.settings = settings(
    max_examples=sized(20, torture=300), stateful_step_count=40, deadline=None
)
