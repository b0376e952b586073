"""The state of the engine for samplers: its disk, and which groups have members.

    sampler ── OBSERVE ──▶ [observe] ── one look at the disk, one at every group ──▶ reply

Loop thread only.
"""

from __future__ import annotations

import os

from storage_engine.store import Store
from storage_engine.wire.observers import ObserveReply


def observe(store: Store) -> ObserveReply:
    """All of the reply, now. Raises ``OSError`` where the disk is gone."""
    config = store.config
    usage = os.statvfs(config.store_path)
    now_ms = store.parts.clock.monotonic_ms()
    return ObserveReply(
        broker=config.broker,
        epoch=store.epoch,
        disk_total_bytes=usage.f_frsize * usage.f_blocks,
        disk_free_bytes=usage.f_frsize * usage.f_bavail,
        disk_state=store.disk.state.name.lower(),
        is_writable=store.refusal is None,
        lost_message_count=store.retention.lost_message_count,
        member_counts=store.consumption.delivery.subscriptions.member_counts(now_ms),
    )
