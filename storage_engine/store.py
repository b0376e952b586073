"""The facade of the engine: wires log, queues, offsets and delivery; decides when to reply.

    server ── put, receive, settle, pull, … ──▶ [Store] ──▶ put_path, delivery, commit_log
    flusher ── flushed(to) ──▶ [Store] ── dispatch, then answer all who waited ──▶ server

A put to a ``sync`` topic is answered when a sync has covered it, to an ``async`` one at once. After
a sync that failed puts are refused until its segments have been written anew (``durability.py``).
Loop thread only, unless said otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

import msgspec

from storage_engine.catalog.catalog import Catalog
from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.dedup.dedup import Dedup
from storage_engine.dedup.idempotent_puts import IdempotentPuts
from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.disk.disk_space import DiskSpace
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CHECKPOINT_FILE, COMMIT_LOG_DIR, CONFIG_DIR, INDEX_DIR
from storage_engine.disk.lock import StoreLock, next_epoch
from storage_engine.disk.mapped_files import file_size_of
from storage_engine.disk.run_mark import RunMark
from storage_engine.engine_stats import Watched, stats_of
from storage_engine.errors import ShuttingDown, StoreBusy, StoreError
from storage_engine.groups.consumption import Consumption
from storage_engine.index.indexer import Indexer
from storage_engine.log.checkpoint import (
    is_of_rocketmq,
    read_checkpoint,
    write_checkpoint,
)
from storage_engine.log.commit_log import CommitLog
from storage_engine.log.durability import Durability
from storage_engine.log.prefaulter import Prefaulter
from storage_engine.log.quarantine import Quarantine
from storage_engine.puts.delay_clock import DelayClock
from storage_engine.puts.dispatcher import Dispatcher
from storage_engine.puts.engine_puts import EnginePuts
from storage_engine.puts.put_path import Appended, PutPath
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.queues.min_offsets import MinOffsets
from storage_engine.reads.queries import Queries
from storage_engine.records.schedule_topic import SCHEDULE_QUEUES, SCHEDULE_TOPIC
from storage_engine.recovery.checkpointer import Checkpointer
from storage_engine.recovery.open_checks import reject_foreign_files, reject_gaps
from storage_engine.recovery.recovery import LogFound, Recovered, read_log, recover
from storage_engine.retention.retention import Retention
from storage_engine.retention.retention_clock import RetentionClock
from storage_engine.retention.snapshots import Snapshots
from storage_engine.schedule.forwarder import Forwarder
from storage_engine.schedule.level_offsets import LevelOffsets
from storage_engine.schedule.scheduled_messages import ScheduledMessages
from storage_engine.wire.protocol import CheckpointReply, StatsReply
from storage_engine.wire.reads import PullHead, PullRequest, PullStatus
from storage_engine.wire.topics import TopicStats

log = logging.getLogger(__name__)

# RocketMQ's port; one broker, one address
STORE_HOST = bytes((127, 0, 0, 1)) + (10_911).to_bytes(4)
PutReply = Callable[[Appended, int, StoreError | None], None]


class Store:
    """See the module's docstring."""

    def __init__(self, config: StoreConfig, clock: Clock, files: Files | None = None) -> None:
        config = self.config = _fitted(config.check())
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
        self._min_offsets = MinOffsets(config, self._files)
        self.disk = DiskSpace(config, self._files)
        self._engine_puts = EnginePuts(
            self._commit_log, self._dispatcher, self.durability, self._queues
        )
        self._delay_clock = DelayClock(config, self._files, clock)
        self._level_offsets = LevelOffsets(config, self._files)
        self._puts = PutPath(
            config,
            self._delay_clock,
            self._commit_log,
            self._dispatcher,
            lambda: self.catalog.own_topic(SCHEDULE_TOPIC, SCHEDULE_QUEUES),
        )
        self.catalog = Catalog(config, self._files, clock, self._queues, self._puts.routes)
        self.queries = Queries(
            config,
            clock,
            self._commit_log,
            self.catalog,
            self.indexer,
            lambda *place: self.consumption.dead_letters.is_removed(*place),
        )
        self.consumption: Consumption
        self.retention: Retention
        self.scheduled: ScheduledMessages
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
            lambda: [
                self._level_offsets.writer(self.consumption.schedule.sources),
                self._dedup.writer(self._commit_log.flushed_offset),
            ],
        )
        self._dedup = Dedup(config, self._files, clock)
        self.once_puts = IdempotentPuts(
            self._dedup,
            self._commit_log,
            self.durability,
            self.catalog,
            self._delay_clock,
            self.put,
        )
        self.epoch = 0
        self.put_count = 0
        self.put_bytes = 0

    # Life -----------------------------------------------------------------------------------

    def open(self, loop: asyncio.AbstractEventLoop) -> Recovered:
        """Lock the directory, recover, and be ready.

        Raises ``StoreInUse``, or ``StoreCorrupt`` with the files left as they are.
        """
        reject_foreign_files(self.config.store_path)
        self._files.make_dirs(self.config.store_path)
        self._lock.acquire()
        try:
            return self._open(loop)
        except BaseException:
            self._close_files()
            raise

    def _open(self, loop: asyncio.AbstractEventLoop) -> Recovered:
        path = self.config.store_path
        found = self._read()
        # Nothing has been written up to here.
        self._lock.write_owner()
        self.disk.open()
        recovered = recover(
            self._commit_log,
            self._queues,
            found,
            floors=self._min_offsets.table,
            quarantine=self._quarantine,
            save=partial(write_checkpoint, self._files, path / CHECKPOINT_FILE),
            keys=self.indexer,
            found_mark=self._dedup.found,
        )
        self._files.drop_leftovers(path, path / CONFIG_DIR, path / INDEX_DIR)
        self._min_offsets.clamp(recovered.end_offset, self._queues)
        self._quarantine.forget_below(self._commit_log.start_offset)
        self._dispatcher.dispatched_offset = recovered.end_offset
        self._consumer_offsets.open()
        saves: list[Callable[[], object]] = [self._dedup.writer(recovered.end_offset)]
        if self._consumer_offsets.settle_recovered(recovered.settles):
            saves.append(self._consumer_offsets.save)
        if self._consumer_offsets.clamp(self._queues):
            self._consumer_offsets.save()
        # What a kill left in the page cache may be all that says which messages were moved.
        self._consumer_offsets.sync()
        self._checkpointer.write_first(recovered.end_offset, saves)
        self.epoch = next_epoch(self._files, path, self._clock.now_ms())
        self._run_mark.set()
        self.catalog.route_all()
        self._delay_clock.start(self._commit_log.store_timestamp_ms)
        self.consumption = Consumption(
            self.config,
            self._clock,
            self._delay_clock,
            self._level_offsets,
            self.catalog,
            self._commit_log,
            self._queues,
            self._consumer_offsets,
            self._min_offsets,
            self._engine_puts,
            self.epoch,
            self.queries.queues_of,
            self._read_checked,
            loop.call_soon,
            loop.call_later,
        )
        self.scheduled = ScheduledMessages(
            self.config,
            self.consumption.schedule,
            self._commit_log,
            self._consumer_offsets,
            self.queries,
        )
        self.retention = self._new_retention()
        self.retention.settle_expired()
        self.durability.start(loop)
        self.catalog.start(loop)
        self._prefaulter = Prefaulter(self._commit_log)
        self._prefaulter.start()
        self._refusal = None
        log.info(
            "Store opened",
            extra={
                "action": "store_opened",
                "epoch": self.epoch,
                "end_offset": recovered.end_offset,
                "recovered_count": recovered.record_count,
                "truncated_bytes": recovered.truncated_bytes,
            },
        )
        return recovered

    def _read(self) -> LogFound:
        """Read all files and change none. Raises ``StoreCorrupt``: this engine must not write."""
        path = self.config.store_path
        checkpoint = read_checkpoint(path / CHECKPOINT_FILE)
        if self._run_mark.is_of_rocketmq():
            checkpoint = None  # it may have cut the log, and written it anew, since
        self.catalog.load()
        self._quarantine.load()
        self._min_offsets.load()
        self._level_offsets.load()
        self._consumer_offsets.load(
            is_foreign=checkpoint is None and is_of_rocketmq(path / CHECKPOINT_FILE)
        )
        self._dedup.load()
        found = read_log(
            self._commit_log,
            checkpoint,
            was_power_cut=self._run_mark.was_power_cut(),
            unsynced_bytes_max=self.config.unsynced_bytes_max + self.config.frame_bytes_max,
        )
        reject_gaps(
            path,
            self._min_offsets.table,
            log_start=self._commit_log.start_offset,
            log_end=self._commit_log.end_offset,
            is_ours=checkpoint is not None,
        )
        return found

    def _new_retention(self) -> Retention:
        consumption = self.consumption
        forwarder = Forwarder(
            self._commit_log,
            consumption.schedule,
            consumption.mover,
            self.durability.durable_to,
            consumption.deletions.is_orphan,
        )
        newest_ms = self._commit_log.store_timestamp_ms
        age = RetentionClock(self._files, self.config.store_path, self._clock, newest_ms)
        return Retention(
            self.config,
            self._clock,
            age,
            self.catalog,
            self._commit_log,
            self._queues,
            self._min_offsets,
            self._quarantine,
            self.disk,
            self.consumption.delivery,
            self._consumer_offsets,
            self.indexer,
            # An id of an earlier run must not end the lease of this one.
            Snapshots(self.config, self._clock, self._commit_log, first_id=self.epoch * 1_000_000),
            forwarder.forward,
            consumption.deletions.purge,
            lambda: self._dispatcher.dispatched_offset,
        )

    async def close(self) -> None:
        """Flush, write a checkpoint, release the directory. Waiting puts get their replies first.

        Where there is no room for a checkpoint, the next start reads more.
        """
        self._refusal = ShuttingDown("the engine is stopping")
        self.consumption.stop()
        self._prefaulter.stop()
        self.catalog.stop()
        try:
            is_durable = await self.durability.stop()
            await self._checkpointer.finish()
            if is_durable:
                await self.checkpoint()
                if self._dispatcher.is_idle:
                    self._run_mark.remove()
        except (StoreError, OSError) as exc:
            # The log is durable all the same: the next start begins at the checkpoint before.
            log.error(
                "Could not write the final checkpoint; the next start recovers from the one before",
                extra={"action": "final_checkpoint_failed", "reason": str(exc)},
            )
        finally:
            self._close_files()

    def _close_files(self) -> None:
        self._queues.close()
        self.indexer.close()
        self._commit_log.close()
        self._consumer_offsets.close()
        self._lock.release()

    # Puts -----------------------------------------------------------------------------------

    def put(self, payload: bytes, answer: PutReply) -> tuple[Appended, int]:
        """Append the records of a PUT frame; ``answer(appended, store_timestamp_ms, error)`` comes
        once. What was appended and when is known at once.

        Raises (then ``answer`` is not called, and nothing was stored):
            BadRequest, DiskFull, StoreBusy, StoreReadOnly, ShuttingDown.
        """
        refusal = self._refusal or self.durability.refusal or self.disk.refusal
        if refusal is not None:
            raise refusal
        if self.unsynced_bytes > self.config.unsynced_bytes_max:
            raise StoreBusy(
                f"{self.unsynced_bytes} bytes are waiting for the disk already; try again later"
            )
        appended = self._puts.put(payload)
        stamp = self._commit_log.store_timestamp_ms
        if not appended.end_offset:
            answer(appended, stamp, None)
            return appended, stamp
        self.put_count += appended.stored_count
        self.put_bytes += len(payload)
        if appended.must_sync:
            self.durability.wait(appended.end_offset, partial(answer, appended, stamp))
            return appended, stamp
        if not self.durability.has_waiters:
            self._publish_to(appended.end_offset)
        answer(appended, stamp, None)
        return appended, stamp

    @property
    def unsynced_bytes(self) -> int:
        """Appended and not yet durable; 0 while puts are refused for that, and no more comes."""
        log_ = self._commit_log
        return 0 if self.durability.refusal else log_.append_offset - log_.flushed_offset

    def _publish_to(self, offset: int) -> None:
        for queue in self._dispatcher.publish_to(offset):
            for arrived in queue.arrivals:
                arrived()

    # Reading --------------------------------------------------------------------------------

    def _read_checked(self, records: list[tuple[int, int]]) -> tuple[bytes, list[int]]:
        """See ``CommitLog.read_checked``; what is damaged is put into quarantine."""
        content, damaged = self._commit_log.read_checked(records)
        self._quarantine.note_unreadable([records[at] for at in damaged])
        return content, damaged

    def read_records(self, records: list[tuple[int, int]]) -> bytes:
        """The bytes of records given by (physical_offset, record_bytes), back to back."""
        return self._commit_log.read_many(records)

    def pull(self, request: PullRequest) -> tuple[PullHead, list[tuple[int, int]]]:
        """Read at an offset; (head, records). Changes no delivery state.

        Damaged records, and dead letters that are gone, are passed over; when nothing else is left,
        as if none had matched.
        """
        head, records = self.queries.pull(request)
        damaged = self._commit_log.damaged(records)
        self._quarantine.note_unreadable([records[at] for at in damaged])
        hidden = {*damaged, *self.queries.gone(request, records)}
        if hidden:
            records = [record for at, record in enumerate(records) if at not in hidden]
            if not records:
                head = msgspec.structs.replace(head, status=PullStatus.NO_MATCHED_MSG)
        return head, records

    def tick(self) -> None:
        """Every ``tick_interval_ms``: leases and waits that end, due messages, keys that wait."""
        self.consumption.tick()
        self.indexer.flush()

    def topic_stats(self, topic: str) -> TopicStats:
        return self.queries.topic_stats(topic)

    # Durability in the background -----------------------------------------------------------

    def flush_async(self) -> None:
        """Ask for a sync of what async topics have appended. Every ``async_flush_interval_ms``."""
        if self._refusal is None:
            self.durability.request()

    def sync_offsets(self) -> None:
        """Make journaled settles durable; any thread. Every ``async_flush_interval_ms``."""
        self._consumer_offsets.sync()

    async def checkpoint(self) -> CheckpointReply:
        self._run_mark.set_again()
        return await self._checkpointer.run()

    async def release_memory(self) -> None:
        """Every ``retention_interval_ms``: the log's old pages need not be this process's."""
        await self._commit_log.release_memory()

    def watched(self) -> Watched:
        """What metrics are read from."""
        parts = (
            self._commit_log,
            self._dispatcher,
            self._queues,
            self.consumption.delivery,
            self.consumption.schedule,
            self.durability,
        )
        refusal = self._refusal or self.durability.refusal or self.disk.refusal
        more = self.indexer, self._quarantine, self.retention, self.catalog
        return Watched(*parts, *more, self.consumption.clients, refusal)

    def stats(self, connection_count: int) -> StatsReply:
        puts = self.put_count, self.put_bytes
        uptime_ms = self._clock.monotonic_ms() - self._started_ms
        return stats_of(
            self.config.broker, self.epoch, uptime_ms, puts, connection_count, self.watched()
        )


def _fitted(config: StoreConfig) -> StoreConfig:
    """The configuration with the size of segments that the store was made with."""
    size_bytes = file_size_of(config.store_path / COMMIT_LOG_DIR, config.segment_bytes)
    if size_bytes != config.segment_bytes:
        log.warning(
            "The store's segment size differs from the configured one; using the store's",
            extra={
                "action": "segment_size_mismatch",
                "found_bytes": size_bytes,
                "configured_bytes": config.segment_bytes,
            },
        )
    return msgspec.structs.replace(config, segment_bytes=size_bytes)
