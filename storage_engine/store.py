"""The one facade of the engine: wires log, queues, offsets and delivery; decides when to answer.

    server ── put, receive, settle, pull, … ──▶ [Store] ──▶ put_path, delivery, commit_log
    flusher ── flushed(to) ──▶ [Store] ── dispatch, then answer all who waited ──▶ server

A put to a ``sync`` topic is answered when a sync has covered it, to an ``async`` one at once. After
a sync that failed nothing more is acknowledged: the engine says so and takes no further puts until
it is started again. Loop thread only, unless said otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from storage_engine.catalog import Catalog
from storage_engine.checkpoint import read_checkpoint
from storage_engine.checkpointer import Checkpointer
from storage_engine.clock import Clock
from storage_engine.commit_log import CommitLog
from storage_engine.config import StoreConfig
from storage_engine.consume_queue import ConsumeQueue
from storage_engine.consume_queues import ConsumeQueues
from storage_engine.consumer_offsets import ConsumerOffsets
from storage_engine.delivery import Delivered, Delivery, Parked
from storage_engine.dispatcher import Dispatcher
from storage_engine.errors import (
    GroupNotFound,
    QueueNotFound,
    ShuttingDown,
    StoreBusy,
    StoreError,
    StoreReadOnly,
    TopicNotFound,
)
from storage_engine.files import Files
from storage_engine.flusher import Flusher
from storage_engine.layout import ABORT_FILE, CHECKPOINT_FILE
from storage_engine.lock import StoreLock, next_epoch
from storage_engine.prefaulter import Prefaulter
from storage_engine.protocol import (
    CheckpointReply,
    GroupStats,
    PullHead,
    PullRequest,
    QueueStats,
    ReceiveRequest,
    SettleReply,
    SettleRequest,
    StatsReply,
    TopicStats,
)
from storage_engine.pull import pull
from storage_engine.put_path import Appended, PutPath
from storage_engine.recovery import Recovered, recover

log = logging.getLogger(__name__)

STORE_HOST = bytes((127, 0, 0, 1)) + (10_911).to_bytes(
    4
)  # RocketMQ's port; one broker, one address


class _Waiting(NamedTuple):
    """A put that is appended and waits for the disk."""

    end_offset: int
    put_bytes: int
    appended: Appended
    store_timestamp_ms: int
    answer: PutAnswer


PutAnswer = Callable[[Appended, int, StoreError | None], None]


class Store:
    """See the module's docstring."""

    def __init__(self, config: StoreConfig, clock: Clock, files: Files | None = None) -> None:
        self.config = config.check()
        self._clock = clock
        self._files = files or Files()
        path = config.store_path
        self._lock = StoreLock(path)
        self._queues = ConsumeQueues(config, self._files)
        self._commit_log = CommitLog(config, self._files, clock, STORE_HOST)
        self._consumer_offsets = ConsumerOffsets(self._files, path)
        self._dispatcher = Dispatcher(0)
        self._puts = PutPath(config, self._commit_log, self._dispatcher)
        self.catalog = Catalog(config, self._files, clock, self._queues, self._puts.routes)
        self._delivery: Delivery
        self._flusher: Flusher
        self._prefaulter: Prefaulter
        self._waiting: deque[_Waiting] = deque()
        self._durable_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._started_ms = clock.monotonic_ms()
        self._refusal: StoreError | None = ShuttingDown("the store is not open")
        self._checkpointer = Checkpointer(
            self._files,
            path / CHECKPOINT_FILE,
            self._commit_log,
            self._dispatcher,
            self._queues,
            self._consumer_offsets,
            self._durable_to,
        )
        self.epoch = 0
        self.put_count = 0
        self.put_bytes = 0
        self.unsynced_bytes = 0

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
        self.catalog.load()
        checkpoint = read_checkpoint(path / CHECKPOINT_FILE)
        recovered = recover(self._commit_log, self._queues, checkpoint)
        self._commit_log.sync_all()
        self._dispatcher.dispatched_offset = recovered.end_offset
        self._consumer_offsets.load()
        self._clamp_offsets()
        self.epoch = next_epoch(self._files, path)
        self._files.replace(path / ABORT_FILE, str(os.getpid()).encode())
        self.catalog.route_all()
        self._delivery = Delivery(self.config, self._clock, self._consumer_offsets, self.epoch)
        for progress in list(self._consumer_offsets):
            queues = self._queues.by_topic.get(progress.topic.encode())
            group = self.catalog.groups.get(progress.group)
            if queues and group:
                self._delivery.restore(group, progress.topic, queues)
        self._flusher = Flusher(self._commit_log, loop, self._flushed, self._sync_failed)
        self._flusher.start()
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
        self._flusher.stop()
        self._prefaulter.stop()
        if self._flusher.error is not None:
            self._fail_waiting(self._flusher.error)
        else:
            self._commit_log.sync(self._commit_log.append_offset)
            self._flushed(self._commit_log.append_offset)
            await self.checkpoint()
            if self._dispatcher.is_idle:
                self._files.unlink(self.config.store_path / ABORT_FILE)
        self._close_files()

    def _close_files(self) -> None:
        self._queues.close()
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
        if self._refusal is not None:
            raise self._refusal
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
            self.unsynced_bytes += len(payload)
            self._waiting.append(
                _Waiting(appended.end_offset, len(payload), appended, stamp, answer)
            )
            self._flusher.request()
            return
        if not self._waiting:
            self._publish_to(appended.end_offset)
        answer(appended, stamp, None)

    def _flushed(self, to: int) -> None:
        if self._flusher.error is not None:
            return  # its failure is on its way; nothing may be answered any more
        waiting = self._waiting
        self._publish_to(to)
        while waiting and waiting[0].end_offset <= to:
            done = waiting.popleft()
            self.unsynced_bytes -= done.put_bytes
            done.answer(done.appended, done.store_timestamp_ms, None)
        waiters, self._durable_waiters = self._durable_waiters, []
        for offset, durable in waiters:
            if offset > to:
                self._durable_waiters.append((offset, durable))
            elif not durable.done():
                durable.set_result(None)
        if waiting or self._durable_waiters:
            self._flusher.request()
        else:
            # Async records that came in behind the last sync record are visible at once.
            self._publish_to(self._commit_log.append_offset)

    def _publish_to(self, offset: int) -> None:
        for queue in self._dispatcher.publish_to(offset):
            for arrived in queue.arrivals:
                arrived()

    def _sync_failed(self, error: StoreError) -> None:
        log.error(
            "sync failed, no more puts", extra={"action": "sync_failed", "reason": str(error)}
        )
        self._refusal = StoreReadOnly(
            f"the disk refused a sync ({error}); the engine must be started again"
        )
        self._fail_waiting(error)

    def _fail_waiting(self, error: StoreError) -> None:
        waiting, self._waiting = self._waiting, deque()
        self.unsynced_bytes = 0
        waiters, self._durable_waiters = self._durable_waiters, []
        for _, durable in waiters:
            if not durable.done():
                durable.set_exception(error)
        for done in waiting:
            done.answer(done.appended, done.store_timestamp_ms, error)

    # Delivery -------------------------------------------------------------------------------

    def receive(
        self, request: ReceiveRequest, answer: Callable[[Delivered], None]
    ) -> Parked | None:
        """Lease messages, or park. Raises ``GroupNotFound``, ``TopicNotFound``, ``BadRequest``."""
        group = self.catalog.groups.get(request.group)
        if group is None:
            raise GroupNotFound(f"group {request.group} does not exist")
        return self._delivery.receive(group, self._queues_of(request.topic), request, answer)

    def cancel(self, parked: Parked, *, answer: bool) -> None:
        self._delivery.cancel(parked, answer=answer)

    def settle(self, request: SettleRequest) -> SettleReply:
        if request.group not in self.catalog.groups:
            raise GroupNotFound(f"group {request.group} does not exist")
        return self._delivery.settle(request)

    def read_records(self, records: list[tuple[int, int]]) -> bytes:
        """The bytes of records given by (physical_offset, record_bytes), back to back."""
        return self._commit_log.read_many(records)

    def pull(self, request: PullRequest) -> tuple[PullHead, list[tuple[int, int]]]:
        """Read at an offset; (head, records). Changes no delivery state."""
        queues = self._queues_of(request.topic)
        if not 0 <= request.queue_id < len(queues):
            raise QueueNotFound(f"{request.topic} has queues 0 to {len(queues) - 1}")
        return pull(self.config, queues[request.queue_id], request)

    def tick(self) -> None:
        """Every ``tick_interval_ms``: leases and waits that end."""
        self._delivery.tick()

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
                for queue in self._queues_of(topic)
            ],
        )

    def group_stats(self, group: str) -> GroupStats:
        if group not in self.catalog.groups:
            raise GroupNotFound(f"group {group} does not exist")
        return GroupStats(group=group, queues=self._delivery.stats(group))

    def _queues_of(self, topic: str) -> list[ConsumeQueue]:
        if topic not in self.catalog.topics:
            raise TopicNotFound(f"topic {topic} does not exist")
        return self._queues.by_topic[topic.encode()]

    # Durability in the background -----------------------------------------------------------

    def flush_async(self) -> None:
        """Ask for a sync of what async topics have appended. Every ``async_flush_interval_ms``."""
        if (
            self._commit_log.flushed_offset < self._commit_log.append_offset
            and self._refusal is None
        ):
            self._flusher.request()

    def sync_offsets(self) -> None:
        """Make journaled settles durable; any thread. Every ``async_flush_interval_ms``."""
        self._consumer_offsets.sync()

    async def checkpoint(self) -> CheckpointReply:
        """See ``Checkpointer.run``."""
        return await self._checkpointer.run()

    async def _durable_to(self, offset: int) -> None:
        """Until the log is durable up to ``offset``. Raises ``SyncFailed``."""
        if self._flusher.error is not None:
            raise self._flusher.error
        if self._commit_log.flushed_offset < offset:
            durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._durable_waiters.append((offset, durable))
            self._flusher.request()
            await durable

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
            sync_count=self._flusher.sync_count,
            append_offset=self._commit_log.append_offset,
            flushed_offset=self._commit_log.flushed_offset,
            segment_count=len(self._commit_log.segments()),
            parked_count=self._delivery.parked_count,
            connection_count=connection_count,
            is_writable=self._refusal is None,
        )
