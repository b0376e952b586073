"""What the engine tells Prometheus, read from its parts at the moment it is asked.

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
from storage_engine.engine_stats import Watched
from storage_engine.layout import CHECKPOINT_FILE
from storage_engine.metrics import COUNTER, GAUGE, Family, histogram, label, single
from storage_engine.recovery.checkpoint import FORMAT_VERSION
from storage_engine.wire.protocol import StatsReply

PREFIX: Final = "mq_engine_"


def collect(config: StoreConfig, clock: Clock, watched: Watched, stats: StatsReply) -> list[Family]:
    """Every metric of the engine, now."""
    log, durability = watched.commit_log, watched.durability
    disk = os.statvfs(config.store_path)
    segments = log.segments()
    counters = {
        "messages_in_total": ("Messages put.", stats.put_count),
        "messages_in_bytes_total": ("Bytes of the records put.", stats.put_bytes),
        "messages_out_total": (
            "Messages leased to members, redeliveries too.",
            stats.delivered_count,
        ),
        "messages_acked_total": ("Messages acknowledged.", stats.acked_count),
        "messages_skipped_total": (
            "Messages that a group's filter passed over.",
            watched.delivery.looking.skipped_count,
        ),
        "scheduled_delivered_total": (
            "Scheduled messages and retries delivered to their topics.",
            stats.scheduled_delivered_count,
        ),
        "scheduled_undeliverable_total": (
            "Scheduled messages that had nowhere to go when they were due.",
            watched.schedule.undeliverable_count,
        ),
        "broadcast_dropped_total": (
            "Messages that clients of broadcast groups could not consume.",
            watched.clients.dropped_count,
        ),
        "deleted_segments_total": (
            "Segments deleted by retention.",
            watched.retention.deleted_segment_count,
        ),
        "repairs_total": (
            "Times segments were written anew after a sync that failed.",
            durability.repair_count,
        ),
    }
    gauges = {
        "append_offset_bytes": ("Where the next record goes in the commit log.", log.append_offset),
        "flushed_offset_bytes": ("The commit log is durable below.", log.flushed_offset),
        "start_offset_bytes": ("The oldest byte of the commit log.", log.start_offset),
        "storage_flush_behind_bytes": (
            "Appended and not yet durable.",
            log.append_offset - log.flushed_offset,
        ),
        "storage_dispatch_behind_bytes": (
            "Appended and not yet visible to consumers.",
            log.append_offset - watched.dispatcher.dispatched_offset,
        ),
        "storage_index_behind_bytes": (
            "Appended and not yet found by key.",
            log.append_offset - watched.indexer.indexed_offset,
        ),
        "quarantined_records": ("Damaged places of the log.", watched.quarantine.count),
        "storage_size_bytes": (
            "Bytes of all segments.",
            sum(segment.size_bytes for segment in segments),
        ),
        "segments": ("Segments of the commit log.", len(segments)),
        "consume_queues": ("Queues of all topics.", sum(1 for _ in watched.queues)),
        "open_maps": ("Files of consume queues that are mapped.", watched.queues.pool.open_count),
        "topics": ("Topics.", len(watched.catalog.topics)),
        "consumer_groups": ("Consumer groups.", len(watched.catalog.groups)),
        "broadcast_clients": ("Clients of broadcast groups.", watched.clients.count),
        "inflight_messages": ("Messages under a lease.", watched.delivery.inflight_count),
        "timing_messages": (
            "Scheduled messages and retries that are still to come.",
            stats.scheduled_count,
        ),
        "timing_messages_near": (
            "Those of them held in memory because they are due soon.",
            watched.schedule.near_count,
        ),
        "beat_degraded": (
            "1 while nobody asks for what is due, so that the engine delivers by itself.",
            int("beat" in stats.degraded),
        ),
        "parked_polls": ("Receives that wait for a message.", stats.parked_count),
        "connections": ("Open connections of clients.", stats.connection_count),
        "disk_total_bytes": ("Size of the store's disk.", disk.f_frsize * disk.f_blocks),
        "disk_free_bytes": ("What is free of it for the engine.", disk.f_frsize * disk.f_bavail),
        "checkpoint_age_seconds": (
            "Since the last checkpoint; -1 when there is none.",
            _checkpoint_age_seconds(config, clock),
        ),
        "retention_clock_behind_seconds": (
            "How far the wall clock is ahead of the time by which messages grow old.",
            watched.retention.age.behind_ms() / SECOND_MS,
        ),
        "writable": ("1 while puts are accepted, else 0.", int(stats.is_writable)),
        "epoch": ("Which run of the engine on this store.", stats.epoch),
        "uptime_seconds": ("Since this run began.", stats.uptime_ms / SECOND_MS),
    }
    families = [single(PREFIX + name, COUNTER, *each) for name, each in counters.items()]
    families += [single(PREFIX + name, GAUGE, *each) for name, each in gauges.items()]
    families += [
        histogram(PREFIX + "sync_seconds", "How long a sync took.", durability.sync_times.seconds),
        histogram(
            PREFIX + "sync_bytes", "Bytes made durable by a sync.", durability.sync_times.bytes
        ),
        Family(PREFIX + "build_info", GAUGE, "Always 1; the labels say which engine.", [_BUILD]),
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
