"""Celery tasks for measuring and cleaning up. Each may run twice, or not at all for a while."""

from __future__ import annotations

import logging

from mqservice.celery import app
from mqservice.lib.clock import SystemClock
from mqservice.sampling.offsets import delete_old_offsets, persist_offsets, save_offset_step
from mqservice.sampling.progress_marks import delete_old_marks
from mqservice.sampling.rollup import delete_old_samples, roll_up
from mqservice.sampling.samples import take_samples
from mqservice.shards.sweeps import each_shard
from mqservice.store import StoreClient

log = logging.getLogger(__name__)


@app.task(name="sampling.persist_offsets", soft_time_limit=25, time_limit=30)
def persist() -> None:
    """Take over the consumer offsets that have changed."""
    each_shard(
        _persist,
        action="offset_copy_skipped",
        failure="Could not copy consumer offsets to the database: the storage engine is not "
        "responding",
    )


def _persist(client: StoreClient) -> None:
    persisted = persist_offsets(client, SystemClock().now_ms())
    if not persisted.is_complete:
        log.warning(
            "Consumer offsets change faster than they can be copied to the database",
            extra={"action": "offset_copy_behind", "count": persisted.row_count},
        )


@app.task(name="sampling.take_samples", soft_time_limit=25, time_limit=30)
def sample() -> None:
    """Measure all groups, topics and the store."""
    each_shard(
        lambda client: take_samples(client, SystemClock().now_ms()),
        action="sampling_skipped",
        failure="Could not sample topics and groups: the storage engine is not responding",
    )


@app.task(name="sampling.roll_up", soft_time_limit=40, time_limit=50)
def roll_samples_up() -> None:
    """Make coarser samples of finer ones."""
    roll_up(SystemClock().now_ms())


@app.task(name="sampling.save_offset_step", soft_time_limit=40, time_limit=50)
def keep_offset_step() -> None:
    """Keep a step of the history of consumer offsets."""
    save_offset_step(SystemClock().now_ms())


@app.task(name="sampling.clean_up", soft_time_limit=40, time_limit=50)
def clean_up() -> None:
    """Drop what is older than it is kept."""
    now_ms = SystemClock().now_ms()
    delete_old_samples(now_ms)
    delete_old_offsets(now_ms)
    delete_old_marks(now_ms)
