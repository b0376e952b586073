"""The facade of the engine: wires log, queues, offsets and delivery; decides when to reply.

    server ── put, receive, settle, pull, … ──▶ [Store] ──▶ put_path, delivery, commit_log
    flusher ── flushed(to) ──▶ [Store] ── dispatch, then answer all who waited ──▶ server

A put to a ``sync`` topic is answered when a sync has covered it, to an ``async`` one at once, to a
``replicated`` one when the replicated log has it, where there is one (``replication/``). After
a sync that failed puts are refused until its segments have been written anew (``durability.py``).
Loop thread only, unless said otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

import msgspec

from storage_engine.catalog.catalog import Catalog
from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.dedup.dedup import Dedup
from storage_engine.dedup.idempotent_puts import IdempotentPuts
from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.disk.disk_space import DiskSpace
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CHECKPOINT_FILE, COMMIT_LOG_DIR, CONFIG_DIR, INDEX_DIR
from storage_engine.disk.lock import StoreLock, next_epoch
from storage_engine.disk.mapped_files import file_size_of
from storage_engine.disk.run_mark import RunMark
from storage_engine.errors import (
    NoReplicatedLog,
    NotLocal,
    ReplicationUnavailable,
    ShuttingDown,
    StoreBusy,
    StoreError,
)
from storage_engine.groups.consumption import Consumption
from storage_engine.index.indexer import Indexer
from storage_engine.log.bucket_files import reject_bucket_files
from storage_engine.log.bucket_log import BucketLog, open_log
from storage_engine.log.checkpoint import is_of_rocketmq
from storage_engine.log.durability import Durability
from storage_engine.log.log_scan import last_run
from storage_engine.log.prefaulter import Prefaulter
from storage_engine.log.quarantine import Quarantine
from storage_engine.log.segment_cache import SegmentCache
from storage_engine.puts.delay_clock import DelayClock
from storage_engine.puts.dispatcher import Dispatcher
from storage_engine.puts.engine_puts import EnginePuts
from storage_engine.puts.put_path import Appended, PutPath
from storage_engine.puts.replicated_dispatcher import ReplicatedDispatcher
from storage_engine.puts.route import REPLICATED, SYNCED, Confirmation
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.queues.min_offsets import MinOffsets
from storage_engine.reads.queries import Queries
from storage_engine.records.schedule_topic import SCHEDULE_QUEUES, SCHEDULE_TOPIC
from storage_engine.recovery.checkpointer import Checkpointer
from storage_engine.recovery.open_checks import reject_foreign_files, reject_gaps
from storage_engine.recovery.recovery import LogFound, Recovered, read_log, recover
from storage_engine.replication.follower import reject_attached
from storage_engine.replication.replication import Replication
from storage_engine.replication.tail import LogPlace
from storage_engine.replication.uploads import SplitStore
from storage_engine.retention.local_retention import LocalRetention
from storage_engine.retention.retention import Retention
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
ReplyT = TypeVar("ReplyT")


class Store:
    """See the module's docstring."""

    def __init__(
        self,
        config: StoreConfig,
        clock: Clock,
        files: Files | None = None,
        place: LogPlace | None = None,
        cache: SegmentCache | None = None,
    ) -> None:
        config = self.config = _fitted(config.check())
        self._clock = clock
        self._files = files or Files()
        path = config.store_path
        self._lock = StoreLock(path)
        self._run_mark = RunMark(self._files, path)
        self._queues = ConsumeQueues(config, self._files)
        self.cache = cache
        self._commit_log = open_log(config, self._files, clock, STORE_HOST, cache)
        self._consumer_offsets = ConsumerOffsets(self._files, path)
        self.indexer = Indexer(config, self._files, self._commit_log)
        self.dispatcher = (
            Dispatcher(0, self.indexer) if place is None else ReplicatedDispatcher(0, self.indexer)
        )
        self.durability = Durability(self._commit_log, self._publish_to, config.repair_interval_ms)
        self._quarantine = Quarantine(self._files, path, clock)
        self._min_offsets = MinOffsets(config, self._files)
        self.disk = DiskSpace(config, self._files)
        self._delay_clock = DelayClock(config, self._files, clock)
        self._level_offsets = LevelOffsets(config, self._files)
        self._puts = PutPath(
            config,
            self._delay_clock,
            self._commit_log,
            self.dispatcher,
            lambda: self.catalog.own_topic(SCHEDULE_TOPIC, SCHEDULE_QUEUES),
        )
        self.catalog = Catalog(config, self._files, clock, self._queues, self._puts.routes)
        self._dedup = Dedup(config, self._files, clock)
        self._confirmations: dict[int, Confirmation] = {SYNCED: self.durability}
        self.replication: Replication | None = None
        if place is not None:
            self._replicate(place)
        self.once_puts = IdempotentPuts(
            self._dedup,
            self._confirmations,
            self.catalog,
            self._delay_clock,
            self.put,
        )
        self.parts: EngineParts
        self.queries: Queries
        self.consumption: Consumption
        self.retention: Retention
        self.scheduled: ScheduledMessages
        self._checkpointer: Checkpointer
        self._prefaulter: Prefaulter
        self._started_ms = clock.monotonic_ms()
        self._refusal: StoreError | None = ShuttingDown("the store is not open")
        self.deposed: Callable[[], None] = _nobody
        self.closing: Callable[[], None] = _nobody
        self.epoch = 0
        self.put_count = 0
        self.put_bytes = 0

    def _replicate(self, place: LogPlace) -> None:
        dispatcher, catalog = self.dispatcher, self.catalog
        assert isinstance(dispatcher, ReplicatedDispatcher)
        dispatcher.replicated_topics = catalog.replicated_topics
        catalog.accept_replicated()
        self.replication = self._confirmations[REPLICATED] = Replication(
            place,
            self.config,
            self._clock,
            self._files,
            self._commit_log,
            self.durability,
            publish=lambda offset: _notify(dispatcher.publish_replicated(offset)),
            refused=catalog.refuse_replicated,
            failed=self._depose,
        )

    # Life -----------------------------------------------------------------------------------

    def open(self, loop: asyncio.AbstractEventLoop) -> Recovered:
        """Lock the directory, recover, and be ready.

        Raises ``StoreInUse``; ``StoreCorrupt`` or ``ConfigInvalid`` with the files left as they
        are.
        """
        reject_foreign_files(self.config.store_path)
        if self.replication is None:
            reject_attached(self.config.store_path)
        if self.cache is None:
            reject_bucket_files(self.config.store_path)
        self._files.make_dirs(self.config.store_path)
        self._lock.acquire()
        try:
            return self._open(loop)
        except BaseException:
            self._close_files()
            raise

    def _open(self, loop: asyncio.AbstractEventLoop) -> Recovered:
        found = self._read()
        # Nothing has been written up to here.
        self._lock.write_owner()
        self.disk.open()
        self.parts = EngineParts(
            config=self.config,
            clock=self._clock,
            files=self._files,
            disk=self.disk,
            commit_log=self._commit_log,
            queues=self._queues,
            min_offsets=self._min_offsets,
            quarantine=self._quarantine,
            consumer_offsets=self._consumer_offsets,
            loop=loop,
        )
        recovered = self._recover(found)
        self._start_parts()
        self.durability.start(loop)
        self.catalog.start(loop)
        self._prefaulter = Prefaulter(self._commit_log)
        self._prefaulter.start()
        if self.cache is not None:
            self.cache.serve(loop)
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

    def _recover(self, found: LogFound) -> Recovered:
        """Bring all files to one state, and say so in a checkpoint and in the epoch."""
        path = self.config.store_path
        recovered = recover(self.parts, found, keys=self.indexer, found_mark=self._dedup.found)
        self._files.drop_leftovers(path, path / CONFIG_DIR, path / INDEX_DIR)
        self._min_offsets.clamp(recovered.end_offset, self._queues)
        self._quarantine.forget_below(self._commit_log.start_offset)
        self.dispatcher.dispatched_offset = recovered.end_offset
        self._consumer_offsets.open()
        saves: list[Callable[[], object]] = [self._dedup.writer(recovered.end_offset)]
        if self._consumer_offsets.settle_recovered(recovered.settles):
            saves.append(self._consumer_offsets.save)
        if self._consumer_offsets.clamp(self._queues):
            self._consumer_offsets.save()
        # What a kill left in the page cache may be all that says which messages were moved.
        self._consumer_offsets.sync()
        self._checkpointer = Checkpointer(
            self.parts, self.dispatcher, self.indexer, self.durability, self._derived_writers
        )
        self._checkpointer.write_first(recovered.end_offset, saves)
        self.epoch = next_epoch(self._files, path, self._clock.now_ms())
        self._run_mark.set()
        return recovered

    def _derived_writers(self) -> list[Callable[[], None]]:
        return [
            self._level_offsets.writer(self.consumption.schedule.sources),
            self._dedup.writer(self._commit_log.flushed_offset),
        ]

    def _start_parts(self) -> None:
        """Begin consumption and retention where the last run ended."""
        parts, catalog, dispatcher = self.parts, self.catalog, self.dispatcher
        catalog.route_all()
        self._delay_clock.start(self._commit_log.store_timestamp_ms)
        self._engine_puts = EnginePuts(self._commit_log, dispatcher, self.durability, self._queues)
        consumption = self.consumption = Consumption(
            parts, catalog, self._engine_puts, self._delay_clock, self._level_offsets, self.epoch
        )
        schedule, delivery = consumption.schedule, consumption.delivery
        self.queries = Queries(parts, catalog, self.indexer, consumption.dead_letters.is_removed)
        self.scheduled = ScheduledMessages(parts, catalog, schedule, self.queries)
        forwarder = Forwarder(parts, schedule, self.durability)
        self.retention = Retention(parts, catalog, delivery, dispatcher, self.indexer, forwarder)
        if self.replication is not None:
            replication = self.replication
            self.retention.snapshots.replicated_offset = lambda: replication.confirmed_offset
            replication.hold_segments = self.retention.snapshots.hold_upload
            if isinstance(self._commit_log, BucketLog) and replication.snapshotter is not None:
                self.retention.local = LocalRetention(
                    parts,
                    self._commit_log,
                    replication.snapshotter,
                    self.retention.snapshots,
                    forwarder,
                    schedule,
                )
        self.retention.settle_expired()

    def _read(self) -> LogFound:
        """Read all files and change none. Raises ``StoreCorrupt``: this engine must not write."""
        path = self.config.store_path
        last = last_run(path, self._files)
        is_ours = last.checkpoint is not None
        self.catalog.load()
        self._quarantine.load()
        self._min_offsets.load()
        self._level_offsets.load()
        self._consumer_offsets.load(
            is_foreign=not is_ours and is_of_rocketmq(path / CHECKPOINT_FILE)
        )
        self._dedup.load()
        found = read_log(self._commit_log, last, torn_bytes_max=self.config.torn_bytes_max)
        reject_gaps(
            path,
            self._min_offsets.table,
            log_start=self._commit_log.start_offset,
            log_end=self._commit_log.end_offset,
            is_ours=is_ours,
        )
        return found

    async def close(self, split: SplitStore | None = None) -> None:
        """Flush, write a checkpoint, release the directory. Waiting puts get their replies first.

        Where there is no room for a checkpoint, the next start reads more. ``split``: what the
        shard goes on with, which its replicated log says if it has all of this store.
        """
        self._refusal = ShuttingDown("the engine is stopping")
        self.closing()
        self.consumption.stop()
        self._prefaulter.stop()
        self.catalog.stop()
        try:
            is_durable = await self.durability.stop()
            if self.replication is not None:
                await self.replication.stop(split)
            await self._checkpointer.finish()
            if is_durable:
                await self.checkpoint()
                if self.dispatcher.is_idle:
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
        refusal = self.refusal
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
        if appended.awaits:
            waits = self._confirmations[appended.awaits]
            waits.wait(appended.end_offset, partial(answer, appended, stamp))
            return appended, stamp
        if not self.durability.has_waiters:
            self._publish_to(appended.end_offset)
        answer(appended, stamp, None)
        return appended, stamp

    @property
    def refusal(self) -> StoreError | None:
        """Why nothing can be put now, or None."""
        return self._refusal or self.durability.refusal or self.disk.refusal

    @property
    def replication_refusal(self) -> StoreError | None:
        """Why nothing can be put into replicated topics now, or None."""
        if self.replication is not None:
            return self.replication.refusal
        if not self.catalog.replicated_topics:
            return None
        return NoReplicatedLog(
            f"{len(self.catalog.replicated_topics)} topics are replicated, but this engine has no "
            "replicated log; start it with MQ_ENGINE_REPLICATED_LOG, or set their durability to "
            "sync"
        )

    @property
    def unsynced_bytes(self) -> int:
        """Appended and not yet durable; 0 while puts are refused for that, and no more comes."""
        log_ = self._commit_log
        return 0 if self.durability.refusal else log_.append_offset - log_.flushed_offset

    def _publish_to(self, offset: int) -> None:
        for queue in self.dispatcher.publish_to(offset):
            for arrived in queue.arrivals:
                arrived()

    def _depose(self, error: StoreError) -> None:
        """Another engine owns the shard: nothing is acknowledged any more."""
        self._refusal = error
        self.deposed()
        self.durability.reject(error)

    # Reading --------------------------------------------------------------------------------

    def read_records(self, records: list[tuple[int, int]]) -> bytes:
        """The bytes of records given by (physical_offset, record_bytes), back to back."""
        return self._commit_log.read_many(records)

    def pull(self, request: PullRequest) -> tuple[PullHead, list[tuple[int, int]]]:
        """Read at an offset; (head, records). Changes no delivery state.

        Damaged records, and dead letters that are gone, are passed over; when nothing else is left,
        as if none had matched. Raises ``NotLocal``: only the bucket has the first of them.
        """
        head, records = self.queries.pull(request)
        try:
            damaged = self._commit_log.damaged(records)
        except NotLocal as exc:
            if not exc.here_count:
                raise
            following = self.queries.offset_of(request, records[exc.here_count])
            head = msgspec.structs.replace(head, next_offset=following)
            records = records[: exc.here_count]
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

    @property
    def are_offsets_durable(self) -> bool:
        """Whether ``sync_offsets`` would change nothing, which then needs no thread."""
        return self._consumer_offsets.are_durable

    def sync_offsets(self) -> None:
        """Make journaled settles durable; any thread. Every ``async_flush_interval_ms``."""
        self._consumer_offsets.sync()

    async def checkpoint(self) -> CheckpointReply:
        self._run_mark.set_again()
        return await self._checkpointer.run()

    async def move(self, step: Callable[[], ReplyT]) -> ReplyT:
        """Do a step of namespaces that go to another shard, one of ``MovingNamespaces``. On return
        it is durable with all that was appended before, which may still be acknowledged; in the
        replicated log as well. Raises as the step does; ``SyncFailed``, ``ReplicationUnavailable``.
        """
        reply = step()
        await self.durability.durable_to(self._commit_log.append_offset)
        if self.replication is not None:
            await self.replication.ship_all()
        return reply

    def check_lasting(self, topic: str) -> None:
        """Before a change to messages of a topic, which is to last as they do. Raises
        ``ReplicationUnavailable``: the topic is replicated, and the log takes nothing now.
        """
        is_replicated = topic in self.catalog.replicated_topics
        if self.replication is not None and self.replication.refusal and is_replicated:
            raise ReplicationUnavailable(
                "the replicated log does not answer, and a change to messages of the replicated "
                f"topic {topic} could be lost with this machine. Nothing was changed; ask again "
                "when it answers"
            )

    def lasting(self, topic: str) -> Awaitable[None] | None:
        """What to wait for until all changes to messages of a topic last as they do; None where
        they do already. Fails as ``Replication.everything`` does.
        """
        if self.replication is None or topic not in self.catalog.replicated_topics:
            return None
        return self.replication.everything()

    async def release_memory(self) -> None:
        """Every ``retention_interval_ms``: the log's old pages need not be this process's."""
        await self._commit_log.release_memory()

    def stats(self, connection_count: int) -> StatsReply:
        """Counters since the engine started."""
        log_, delivery = self._commit_log, self.consumption.delivery
        schedule = self.consumption.schedule
        return StatsReply(
            broker=self.config.broker,
            epoch=self.epoch,
            pid=os.getpid(),
            uptime_ms=self._clock.monotonic_ms() - self._started_ms,
            put_count=self.put_count,
            put_bytes=self.put_bytes,
            delivered_count=delivery.leaser.delivered_count,
            acked_count=delivery.settler.acked_count,
            sync_count=self.durability.sync_count,
            append_offset=log_.append_offset,
            flushed_offset=log_.flushed_offset,
            indexed_offset=self.indexer.indexed_offset,
            segment_count=len(log_.segments()),
            parked_count=delivery.waiting_receives.count,
            connection_count=connection_count,
            is_writable=self.refusal is None,
            scheduled_count=schedule.pending_count,
            scheduled_delivered_count=schedule.delivered_count,
            degraded=[
                *(["beat"] if schedule.is_degraded else []),
                *(["replication"] if self.replication_refusal else []),
            ],
            quarantined_count=self._quarantine.count,
            replicated_offset=self.replication.confirmed_offset if self.replication else None,
        )


def _notify(grown: Iterable[ConsumeQueue]) -> None:
    for queue in grown:
        for arrived in queue.arrivals:
            arrived()


def _nobody() -> None:
    """Until somebody serves."""


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
