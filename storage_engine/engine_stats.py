"""The counters of a store, for the STATS request and for metrics."""

from __future__ import annotations

import os
from typing import NamedTuple

from storage_engine.catalog.catalog import Catalog
from storage_engine.delivery.broadcast_clients import BroadcastClients
from storage_engine.delivery.delivery import Delivery
from storage_engine.errors import StoreError
from storage_engine.index.indexer import Indexer
from storage_engine.log.commit_log import CommitLog
from storage_engine.log.durability import Durability
from storage_engine.log.quarantine import Quarantine
from storage_engine.puts.dispatcher import Dispatcher
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.retention.retention import Retention
from storage_engine.schedule.schedule import Schedule
from storage_engine.wire.protocol import StatsReply


class Watched(NamedTuple):
    """The parts of a store whose numbers are shown; they are only read."""

    commit_log: CommitLog
    dispatcher: Dispatcher
    queues: ConsumeQueues
    delivery: Delivery
    schedule: Schedule
    durability: Durability
    indexer: Indexer
    quarantine: Quarantine
    retention: Retention
    catalog: Catalog
    clients: BroadcastClients
    refusal: StoreError | None  # why puts are refused


def stats_of(
    broker: str,
    epoch: int,
    uptime_ms: int,
    puts: tuple[int, int],
    connection_count: int,
    watched: Watched,
) -> StatsReply:
    """Counters since the engine started; ``puts`` are messages and their bytes."""
    log, delivery, schedule = watched.commit_log, watched.delivery, watched.schedule
    return StatsReply(
        broker=broker,
        epoch=epoch,
        pid=os.getpid(),
        uptime_ms=uptime_ms,
        put_count=puts[0],
        put_bytes=puts[1],
        delivered_count=delivery.delivered_count,
        acked_count=delivery.acked_count,
        sync_count=watched.durability.sync_count,
        append_offset=log.append_offset,
        flushed_offset=log.flushed_offset,
        indexed_offset=watched.indexer.indexed_offset,
        segment_count=len(log.segments()),
        parked_count=delivery.waiting_receives.count,
        connection_count=connection_count,
        is_writable=watched.refusal is None,
        scheduled_count=schedule.pending_count,
        scheduled_delivered_count=schedule.delivered_count,
        degraded=["beat"] if schedule.is_degraded else [],
        quarantined_count=watched.quarantine.count,
    )
