"""The requests of observers, by opcode; each handler states what it costs the loop.

server ── OFFSETS_CHANGED ──▶ offset_feed          server ── OBSERVE ──▶ observation
server ── USE ──▶ namespace_usage
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from storage_engine.clock import measured_ns
from storage_engine.groups.offset_feed import OffsetFeed
from storage_engine.schedule.pending_bytes import PendingBytes
from storage_engine.server.engine_status import observe
from storage_engine.server.namespace_usage import NamespaceUsageCounter, namespace_of
from storage_engine.store import Store
from storage_engine.wire.observers import OffsetsChangedRequest
from storage_engine.wire.protocol import Op
from storage_engine.wire.struct import Wire
from storage_engine.wire.usage import UsageRequest


def status_calls(store: Store) -> dict[int, Callable[[Wire], Wire]]:
    """What answers each of them, for all connections of a store that is open."""
    feed = OffsetFeed(store.consumption.delivery, store.epoch)
    watched = store.watched()
    pending = PendingBytes(
        watched.commit_log,
        watched.schedule.sources,
        lambda topic: namespace_of(topic.decode(errors="replace")),
    )
    uses = NamespaceUsageCounter(watched.queues, watched.delivery, measured_ns, pending=pending)
    return {
        Op.OFFSETS_CHANGED: lambda request: feed.changed(cast("OffsetsChangedRequest", request)),
        Op.OBSERVE: lambda request: observe(store.config, store.disk, store.watched(), store.epoch),
        Op.USE: lambda request: uses.usage(cast("UsageRequest", request)),
    }
