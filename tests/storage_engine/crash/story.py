"""One store on a recorded disk, and every question its clients ask and answer they get.

    workload ── put, ack, checkpoint, crash ──▶ [Story] ──▶ Store on a recorded disk
                                                  └─▶ notices in the recording (``promises``)

All limits are tiny, so that files roll. Bodies are unique and say where they belong.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.delivery.clients import split_reader
from storage_engine.delivery.subscription import Delivered
from storage_engine.errors import StoreError
from storage_engine.log.offset_at_time import offset_at_time
from storage_engine.records.record import BODY_LENGTH_AT, Record
from storage_engine.records.record_run import decode_records
from storage_engine.records.schedule_topic import PROPERTY_DELIVER_AT, SCHEDULE_TOPIC
from storage_engine.wire.deliveries import LeaseRef, Nack, ReceiveRequest, SettleRequest
from storage_engine.wire.groups import Dispatch, GroupConfig
from storage_engine.wire.reads import PullRequest
from storage_engine.wire.topics import Durability, TopicConfig
from tests.storage_engine.crash.promises import (
    Acked,
    AlarmRaised,
    Damaged,
    Expired,
    GroupMade,
    MayExpire,
    Queue,
    QueueSafe,
    Refused,
    Sent,
    SettleBegun,
    Settled,
    SettlesSafe,
    TopicMade,
)
from tests.storage_engine.crash.recorder import Recorder
from tests.storage_engine.doubles import ManualClock, OpenStore, Put, message
from tests.storage_engine.stopping import kill

LIMITS: Final = {
    "segment_bytes": 8_192,
    "body_bytes_max": 12_000,
    "frame_bytes_max": 65_536,
    "inflight_count_max": 1_000,
    "lease_ms_min": 1,
    "retention_bytes": 5 * 8_192,
}
LEASE_MS: Final = 1_000
YEAR_MS: Final = 365 * 24 * 3_600_000


class Story:
    """One store on a recorded disk, and what its clients ask and are told."""

    def __init__(
        self, root: Path, recorder: Recorder, limits: dict[str, int], *, seed: int = 0
    ) -> None:
        self.store_dir = root / "s"
        self.seed = seed  # for workloads that draw what they do
        self.recorder = recorder
        self.limits = limits
        self.clock = ManualClock()
        self.store = self._opened()
        self.answered_count = 0
        self._durability: dict[str, Durability] = {}
        self._number = itertools.count()
        self._places: dict[bytes, tuple[Queue, int]] = {}  # of a message before it failed

    def _opened(self) -> OpenStore:
        return OpenStore(self.store_dir, clock=self.clock, limits=self.limits).open()

    def topic(self, name: str = "t", queues: int = 1, *, is_sync: bool = True) -> None:
        durability = Durability.SYNC if is_sync else Durability.ASYNC
        self.store.store.catalog.topic_put(
            TopicConfig(topic=name, queue_count=queues, durability=durability)
        )
        self._durability[name] = durability
        self.recorder.told(TopicMade(name, queues))

    def group(self, name: str = "g", *, max_reconsume_times: int = 16) -> None:
        self.store.store.catalog.group_put(
            GroupConfig(group=name, lease_ms=LEASE_MS, max_reconsume_times=max_reconsume_times)
        )
        self.recorder.told(GroupMade(name))

    def broadcast_group(self, name: str, *client_ids: str) -> None:
        """What is promised to these clients counts, each as a group ``name@client``."""
        self.store.store.catalog.group_put(
            GroupConfig(group=name, lease_ms=LEASE_MS, dispatch=Dispatch.BROADCAST)
        )
        for client_id in client_ids:
            self.recorder.told(GroupMade(f"{name}@{client_id}"))

    def body(self, size_bytes: int, topic: str, queue_id: int) -> bytes:
        head = b"%s/%d #%d " % (topic.encode(), queue_id, next(self._number))
        return head + bytes(index % 251 + 1 for index in range(max(0, size_bytes - len(head))))

    def start_put(
        self, *sizes: int, topic: str = "t", queue_id: int = 0, tag: str | None = None
    ) -> Awaitable[Put | None]:
        """Begin a put of messages of these sizes; the answer is written down when it is there."""
        bodies = [self.body(size, topic, queue_id) for size in sizes]
        for body in bodies:
            self.recorder.told(Sent((topic, queue_id), body))
        messages = [message(body, topic=topic, queue_id=queue_id, tag=tag) for body in bodies]
        if topic == SCHEDULE_TOPIC:
            due = {
                "REAL_TOPIC": "t",
                "REAL_QID": "0",
                PROPERTY_DELIVER_AT: str(self.clock.now_ms() + YEAR_MS),
            }
            messages = [msgspec.structs.replace(one, properties=due) for one in messages]
        try:
            future = self.store.start_put(messages)
        except StoreError as exc:
            self._answered(topic, queue_id, bodies, None, exc)
            return _nothing()

        def done(ended: asyncio.Future[Put]) -> None:
            if not ended.cancelled():
                put = ended.result()
                self._answered(topic, queue_id, bodies, put, put.error)

        # Not as the future's callback, which comes a step of the loop later than the answer.
        if future.done():
            done(future)
        else:
            future.add_done_callback(done)
        return future

    def _answered(
        self, topic: str, queue_id: int, bodies: list[bytes], put: Put | None,
        error: StoreError | None,
    ) -> None:  # fmt: skip
        if error is not None:
            if error.stored is False:
                for body in bodies:
                    self.recorder.told(Refused(body))
            return
        assert put is not None
        is_safe = self._durability[topic] is Durability.SYNC
        for body, (queue_offset, _) in zip(bodies, put.offsets, strict=True):
            if queue_offset < 0:
                self.recorder.told(Refused(body))
            else:
                self.answered_count += 1
                self._places[body] = (topic, queue_id), queue_offset
                self.recorder.told(Acked((topic, queue_id), queue_offset, body, is_safe))

    async def put(
        self, *sizes: int, topic: str = "t", queue_id: int = 0, tag: str | None = None
    ) -> None:
        await self.start_put(*sizes, topic=topic, queue_id=queue_id, tag=tag)

    async def flush(self) -> None:
        """What the engine does every 200 ms: make async puts and settles durable."""
        log = self.store.store
        target = log.stats(0).append_offset
        log.flush_async()
        while log.stats(0).flushed_offset < target:
            await asyncio.sleep(0)
        for topic, durability in self._durability.items():
            if durability is Durability.ASYNC:
                for queue in log.topic_stats(topic).queues:
                    self.recorder.told(QueueSafe((topic, queue.queue_id), queue.max_offset))

    def receive(self, count: int, *, topic: str = "t", group: str = "g") -> tuple[
        int, list[Record]
    ]:  # fmt: skip
        """(generation, records) leased now."""
        answers: list[Delivered] = []
        name, client_id = split_reader(group)
        request = ReceiveRequest(
            group=name, topic=topic, member_id="m", messages_max=count, bytes_max=1 << 20,
            wait_ms=0, lease_ms=LEASE_MS, client_id=client_id,
        )  # fmt: skip
        self.store.store.consumption.receive(request, answers.append)
        records = decode_records(self.store.store.read_records(answers[0].records))
        for record in records:
            # One whose put had no clear end may be there all the same, after a crash.
            place = (record.topic, record.queue_id), record.queue_offset
            self._places.setdefault(record.body, place)
        return answers[0].lease_generation, records

    def ack(self, generation: int, records: list[Record], group: str = "g") -> None:
        for record in records:
            self.recorder.told(SettleBegun(group, *self._places[record.body]))
        refs = [
            LeaseRef(
                topic=record.topic, queue_id=record.queue_id, lease_generation=generation,
                queue_offsets=[record.queue_offset],
            )
            for record in records
        ]  # fmt: skip
        name, client_id = split_reader(group)
        self.store.store.consumption.settle(
            SettleRequest(group=name, acks=refs, client_id=client_id)
        )
        for record in records:
            self.recorder.told(Settled(group, *self._places[record.body]))

    def drop(self, generation: int, records: list[Record], group: str) -> None:
        """Nacks of a client of a broadcast group, which settle."""
        for record in records:
            self.recorder.told(SettleBegun(group, *self._places[record.body]))
        self.nack(generation, records, group=group)
        for record in records:
            self.recorder.told(Settled(group, *self._places[record.body]))

    def nack(
        self, generation: int, records: list[Record], *, delay_ms: int = 0, is_dead: bool = False,
        group: str = "g",
    ) -> None:  # fmt: skip
        nacks = [
            Nack(
                topic=record.topic, queue_id=record.queue_id, lease_generation=generation,
                queue_offset=record.queue_offset, delay_ms=delay_ms, is_dead=is_dead,
            )
            for record in records
        ]  # fmt: skip
        name, client_id = split_reader(group)
        self.store.store.consumption.settle(
            SettleRequest(group=name, nacks=nacks, client_id=client_id)
        )

    async def pass_time(self, by_ms: int) -> None:
        """What follows from it is done, and durable."""
        await self.store.pass_time(by_ms)

    def sync_offsets(self) -> None:
        self.store.store.sync_offsets()
        self.recorder.told(SettlesSafe())

    async def checkpoint(self) -> None:
        await self.store.store.checkpoint()
        self.recorder.told(SettlesSafe())

    async def retain(self) -> None:
        """One pass of retention, after saying what it may take."""
        store = self.store.store
        bases = [file.base_offset for file in store._commit_log.segments()]
        count = max(len(bases) - self.limits["retention_bytes"] // self.limits["segment_bytes"], 0)
        oldest_ms = self.clock.now_ms() - store.config.retention_ms
        queues = [queue for topic in self._durability for queue in store.catalog.get_queues(topic)]
        for queue in queues:
            below = queue.max_offset  # scheduled messages move to later offsets
            if queue.topic != SCHEDULE_TOPIC:
                below = queue.first_at_or_above(bases[count])
                below = max(below, offset_at_time(store._commit_log, queue, oldest_ms))
            self.recorder.told(MayExpire((queue.topic, queue.queue_id), below))
        await store.retention.run()
        for queue in queues:
            self.recorder.told(Expired((queue.topic, queue.queue_id), queue.min_offset))

    async def damage(self, queue_offset: int, *, topic: str = "t", queue_id: int = 0) -> None:
        """Stop, change a bit in the body of a message on the disk, and start again."""
        unit = self.store.store.catalog.get_queues(topic)[queue_id].unit(queue_offset)
        await self.store.close()
        self.recorder.told(Damaged((topic, queue_id), queue_offset, unit[0]))
        size_bytes = self.limits["segment_bytes"]
        base = unit[0] // size_bytes * size_bytes
        path = self.store_dir / "commitlog" / f"{base:020d}"
        descriptor = os.open(path, os.O_RDWR)
        at = unit[0] - base + BODY_LENGTH_AT + 4
        os.pwrite(descriptor, bytes([os.pread(descriptor, 1, at)[0] ^ 1]), at)
        os.fsync(descriptor)
        os.close(descriptor)
        self.store = self._opened()

    def read(self, queue_offset: int, *, topic: str = "t", queue_id: int = 0) -> None:
        """Meet a damaged message."""
        request = PullRequest(
            topic=topic, queue_id=queue_id, queue_offset=queue_offset, messages_max=1,
            bytes_max=1 << 20,
        )  # fmt: skip
        assert self.store.store.pull(request)[1] == []
        self.recorder.told(AlarmRaised())

    async def restart_without(self, directory: str) -> None:
        """Stop, delete the files of a derived directory, and start again."""
        await self.store.close()
        for path in sorted((self.store_dir / directory).rglob("*")):
            if path.is_file():
                path.unlink()
        self.store = self._opened()

    def crash(self) -> None:
        """kill -9 and start again; the page cache stays."""
        kill(self.store.store)
        self.store = self._opened()

    async def restart(self) -> None:
        await self.store.close()
        self.store = self._opened()


async def _nothing() -> None:
    return None
