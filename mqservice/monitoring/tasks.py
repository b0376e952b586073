"""Periodic work around the engine. Each task is idempotent and bounded in time."""

from __future__ import annotations

from mqservice.celery import app
from mqservice.monitoring.heartbeats import record_heartbeat
from mqservice.monitoring.lost_changes import restore_all
from mqservice.monitoring.sampling import record_engine_sample
from mqservice.monitoring.ticks import tick_engine
from mqservice.shards.sweeps import each_shard


@app.task(name="monitoring.tick", soft_time_limit=5, time_limit=10)
def tick() -> None:
    """Let the engine deliver what is due. It does so by itself when no tick comes for long."""
    each_shard(tick_engine, action="tick_failed", failure="Could not send a tick to the engine")


@app.task(name="monitoring.checkpoint_engine", soft_time_limit=15, time_limit=20)
def checkpoint_engine() -> None:
    """Ask the engine to write its watermarks and offsets down. It does so by itself as well."""
    each_shard(
        lambda client: client.checkpoint(),
        action="checkpoint_failed",
        failure="Could not have the engine write a checkpoint",
    )


@app.task(name="monitoring.record_heartbeat", soft_time_limit=10, time_limit=15)
def record_worker_heartbeat() -> None:
    """Shows that beat sends and a worker runs."""
    record_heartbeat("worker")


@app.task(name="monitoring.record_sample", soft_time_limit=15, time_limit=20)
def record_sample() -> None:
    """Keep the engine's counters for the console."""
    record_engine_sample()


@app.task(name="monitoring.restore_lost_changes", soft_time_limit=25, time_limit=30)
def restore_lost_changes() -> None:
    """Let engines that have taken shards over know what the machines before took with them."""
    restore_all()
