"""The state of the engine for samplers: its disk, and which groups have members.

    sampler ── OBSERVE ──▶ [observe] ── one look at the disk, one at every group ──▶ reply

Loop thread only.
"""

from __future__ import annotations

import os

from storage_engine.config import StoreConfig
from storage_engine.disk.disk_space import DiskSpace
from storage_engine.engine_stats import Watched
from storage_engine.wire.observers import ObserveReply


def observe(config: StoreConfig, disk: DiskSpace, watched: Watched, epoch: int) -> ObserveReply:
    """All of the reply, now. Raises ``OSError`` where the disk is gone."""
    usage = os.statvfs(config.store_path)
    return ObserveReply(
        broker=config.broker,
        epoch=epoch,
        disk_total_bytes=usage.f_frsize * usage.f_blocks,
        disk_free_bytes=usage.f_frsize * usage.f_bavail,
        disk_state=disk.state.name.lower(),
        is_writable=watched.refusal is None,
        lost_message_count=watched.retention.lost_message_count,
        member_counts=watched.delivery.member_counts(),
    )
