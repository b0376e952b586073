"""The one facade of the engine: wires log, queues, offsets and delivery; decides when to answer.

    server ── put, receive, settle, pull, … ──▶ [Store] ──▶ put_path, delivery, commit_log
    flusher ── flushed(to) ──▶ [Store] ── dispatch, then answer all who waited ──▶ server

A put to a ``sync`` topic is answered when a sync has covered it, to an ``async`` one at once. After
a sync that failed puts are refused until its segments have been written anew (``durability.py``).
Loop thread only, unless said otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial

import msgspec

from storage_engine.catalog import Catalog
from storage_engine.checkpointer import Checkpointer
from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.delivery.consumer_offsets import ConsumerOffsets, Progress
from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.subscription import Delivered, Parked
from storage_engine.disk.disk_space import DiskSpace
from storage_engine.disk.files import Files
from storage_engine.disk.lock import StoreLock, next_epoch
from storage_engine.disk.run_mark import RunMark
from storage_engine.dispatcher import Dispatcher
from storage_engine.engine_metrics import Watched
from storage_engine.engine_puts import EnginePuts
from storage_engine.errors import (
    GroupNotFound,
    ShuttingDown,
    StoreBusy,
    StoreError,
    TopicNotFound,
)
from storage_engine.forwarder import Forwarder
from storage_engine.groups.retry_record import due_record
from storage_engine.index.indexer import Indexer
from storage_engine.layout import CHECKPOINT_FILE
from storage_engine.log.commit_log import CommitLog
from storage_engine.log.durability import Durability
from storage_engine.log.log_scan import Damage
from storage_engine.log.prefaulter import Prefaulter
from storage_engine.log.quarantine import Quarantine
from storage_engine.moves import Mover, settling
from storage_engine.put_path import Appended, PutPath
from storage_engine.queries import Queries
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.queues.min_offsets import MinOffsets
from storage_engine.records.record_parts import parts_of
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC_BYTES
from storage_engine.recovery.checkpoint import read_checkpoint
from storage_engine.recovery.recovery import Recovered, recover
from storage_engine.retention import Retention
from storage_engine.retries import Retries
from storage_engine.schedule import Schedule
from storage_engine.topic_names import retry_topic_of
from storage_engine.wire.protocol import (
    CheckpointReply,
    GroupStats,
    PullHead,
    PullRequest,
    PullStatus,
    QueueStats,
    ReceiveRequest,
    SettleReply,
    SettleRequest,
    StatsReply,
    TopicStats,
)

log = logging.getLogger(__name__)

STORE_HOST = bytes((127, 0, 0, 1)) + (10_911).to_bytes(
    4
)  # RocketMQ's port; one broker, one address


PutAnswer = Callable[[Appended, int, StoreError | None], None]


class Store:
    """See the module's docstring."""

    def __init__(self, config: StoreConfig, clock: Clock, files: Files | None = None) -> None:
        self.config = config.check()
        self._clock = clock
        self._files = files or Files()
        path = config.store_path
        self._lock = StoreLock(path)
        self._run_mark = RunMark(self._files, path)
        self._queues = ConsumeQueues(config, self._files)
        self._commit_log = CommitLog(config, self._files, clock, STORE_HOST)
        self._consumer_offsets = ConsumerOffsets(self._files, path)
        self.indexer = Indexer(config, self._files, self._commit_log)
        self._dispatcher = Dispatcher(0, self.indexer)
        self.durability = Durability(self._commit_log, self._publish_to, config.repair_interval_ms)
        self._quarantine = Quarantine(self._files, path, clock)
        self._min_offsets = MinOffsets(self._files, path)
        self.disk = DiskSpace(config, self._files)
        self._engine_puts = EnginePuts(
            self._commit_log, self._dispatcher, self.durability, self._queues
        )
        self._puts = PutPath(config, self._commit_log, self._dispatcher)
        self.catalog = Catalog(config, self._files, clock, self._queues, self._puts.routes)
        self.queries = Queries(config, self._commit_log, self.catalog, self._queues, self.indexer)
        self._delivery: Delivery
        self.retries: Retries
        self.schedule: Schedule
        self.retention: Retention
        self._prefaulter: Prefaulter
        self._started_ms = clock.monotonic_ms()
        self._refusal: StoreError | None = ShuttingDown("the store is not open")
        self._checkpointer = Checkpointer(
            self._files,
            path / CHECKPOINT_FILE,
            self._commit_log,
            self._dispatcher,
            self._queues,
            self._consumer_offsets,
            self.indexer,
            self.durability.durable_to,
        )
        self.epoch = 0
        self.put_count = 0
        self.put_bytes = 0

    # Life -----------------------------------------------------------------------------------

    def open(self, loop: asyncio.AbstractEventLoop) -> Recovered:
        """Lock the directory, recover, and be ready.

        Raises:
            StoreInUse: another engine owns the directory.
            StoreCorrupt: the files cannot be taken over; they are left as they are.
        """
        self._files.make_dirs(self.config.store_path)
        self._lock.acquire()
        try:
            return self._open(loop)
        except BaseException:
            self._close_files()
            raise

    def _open(self, loop: asyncio.AbstractEventLoop) -> Recovered:
        path = self.config.store_path
        self.disk.open()
        self.catalog.load()
        checkpoint = read_checkpoint(path / CHECKPOINT_FILE)
        self._quarantine.load()
        self._min_offsets.load()
        recovered = recover(
            self._commit_log,
            self._queues,
            checkpoint,
            floors=self._min_offsets.table,
            quarantine=self._quarantine,
            was_power_cut=self._run_mark.was_power_cut(),
        )
        self._dispatcher.dispatched_offset = recovered.end_offset
        self.indexer.recover(checkpoint, path / CHECKPOINT_FILE, recovered)
        self._consumer_offsets.load()
        if self._consumer_offsets.settle_recovered(recovered.settles):
            self._consumer_offsets.save()
        self._clamp_offsets()
        self._checkpointer.write_first(recovered.end_offset)
        self.epoch = next_epoch(self._files, path)
        self._run_mark.set()
        self.catalog.route_all()
        self._begin_delivery()
        self.retention = self._new_retention()
        self.retention.settle_expired()
        self.durability.start(loop)
        self._prefaulter = Prefaulter(self._commit_log)
        self._prefaulter.start()
        self._refusal = None
        log.info(
            "store opened",
            extra={
                "action": "store_opened",
                "epoch": self.epoch,
                "end_offset": recovered.end_offset,
                "recovered_count": recovered.record_count,
                "truncated_bytes": recovered.truncated_bytes,
            },
        )
        return recovered

    def _begin_delivery(self) -> None:
        mover = Mover(self._engine_puts, self._consumer_offsets)
        self.retries = Retries(
            self._clock,
            self.catalog,
            self._commit_log,
            self._consumer_offsets,
            mover,
            lambda failures: self._delivery.moved(failures),
        )
        self._delivery = Delivery(
            self.config,
            self._clock,
            self._consumer_offsets,
            self.epoch,
            self._damaged,
            self.retries.fail,
        )
        for progress in list(self._consumer_offsets):
            queues = self._queues.by_topic.get(progress.topic.encode())
            group = self.catalog.groups.get(progress.group)
            if queues and group and progress.topic != retry_topic_of(progress.group):
                retry_queue = self.catalog.retry_queue(group, progress.topic)
                self._delivery.restore(group, progress.topic, queues, retry_queue)
        self.schedule = Schedule(
            self._clock, self._commit_log, self._consumer_offsets, mover, self._due
        )
        self._follow_schedule()

    def _follow_schedule(self) -> None:
        queues = self._queues.by_topic.get(SCHEDULE_TOPIC_BYTES)
        if queues:
            self.schedule.follow(queues)

    def _due(self, progress: Progress, queue_offset: int, record: bytes) -> bytes:
        """The record that a scheduled one becomes; ``TopicNotFound``: it has nowhere to go."""
        due = due_record(record, settles=settling(progress, queue_offset))
        parts = parts_of(due)
        queues = self._queues.by_topic.get(parts.topic, [])
        if parts.queue_id >= len(queues):
            raise TopicNotFound(f"{parts.topic.decode()} has no queue {parts.queue_id}")
        return due

    def _new_retention(self) -> Retention:
        forwarder = Forwarder(
            self._commit_log, self._queues, self._engine_puts, self.durability.durable_to
        )
        return Retention(
            self.config,
            self._clock,
            self.catalog,
            self._commit_log,
            self._queues,
            self._min_offsets,
            self._quarantine,
            self.disk,
            self._delivery,
            self._consumer_offsets,
            self.indexer,
            forwarder.forward,
        )

    def _clamp_offsets(self) -> None:
        """Take back progress beyond the end of a queue.

        A power cut may leave settles durable whose messages of an async topic were not; new
        messages at those offsets must be delivered."""
        changed = False
        for progress in self._consumer_offsets:
            queues = self._queues.by_topic.get(progress.topic.encode(), [])
            has_queue = progress.queue_id < len(queues)
            max_offset = queues[progress.queue_id].max_offset if has_queue else 0
            changed = progress.clamp(max_offset) or changed
        if changed:
            log.warning("consumer offsets taken back", extra={"action": "offsets_clamped"})
            self._consumer_offsets.save()

    async def close(self) -> None:
        """Flush, checkpoint, let go of the directory. Puts that still wait are answered first."""
        self._refusal = ShuttingDown("the engine is stopping")
        self._prefaulter.stop()
        if await self.durability.stop():
            await self.checkpoint()
            if self._dispatcher.is_idle:
                self._run_mark.remove()
        self._close_files()

    def _close_files(self) -> None:
        self._queues.close()
        self.indexer.close()
        self._commit_log.close()
        self._consumer_offsets.close()
        self._lock.release()

    # Puts -----------------------------------------------------------------------------------

    def put(self, payload: bytes, answer: PutAnswer) -> None:
        """Append the records of a PUT frame; ``answer(appended, store_timestamp_ms, error)`` comes
        once.

        Raises (then ``answer`` is not called, and nothing was stored):
            BadRequest, DiskFull, StoreBusy, StoreReadOnly, ShuttingDown.
        """
        refusal = self._refusal or self.durability.refusal or self.disk.refusal
        if refusal is not None:
            raise refusal
        if self.unsynced_bytes > self.config.unsynced_bytes_max:
            raise StoreBusy(f"{self.unsynced_bytes} bytes wait for the disk already")
        appended = self._puts.put(payload)
        stamp = self._commit_log.store_timestamp_ms
        if not appended.end_offset:
            answer(appended, stamp, None)
            return
        self.put_count += appended.stored_count
        self.put_bytes += len(payload)
        if appended.must_sync:
            self.durability.wait(
                appended.end_offset, len(payload), partial(answer, appended, stamp)
            )
            return
        if not self.durability.has_waiters:
            self._publish_to(appended.end_offset)
        answer(appended, stamp, None)

    @property
    def unsynced_bytes(self) -> int:
        """Appended to sync topics and not yet durable."""
        return self.durability.unsynced_bytes

    def _publish_to(self, offset: int) -> None:
        for queue in self._dispatcher.publish_to(offset):
            for arrived in queue.arrivals:
                arrived()

    # Delivery -------------------------------------------------------------------------------

    def receive(
        self, request: ReceiveRequest, answer: Callable[[Delivered], None]
    ) -> Parked | None:
        """Lease messages, or park. Raises ``GroupNotFound``, ``TopicNotFound``, ``BadRequest``."""
        group = self.catalog.groups.get(request.group)
        if group is None:
            raise GroupNotFound(f"group {request.group} does not exist")
        queues = self.queries.queues_of(request.topic)
        retry_queue = self.catalog.retry_queue(group, request.topic)
        return self._delivery.receive(group, queues, retry_queue, request, answer)

    def cancel(self, parked: Parked, *, answer: bool) -> None:
        self._delivery.cancel(parked, answer=answer)

    def settle(self, request: SettleRequest) -> SettleReply:
        if request.group not in self.catalog.groups:
            raise GroupNotFound(f"group {request.group} does not exist")
        return self._delivery.settle(request)

    def _damaged(self, records: list[tuple[int, int]]) -> list[int]:
        """Which records cannot be read as written; they are put into quarantine."""
        found = self._commit_log.damaged(records)
        if found:
            places = [records[at] for at in found]
            reason = "does not verify when read"
            self._quarantine.add([Damage(at, at + size, reason) for at, size in places])
        return found

    def read_records(self, records: list[tuple[int, int]]) -> bytes:
        """The bytes of records given by (physical_offset, record_bytes), back to back."""
        return self._commit_log.read_many(records)

    def pull(self, request: PullRequest) -> tuple[PullHead, list[tuple[int, int]]]:
        """Read at an offset; (head, records). Changes no delivery state.

        Damaged records are passed over; when nothing else is left, as if none had matched.
        """
        head, records = self.queries.pull(request)
        damaged = frozenset(self._damaged(records))
        if damaged:
            records = [record for at, record in enumerate(records) if at not in damaged]
            if not records:
                head = msgspec.structs.replace(head, status=PullStatus.NO_MATCHED_MSG)
        return head, records

    def tick(self) -> None:
        """Every ``tick_interval_ms``: leases and waits that end, due messages, keys that wait."""
        self._delivery.tick()
        self.retries.tick()
        self._follow_schedule()
        self.schedule.tick()
        self.indexer.flush()

    # Numbers --------------------------------------------------------------------------------

    def topic_stats(self, topic: str) -> TopicStats:
        return TopicStats(
            topic=topic,
            queues=[
                QueueStats(
                    queue_id=queue.queue_id,
                    min_offset=queue.min_offset,
                    max_offset=queue.max_offset,
                )
                for queue in self.queries.queues_of(topic)
            ],
        )

    def group_stats(self, group: str) -> GroupStats:
        if group not in self.catalog.groups:
            raise GroupNotFound(f"group {group} does not exist")
        return GroupStats(group=group, queues=self._delivery.stats(group))

    # Durability in the background -----------------------------------------------------------

    def flush_async(self) -> None:
        """Ask for a sync of what async topics have appended. Every ``async_flush_interval_ms``."""
        if self._refusal is None:
            self.durability.request()

    def sync_offsets(self) -> None:
        """Make journaled settles durable; any thread. Every ``async_flush_interval_ms``."""
        self._consumer_offsets.sync()

    async def checkpoint(self) -> CheckpointReply:
        """See ``Checkpointer.run``."""
        return await self._checkpointer.run()

    def watched(self) -> Watched:
        """What metrics are read from."""
        parts = self._commit_log, self._dispatcher, self._queues, self._delivery, self.durability
        refusal = self._refusal or self.durability.refusal or self.disk.refusal
        more = self.indexer, self._quarantine, self.retention, self.catalog
        return Watched(*parts, *more, refusal)

    def stats(self, connection_count: int) -> StatsReply:
        return StatsReply(
            broker=self.config.broker,
            epoch=self.epoch,
            pid=os.getpid(),
            uptime_ms=self._clock.monotonic_ms() - self._started_ms,
            put_count=self.put_count,
            put_bytes=self.put_bytes,
            delivered_count=self._delivery.delivered_count,
            acked_count=self._delivery.acked_count,
            sync_count=self.durability.sync_count,
            append_offset=self._commit_log.append_offset,
            flushed_offset=self._commit_log.flushed_offset,
            indexed_offset=self.indexer.indexed_offset,
            segment_count=len(self._commit_log.segments()),
            parked_count=self._delivery.parked_count,
            connection_count=connection_count,
            is_writable=not (self._refusal or self.durability.refusal or self.disk.refusal),
        )
