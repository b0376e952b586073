"""The engine's Prometheus metrics, read from its parts at the time of the scrape.

    Store.stats, Store.watched, the disk ──▶ [collect] ──▶ families ──▶ metrics.render

Names follow RocketMQ's where it has the metric (``messages_in_total``,
``storage_flush_behind_bytes``), with ``mq_engine_`` before them and the unit at the end. The table
for people is in docs/operations.md; a test keeps the two alike. Loop thread only; costs one look at
the disk and one at every queue.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from storage_engine.clock import Clock
from storage_engine.config import SECOND_MS, StoreConfig
from storage_engine.disk.layout import CHECKPOINT_FILE
from storage_engine.engine_stats import Watched
from storage_engine.log.checkpoint import FORMAT_VERSION
from storage_engine.metrics import COUNTER, GAUGE, Family, histogram, label, single
from storage_engine.wire.protocol import StatsReply

PREFIX: Final = "mq_engine_"


def collect(config: StoreConfig, clock: Clock, watched: Watched, stats: StatsReply) -> list[Family]:
    """Every metric of the engine, now."""
    log, durability = watched.commit_log, watched.durability
    disk = os.statvfs(config.store_path)
    segments = log.segments()
    counters = {
        "messages_in_total": ("Messages stored.", stats.put_count),
        "messages_in_bytes_total": ("Bytes of the records stored.", stats.put_bytes),
        "messages_out_total": (
            "Messages leased to members, including redeliveries.",
            stats.delivered_count,
        ),
        "messages_acked_total": ("Messages acknowledged.", stats.acked_count),
        "messages_skipped_total": (
            "Messages skipped by a group's filter.",
            watched.delivery.filter_scans.skipped_count,
        ),
        "scheduled_delivered_total": (
            "Scheduled messages and retries delivered to their topics.",
            stats.scheduled_delivered_count,
        ),
        "scheduled_undeliverable_total": (
            "Scheduled messages that could not be delivered when they were due.",
            watched.schedule.undeliverable_count,
        ),
        "broadcast_dropped_total": (
            ("Messages dropped because a client of a broadcast group failed to consume them."),
            watched.clients.dropped_count,
        ),
        "deleted_segments_total": (
            "Expired segments deleted from the log.",
            watched.retention.deleted_segment_count,
        ),
        "repairs_total": (
            "Times the log's segments were rewritten after a failed sync.",
            durability.repair_count,
        ),
    }
    gauges = {
        "append_offset_bytes": (
            "Physical offset at which the next record is written.",
            log.append_offset,
        ),
        "flushed_offset_bytes": (
            "Physical offset below which the commit log is durable.",
            log.flushed_offset,
        ),
        "start_offset_bytes": (
            "Physical offset of the oldest byte in the commit log.",
            log.start_offset,
        ),
        "storage_flush_behind_bytes": (
            "Bytes appended but not yet durable.",
            log.append_offset - log.flushed_offset,
        ),
        "storage_dispatch_behind_bytes": (
            "Bytes appended but not yet visible to consumers.",
            log.append_offset - watched.dispatcher.dispatched_offset,
        ),
        "storage_index_behind_bytes": (
            "Bytes appended but not yet in the key index.",
            log.append_offset - watched.indexer.indexed_offset,
        ),
        "quarantined_records": ("Damaged records found in the log.", watched.quarantine.count),
        "storage_size_bytes": (
            "Total size of all segments.",
            sum(segment.size_bytes for segment in segments),
        ),
        "segments": ("Segments of the commit log.", len(segments)),
        "consume_queues": ("Queues of all topics.", sum(1 for _ in watched.queues)),
        "open_maps": (
            "Consume queue files that are mapped into memory.",
            watched.queues.pool.open_count,
        ),
        "topics": ("Topics.", len(watched.catalog.topics)),
        "consumer_groups": ("Consumer groups.", len(watched.catalog.groups)),
        "broadcast_clients": ("Clients of broadcast groups.", watched.clients.count),
        "inflight_messages": ("Messages that are leased.", watched.delivery.inflight_count),
        "timing_messages": (
            "Scheduled messages and retries that are not due yet.",
            stats.scheduled_count,
        ),
        "timing_messages_near": (
            "Scheduled messages and retries held in memory because they are due soon.",
            watched.schedule.near_count,
        ),
        "beat_degraded": (
            (
                "1 if nobody asks for due messages, so that the engine delivers them by "
                "itself, else 0."
            ),
            int("beat" in stats.degraded),
        ),
        "parked_polls": ("Receives waiting for a message.", stats.parked_count),
        "connections": ("Open client connections.", stats.connection_count),
        "disk_total_bytes": (
            "Size of the disk that holds the store.",
            disk.f_frsize * disk.f_blocks,
        ),
        "disk_free_bytes": (
            "Disk space that the engine can still use.",
            disk.f_frsize * disk.f_bavail,
        ),
        "checkpoint_age_seconds": (
            "Time since the last checkpoint; -1 if there is none.",
            _checkpoint_age_seconds(config, clock),
        ),
        "retention_clock_behind_seconds": (
            "How far the wall clock is ahead of the clock used for retention.",
            watched.retention.age.behind_ms() / SECOND_MS,
        ),
        "writable": ("1 if messages are accepted, else 0.", int(stats.is_writable)),
        "epoch": ("Number of times this store was opened by an engine.", stats.epoch),
        "uptime_seconds": ("Time since the engine started.", stats.uptime_ms / SECOND_MS),
    }
    families = [single(PREFIX + name, COUNTER, *each) for name, each in counters.items()]
    families += [single(PREFIX + name, GAUGE, *each) for name, each in gauges.items()]
    families += [
        histogram(PREFIX + "sync_seconds", "Duration of a sync.", durability.sync_times.seconds),
        histogram(
            PREFIX + "sync_bytes", "Bytes made durable by a sync.", durability.sync_times.bytes
        ),
        Family(PREFIX + "build_info", GAUGE, "Always 1; the labels identify the engine.", [_BUILD]),
    ]
    return families


def _checkpoint_age_seconds(config: StoreConfig, clock: Clock) -> float:
    try:
        written_ns = (config.store_path / CHECKPOINT_FILE).stat().st_mtime_ns
    except FileNotFoundError:
        return -1
    return max(clock.now_ms() - written_ns // 1_000_000, 0) / SECOND_MS


def _build() -> tuple[str, float]:
    try:
        ours = version("mqservice")
    except PackageNotFoundError:  # run from a tree that is not installed
        ours = "unknown"
    labels = label("version", ours), label("format_version", str(FORMAT_VERSION))
    return f"{{{','.join(labels)}}}", 1


_BUILD: Final = _build()
