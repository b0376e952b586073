"""A real store in memory and its model side by side: whatever is done, is done to both.

    machine ── put, pull, look up, stop, … ──▶ [ModelledStore] ──▶ Store on FaultyFiles
                                                     └──▶ StoreModel, GroupModel

Each method checks the store's answer against the model's. What a full disk refuses raises
``DiskFull`` and leaves the model as it was. ``modelled_consumption.py`` adds groups and retention.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from storage_engine import errors
from storage_engine.records.record import StoreMessage, encode_record
from storage_engine.records.record_run import decode_records
from storage_engine.records.schedule_topic import (
    PROPERTY_DELIVER_AT,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SCHEDULE_TOPIC,
)
from storage_engine.wire.groups import GroupConfig, StartFrom
from storage_engine.wire.reads import OffsetAtTimeRequest, PullRequest
from storage_engine.wire.topics import TopicConfig
from tests.storage_engine.doubles import (
    FaultyFiles,
    ManualClock,
    OpenStore,
    message,
)
from tests.storage_engine.index.keyed import look_up
from tests.storage_engine.model.group_model import GroupModel, Place
from tests.storage_engine.model.store_model import Queue, Stored, StoreModel
from tests.storage_engine.stopping import kill

# Power cuts are tested elsewhere; a thousand real fsyncs would only take time.
MEMORY: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None
RETENTION_MS: Final = 3_600_000
BODY_BYTES_MAX: Final = 2_048
SCHEDULE_DELAYS_MS: Final = (300, 61_000, 30 * RETENTION_MS)
SCHEDULE_TARGET: Final = ("a", 0)
GROUPS: Final = {"g": StartFrom.EARLIEST, "l": StartFrom.LATEST}

ResultT = TypeVar("ResultT")


class Wanted(NamedTuple):
    """A message to put; ``keys`` are its own, without the id."""

    topic: str
    queue_id: int
    body_bytes: int
    tag: str | None
    keys: list[str]


class Cursor(NamedTuple):
    """Where a look-up stopped; ``below`` is the place of the last message given."""

    topic: str
    key: str
    text: str
    below: int


class ModelledStore:
    """See the module's docstring."""

    def __init__(self, retention_bytes: int, max_reconsume_times: int) -> None:
        self.loop = asyncio.new_event_loop()
        self._directory = tempfile.TemporaryDirectory(prefix="model", dir=MEMORY)
        self.store_dir = Path(self._directory.name)
        self.clock = ManualClock()
        self.files = FaultyFiles()
        self.retention_bytes = retention_bytes
        self.model = StoreModel()
        configs = [
            GroupConfig(group=name, start_from=start, max_reconsume_times=max_reconsume_times)
            for name, start in GROUPS.items()
        ]
        self.groups = {one.group: GroupModel(self.model, one) for one in configs}
        self.schedule_settled: set[Place] = set()
        self.lacks_settles = False  # the journal, of what has moved
        self._number = 0
        self.is_open = False
        self.open()
        for config in configs:
            self.store.catalog.group_put(config)

    def run(self, awaitable: Awaitable[ResultT]) -> ResultT:
        async def waited() -> ResultT:
            return await awaitable

        return self.loop.run_until_complete(waited())

    # Life -------------------------------------------------------------------------------------

    def open(self) -> None:
        limits = {
            "retention_ms": RETENTION_MS, "retention_bytes": self.retention_bytes,
            "map_count_max": 2,
        }  # fmt: skip
        self.opened = OpenStore(self.store_dir, clock=self.clock, files=self.files, limits=limits)

        async def opened() -> None:
            self.opened.open()

        self.loop.run_until_complete(opened())
        self.store = self.opened.store
        self.is_open, self.lacks_settles = True, False
        self.adopt_begins()
        for group in self.groups.values():
            group.restarted()
            for topic in {queue[0] for queue in group.begins}:
                group.subscribe(topic)
        newest = max([q.records[at].stamp for _, q, at in self.model.readable()], default=0)
        self.model.stamp = self.store._commit_log.store_timestamp_ms
        assert self.model.stamp >= newest

    def stop(self, *, is_killed: bool) -> None:
        self.is_open = False
        if is_killed:
            kill(self.store)
        else:
            self.run(self.opened.close())

    def discard(self) -> None:
        self.loop.close()
        self._directory.cleanup()

    # Puts -------------------------------------------------------------------------------------

    def topic_put(self, topic: TopicConfig) -> None:
        self.store.catalog.topic_put(topic)
        self.model.topic_put(topic)

    def put(self, wanted: list[Wanted]) -> None:
        """One frame; every answer is the expected one. Raises ``DiskFull``."""
        messages = [self._message(one) for one in wanted]
        try:
            answer = self.run(self.opened.put(*messages))
        except errors.StoreReadOnly:  # a sync has failed before; nothing of the frame is stored
            self.run(self.mended())
            answer = self.run(self.opened.put(*messages))
        assert answer.error is None
        if any(queue_offset >= 0 for queue_offset, _ in answer.offsets):
            self.model.stamp = max(self.model.stamp, self.clock.now_ms())
        for one, sent, (queue_offset, physical_offset) in zip(
            wanted, messages, answer.offsets, strict=True
        ):
            code = self._refusal_code(one)
            if queue_offset == -errors.StoreReadOnly.code:
                continue  # the sync of the records before it has failed
            if code or queue_offset == -errors.DiskFull.code:
                assert queue_offset == -code if code else self.files.full
                continue
            self._add(one, sent, queue_offset, physical_offset)

    async def mended(self) -> None:
        """Until what a failed sync lost has been written anew."""
        store = self.store
        while store._commit_log._failed_sync is not None or store.durability.refusal is not None:
            await asyncio.sleep(0.001)

    def _message(self, one: Wanted) -> StoreMessage:
        self._number += 1
        body = (b"#%d " % self._number).ljust(one.body_bytes, b"x")[: max(one.body_bytes, 8)]
        properties = {}
        if one.topic == SCHEDULE_TOPIC:
            delay_ms = SCHEDULE_DELAYS_MS[self._number % len(SCHEDULE_DELAYS_MS)]
            properties[PROPERTY_DELIVER_AT] = str(self.clock.now_ms() + delay_ms)
            properties[REAL_TOPIC], properties[REAL_QUEUE_ID] = SCHEDULE_TARGET[0], "0"
        return msgspec.structs.replace(
            message(body, topic=one.topic, queue_id=one.queue_id, tag=one.tag),
            message_id=f"{self._number:034X}",
            keys=one.keys,
            properties=properties,
        )

    def _refusal_code(self, one: Wanted) -> int:
        topic = self.model.topics.get(one.topic)
        if one.body_bytes > BODY_BYTES_MAX:
            return errors.RecordRefused.code
        if topic is None:
            return errors.TopicNotFound.code
        return 0 if one.queue_id < topic.queue_count else errors.QueueNotFound.code

    def _add(
        self, one: Wanted, sent: StoreMessage, queue_offset: int, physical_offset: int
    ) -> None:
        queue = self.model.queues[one.topic, one.queue_id]
        assert queue_offset == queue.max_offset
        keys = (sent.message_id, *one.keys)
        size = len(encode_record(sent))
        queue.records.append(
            Stored(
                sent.body,
                one.tag,
                keys,
                self.model.stamp,
                physical_offset,
                size,
                due_ms=int(sent.properties.get(PROPERTY_DELIVER_AT, "0")),
                target=SCHEDULE_TARGET if one.topic == SCHEDULE_TOPIC else None,
            )
        )

    # Reads ------------------------------------------------------------------------------------

    def pull(
        self,
        name: Queue,
        offset: int,
        count: int,
        bytes_max: int = 1 << 20,
        tags: tuple[str, ...] = (),
    ) -> int:
        """The next offset."""
        head, found = self.store.pull(
            PullRequest(
                topic=name[0], queue_id=name[1], queue_offset=offset, messages_max=count,
                bytes_max=bytes_max, tags=list(tags),
            )
        )  # fmt: skip
        records = decode_records(self.store.read_records(found))
        queue = self.model.queues[name]
        given = [record.queue_offset for record in records]
        queue.check_pull(head, given, offset, count, bytes_max, list(tags))
        for record in records:
            known = queue.records[record.queue_offset]
            assert (record.topic, record.queue_id, record.body) == (*name, known.body)
            assert (record.tag, record.message_id) == (known.tag, known.keys[0])
            assert tuple(record.keys) == known.keys[1:]
            assert record.store_timestamp_ms == known.stamp
        return head.next_offset

    def look_up(
        self,
        topic: str,
        key: str,
        count: int,
        from_ms: int,
        to_ms: int,
        cursor: Cursor | None = None,
    ) -> list[Cursor]:
        """All pages; the cursor of each but the last."""
        below = cursor.below if cursor else 1 << 62
        text = cursor.text if cursor else ""
        expected = self.model.with_key(topic, key, below=below, from_ms=from_ms, to_ms=to_ms)
        given: list[bytes] = []
        cursors: list[Cursor] = []
        places = {
            queue.records[at].body: queue.records[at].physical_offset
            for name, queue, at in self.model.readable()
            if name[0] == topic
        }
        while True:
            head, records = look_up(
                self.opened, key, topic=topic, messages_max=count, cursor=text, from_ms=from_ms,
                to_ms=to_ms,
            )  # fmt: skip
            assert len(records) <= count
            given += [record.body for record in records]
            text = head.cursor
            if not text:
                assert head.is_complete or self.files.full
                assert given == expected or not head.is_complete
                return cursors
            if records:
                below = places.get(records[-1].body, below)
            cursors.append(Cursor(topic, key, text, below))

    def offset_at_time(self, name: Queue, timestamp_ms: int) -> None:
        reply = self.store.queries.offset_at_time(
            OffsetAtTimeRequest(topic=name[0], queue_id=name[1], timestamp_ms=timestamp_ms)
        )
        queue = self.model.queues[name]
        assert (reply.min_offset, reply.max_offset) == (queue.min_offset, queue.max_offset)
        assert reply.queue_offset == queue.offset_at_time(timestamp_ms)

    def segments(self) -> list[int]:
        """Base offsets of the log's files."""
        directory = self.store_dir / "commitlog"
        return sorted(int(name) for name in os.listdir(directory)) if directory.is_dir() else []

    def adopt_begins(self) -> None:
        """Where only damaged messages are in doubt, the store says where a queue begins."""
        bases = self.segments()
        self.model.log_start = bases[0] if bases else 0
        self.model.is_pristine = self.model.is_pristine and not self.model.log_start
        for topic in self.model.topics:
            for stats in self.store.topic_stats(topic).queues:
                queue = self.model.queues[topic, stats.queue_id]
                assert stats.max_offset == queue.max_offset
                assert queue.is_same_begin(stats.min_offset), (topic, stats, queue.min_offset)
                queue.min_offset = stats.min_offset
