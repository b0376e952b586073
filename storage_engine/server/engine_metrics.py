"""The engine's Prometheus metrics, read from its parts at the time of the scrape.

    Store, Store.stats, the disk ──▶ [metrics_text]         ──▶ text of version 0.0.4
    what a replica has read      ──▶ [replica_metrics_text] ──▶ the same, of what a replica knows

Each sample has the label ``shard``, so that those of several engines can be told apart. Names
follow RocketMQ's where it has the metric (``messages_in_total``,
``storage_flush_behind_bytes``), with ``mq_engine_`` before them and the unit at the end. The table
for people is in docs/operations.md; a test keeps the two alike. Loop thread only; costs one look at
the disk and one at every queue.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from prometheus_client import disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from storage_engine.config import SECOND_MS
from storage_engine.disk.layout import CHECKPOINT_FILE
from storage_engine.log.checkpoint import FORMAT_VERSION
from storage_engine.store import Store
from storage_engine.wire.protocol import StatsReply
from storage_engine.wire.role import RoleStatus

PREFIX: Final = "mq_engine_"
SHARD_LABEL: Final = "shard"


class _Read:
    """What the metrics of one scrape are read from."""

    def __init__(self, store: Store, stats: StatsReply) -> None:
        self.store = store
        self.stats = stats
        self.parts = store.parts
        self.log = store.parts.commit_log
        self.segments = self.log.segments()
        self.consumption = store.consumption
        self.disk = os.statvfs(store.config.store_path)

    def checkpoint_age_seconds(self) -> float:
        try:
            written_ns = (self.store.config.store_path / CHECKPOINT_FILE).stat().st_mtime_ns
        except FileNotFoundError:
            return -1
        return max(self.parts.clock.now_ms() - written_ns // 1_000_000, 0) / SECOND_MS


_Row = tuple[str, str, Callable[[_Read], float]]  # name, help, value
_COUNTERS: Final[list[_Row]] = [
    ("messages_in_total", "Messages stored.", lambda of: of.stats.put_count),
    ("messages_in_bytes_total", "Bytes of the records stored.", lambda of: of.stats.put_bytes),
    (
        "messages_out_total",
        "Messages leased to members, including redeliveries.",
        lambda of: of.stats.delivered_count,
    ),
    ("messages_acked_total", "Messages acknowledged.", lambda of: of.stats.acked_count),
    (
        "messages_skipped_total",
        "Messages skipped by a group's filter.",
        lambda of: of.consumption.delivery.filter_scans.skipped_count,
    ),
    (
        "scheduled_delivered_total",
        "Scheduled messages and retries delivered to their topics.",
        lambda of: of.stats.scheduled_delivered_count,
    ),
    (
        "scheduled_undeliverable_total",
        "Scheduled messages that could not be delivered when they were due.",
        lambda of: of.consumption.schedule.undeliverable_count,
    ),
    (
        "broadcast_dropped_total",
        "Messages dropped because a client of a broadcast group failed to consume them.",
        lambda of: of.consumption.clients.dropped_count,
    ),
    (
        "deleted_segments_total",
        "Expired segments deleted from the log.",
        lambda of: of.store.retention.deleted_segment_count,
    ),
    (
        "bucket_fetched_pieces_total",
        "Pieces of segments that only the bucket has, fetched to be read.",
        lambda of: of.store.cache.fetched_count if of.store.cache else 0,
    ),
    (
        "bucket_failed_pieces_total",
        "Pieces of segments that could not be fetched from the bucket.",
        lambda of: of.store.cache.failed_count if of.store.cache else 0,
    ),
    (
        "repairs_total",
        "Times the log's segments were rewritten after a failed sync.",
        lambda of: of.store.durability.repair_count,
    ),
]
_OWNS_SHARD: Final = (
    "owns_shard",
    "1 if this engine owns its shard and serves it, 0 if it is a replica.",
)
_GAUGES: Final[list[_Row]] = [
    (*_OWNS_SHARD, lambda of: 1),
    (
        "append_offset_bytes",
        "Physical offset at which the next record is written.",
        lambda of: of.log.append_offset,
    ),
    (
        "flushed_offset_bytes",
        "Physical offset below which the commit log is durable.",
        lambda of: of.log.flushed_offset,
    ),
    (
        "start_offset_bytes",
        "Physical offset of the oldest byte in the commit log.",
        lambda of: of.log.start_offset,
    ),
    (
        "local_start_offset_bytes",
        "Physical offset of the oldest byte of the commit log on the local disk; what is below "
        "is only in the bucket.",
        lambda of: of.log.local_start_offset,
    ),
    (
        "bucket_cache_bytes",
        "Bytes on the local disk of segments that only the bucket has.",
        lambda of: of.store.cache.size_bytes if of.store.cache else 0,
    ),
    (
        "replication_behind_bytes",
        "Durable bytes that the replicated log does not have yet; 0 without such a log.",
        lambda of: (
            of.log.flushed_offset - of.store.replication.confirmed_offset
            if of.store.replication
            else 0
        ),
    ),
    (
        "replication_degraded",
        "1 if messages for replicated topics are rejected because the replicated log is "
        "unavailable, else 0.",
        lambda of: int(of.store.replication_refusal is not None),
    ),
    (
        "storage_flush_behind_bytes",
        "Bytes appended but not yet durable.",
        lambda of: of.log.append_offset - of.log.flushed_offset,
    ),
    (
        "storage_dispatch_behind_bytes",
        "Bytes appended but not yet visible to consumers.",
        lambda of: of.log.append_offset - of.store.dispatcher.dispatched_offset,
    ),
    (
        "storage_index_behind_bytes",
        "Bytes appended but not yet in the key index.",
        lambda of: of.log.append_offset - of.store.indexer.indexed_offset,
    ),
    (
        "quarantined_records",
        "Damaged records found in the log.",
        lambda of: of.parts.quarantine.count,
    ),
    (
        "storage_size_bytes",
        "Total size of all segments.",
        lambda of: sum(segment.size_bytes for segment in of.segments),
    ),
    ("segments", "Segments of the commit log.", lambda of: len(of.segments)),
    ("consume_queues", "Queues of all topics.", lambda of: sum(1 for _ in of.parts.queues)),
    (
        "open_maps",
        "Consume queue files that are mapped into memory.",
        lambda of: of.parts.queues.pool.open_count,
    ),
    ("topics", "Topics.", lambda of: len(of.store.catalog.topics)),
    ("consumer_groups", "Consumer groups.", lambda of: len(of.store.catalog.groups)),
    (
        "broadcast_clients",
        "Clients of broadcast groups.",
        lambda of: of.consumption.clients.count,
    ),
    (
        "inflight_messages",
        "Messages that are leased.",
        lambda of: of.consumption.delivery.subscriptions.inflight_count,
    ),
    (
        "timing_messages",
        "Scheduled messages and retries that are not due yet.",
        lambda of: of.stats.scheduled_count,
    ),
    (
        "timing_messages_near",
        "Scheduled messages and retries held in memory because they are due soon.",
        lambda of: of.consumption.schedule.near_count,
    ),
    (
        "beat_degraded",
        "1 if nobody asks for due messages, so that the engine delivers them by itself, else 0.",
        lambda of: int("beat" in of.stats.degraded),
    ),
    ("parked_polls", "Receives waiting for a message.", lambda of: of.stats.parked_count),
    ("connections", "Open client connections.", lambda of: of.stats.connection_count),
    (
        "disk_total_bytes",
        "Size of the disk that holds the store.",
        lambda of: of.disk.f_frsize * of.disk.f_blocks,
    ),
    (
        "disk_free_bytes",
        "Disk space that the engine can still use.",
        lambda of: of.disk.f_frsize * of.disk.f_bavail,
    ),
    (
        "checkpoint_age_seconds",
        "Time since the last checkpoint; -1 if there is none.",
        _Read.checkpoint_age_seconds,
    ),
    (
        "retention_clock_behind_seconds",
        "How far the wall clock is ahead of the clock used for retention.",
        lambda of: of.store.retention.age.behind_ms() / SECOND_MS,
    ),
    ("writable", "1 if messages are accepted, else 0.", lambda of: int(of.stats.is_writable)),
    ("epoch", "Number of times this store was opened by an engine.", lambda of: of.stats.epoch),
    (
        "uptime_seconds",
        "Time since the engine started.",
        lambda of: of.stats.uptime_ms / SECOND_MS,
    ),
]


class _OfShard(Collector):
    """Metrics with the label that says whose they are."""

    def __init__(self, shard: str, metrics: Iterable[Metric]) -> None:
        self._shard = shard
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        for found in self._metrics:
            labelled = Metric(found.name, found.documentation, found.type)
            labelled.samples = [
                each._replace(labels={SHARD_LABEL: self._shard, **each.labels})
                for each in found.samples
            ]
            yield labelled


def _metrics_of(of: _Read) -> Iterator[Metric]:
    for name, help_, value in _COUNTERS:
        yield CounterMetricFamily(PREFIX + name, help_, value(of))
    for name, help_, value in _GAUGES:
        yield GaugeMetricFamily(PREFIX + name, help_, value(of))
    times = of.store.durability.sync_times
    yield from times.seconds.collect()
    yield from times.bytes.collect()
    yield _BUILD


def metrics_text(store: Store, stats: StatsReply) -> bytes:
    """The text exposition of an engine that serves its shard."""
    return generate_latest(_OfShard(store.config.shard, _metrics_of(_Read(store, stats))))


def replica_metrics_text(shard: str, status: RoleStatus) -> bytes:
    """The same of a replica, which has no store to measure."""
    behind_s = status.behind_ms / SECOND_MS if status.behind_ms >= 0 else -1
    metrics = [
        GaugeMetricFamily(PREFIX + _OWNS_SHARD[0], _OWNS_SHARD[1], 0),
        GaugeMetricFamily(
            PREFIX + "replica_behind_seconds",
            "Time since this replica was last at the end of the replicated log; -1 if never.",
            behind_s,
        ),
        _BUILD,
    ]
    return generate_latest(_OfShard(shard, metrics))


def _build() -> Metric:
    try:
        ours = version("mqservice")
    except PackageNotFoundError:  # run from a tree that is not installed
        ours = "unknown"
    labels = {"version": ours, "format_version": str(FORMAT_VERSION)}
    help_ = "Always 1; the labels identify the engine."
    family = GaugeMetricFamily(PREFIX + "build_info", help_, labels=list(labels))
    family.add_metric(list(labels.values()), 1)
    return family


_BUILD: Final = _build()
# Times that nobody asks for.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types here
