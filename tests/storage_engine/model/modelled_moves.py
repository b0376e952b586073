"""Records that the engine itself appends: each must be one that the model expects there.

    store ── new records of every queue ──▶ [MovedStore] ── is it expected? ──▶ StoreModel, groups

A retry, a dead letter, a scheduled message that is due or that retention rolls forward. Each says
what it takes the place of. The store decides at which offset it stands, and in which order they
came; all else the model knows.
"""

from __future__ import annotations

import asyncio
from typing import Final

from storage_engine.errors import SyncFailed
from storage_engine.records.record import Record
from storage_engine.records.record_parts import parts_of
from storage_engine.records.record_run import decode_records
from storage_engine.records.retry_record import (
    RETRY_TOPIC,
    DeadLetter,
    find_dead_letter,
)
from storage_engine.records.schedule_topic import (
    PROPERTY_DELIVER_AT,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SCHEDULE_QUEUES,
    SCHEDULE_TOPIC,
)
from storage_engine.records.settles import settles_of
from storage_engine.schedule.schedule import SCHEDULE_GROUP
from storage_engine.wire.reads import PullRequest
from tests.storage_engine.model.group_model import Move, Place
from tests.storage_engine.model.modelled_store import ModelledStore
from tests.storage_engine.model.store_model import Queue

Source = tuple[str, Place]  # group, and the place that a record takes
_IDLE_TICKS: Final = 2  # the schedule may need one to find how far to look


class MovedStore(ModelledStore):
    """See the module's docstring."""

    # What must move ---------------------------------------------------------------------------

    def delay_ms(self) -> int:
        """What time it is for delays; ``test_delay_clock`` has that clock's own tests."""
        return self.store._delay_clock.delay_ms()

    def _failed(self) -> dict[Source, Move]:
        return {
            (name, place): move
            for name, group in self.groups.items()
            for place, move in group.moves().items()
        }

    def _due(self) -> dict[Source, Move]:
        found: dict[Source, Move] = {}
        for place in self.scheduled():
            one = self.model.queues[place.queue].records[place.offset]
            if one.due_ms <= self.delay_ms():
                assert one.target is not None
                record = one._replace(due_ms=0, target=None, physical_offset=-1)
                found[SCHEDULE_GROUP, place] = Move(one.target, record)
        return found

    def forwardable(self) -> dict[Source, Move]:
        """What retention may append again: which of it, depends on the segments that go."""
        return {
            (SCHEDULE_GROUP, place): Move(
                place.queue, self.model.queues[place.queue].records[place.offset]
            )
            for place in self.scheduled()
        }

    def scheduled(self) -> list[Place]:
        """Messages that are still to come; damaged ones never will."""
        return [
            place
            for name, queue in self.model.queues.items()
            if name[0] == SCHEDULE_TOPIC
            for offset in queue.whole()
            if (place := Place(name, offset)) not in self.schedule_settled
        ]

    # What has moved ---------------------------------------------------------------------------

    def tick(self, *, may_fail: bool = False) -> None:
        """Until nothing more follows from the time it is, as the engine's ticks would have it.

        ``may_fail``: a disk that is full holds up any part of the moves; what has come is right
        all the same, and the rest follows at a tick without the fault.
        """
        self.lacks_settles = self.lacks_settles or "append" in self.files.full
        idle_count = 0
        while idle_count < _IDLE_TICKS:
            for group in self.groups.values():
                group.tick(self.clock.monotonic_ms(), self.delay_ms())
            before = self.store.stats(0).append_offset
            self.store.tick()
            self.run(self.arrived())
            self.adopt_topics()
            self.adopt_moves({**self._failed(), **self._due()})
            is_idle = self.store.stats(0).append_offset == before
            idle_count = idle_count + 1 if is_idle else 0
        if not may_fail:
            assert not self._failed()
            assert not self._due()
        self.store.flush_async()
        self.store.sync_offsets()

    async def arrived(self) -> None:
        """Until all that was appended is durable and visible."""
        try:
            await self.store.durability.durable_to(self.store.stats(0).append_offset)
        except SyncFailed:
            await self.mended()
        while not self.store.dispatcher.is_idle:  # the flusher has still to say so
            await asyncio.sleep(0)

    def adopt_topics(self) -> None:
        """Topics that the engine has made for its messages, and only those."""
        counts = {SCHEDULE_TOPIC: SCHEDULE_QUEUES}
        for name, group in self.groups.items():
            topics = self.store.catalog._groups.retry_topics[name]
            assert topics[: len(group.retry_topics)] == group.retry_topics
            assert set(topics) <= {queue[0] for queue in group.begins}
            group.retry_topics = topics
            # Where a full disk came between, the topic has a queue that is nobody's yet.
            counts[group.retry_topic] = len(topics)
            counts[group.dlq_topic] = 1
        for topic, config in self.store.catalog.topics.items():
            if self.model.topics.get(topic) != config:
                slack = int(topic != SCHEDULE_TOPIC and not self.model.is_pristine)
                assert counts[topic] <= config.queue_count <= counts[topic] + slack
                self.model.topic_put(config)

    def adopt_moves(self, expected: dict[Source, Move]) -> None:
        """Put what has come into the model: each is expected, and comes once.

        A message that waited behind a full disk may come to the schedule when it is due already,
        and go on in the same tick.
        """
        while self._adopt_expected(expected):
            expected = {**self._due(), **expected}
        ends = self._max_offsets()
        for name, queue in self.model.queues.items():
            assert ends[name] == queue.max_offset, f"nobody expects what {name} has"

    def _max_offsets(self) -> dict[Queue, int]:
        return {
            (topic, queue_id): stats.max_offset
            for topic in self.model.topics
            for queue_id, stats in enumerate(self.store.topic_stats(topic).queues)
        }

    def _adopt_expected(self, expected: dict[Source, Move]) -> int:
        """Of each queue the new records that are expected, to the first that is not; how many."""
        count = 0
        ends = self._max_offsets()
        for name, queue in list(self.model.queues.items()):
            max_offset = ends[name]
            if max_offset == queue.max_offset:
                continue
            self.model.stamp = max(self.model.stamp, self.clock.now_ms())
            for settled, record, record_bytes in self._new(name, queue.max_offset, max_offset):
                move = expected.pop(settled, None)
                if move is None:
                    break
                self._check_move(name, record, move)
                to = Place(name, queue.max_offset)
                assert record.queue_offset == to.offset
                queue.records.append(
                    move.record._replace(
                        stamp=self.model.stamp,
                        physical_offset=record.physical_offset,
                        record_bytes=record_bytes,
                    )
                )
                group, place = settled
                if group == SCHEDULE_GROUP:
                    self.schedule_settled.add(place)
                else:
                    self.groups[group].moved(place, to)
                count += 1
        return count

    def _new(self, name: Queue, first: int, end: int) -> list[tuple[Source, Record, int]]:
        request = PullRequest(
            topic=name[0], queue_id=name[1], queue_offset=first, messages_max=end - first,
            bytes_max=1 << 20,
        )  # fmt: skip
        _, places = self.store.pull(request)
        assert len(places) == end - first
        found: list[tuple[Source, Record, int]] = []
        for place in places:
            content = self.store.read_records([place])
            parts = parts_of(content)
            settles = settles_of(parts.tail, parts.properties_at)
            assert settles is not None
            assert settles.reset_count == 0
            source = Place((settles.topic, settles.queue_id), settles.queue_offset)
            (record,) = decode_records(content)
            found.append(((settles.group, source), record, place[1]))
        return found

    def _check_move(self, name: Queue, record: Record, move: Move) -> None:
        known = move.record
        assert name == move.queue
        assert (record.body, record.tag) == (known.body, known.tag)
        assert (record.message_id, *record.keys) == known.keys
        assert record.store_timestamp_ms == self.model.stamp
        assert record.reconsume_times == known.failures
        assert record.properties.get(RETRY_TOPIC, "") == known.origin
        if known.target is None:
            assert PROPERTY_DELIVER_AT not in record.properties
        else:
            target = record.properties[REAL_TOPIC], int(record.properties[REAL_QUEUE_ID])
            assert (target, record.properties[PROPERTY_DELIVER_AT]) == (
                known.target,
                str(known.due_ms),
            )
        if name[0] in {group.dlq_topic for group in self.groups.values()}:
            assert find_dead_letter(record) == DeadLetter(
                origin_topic=known.origin,
                origin_message_id=known.keys[0],
                attempts=known.failures,
                first_delivery_ms=known.first_ms,
                last_delivery_ms=known.last_ms,
                reason=known.reason,
            )
