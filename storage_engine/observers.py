"""The requests of observers, by opcode; what they cost the loop is written where they are answered.

server ── OFFSETS_CHANGED ──▶ offset_feed          server ── OBSERVE ──▶ observation
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from storage_engine.observation import observe
from storage_engine.offset_feed import OffsetFeed
from storage_engine.store import Store
from storage_engine.wire.observing import OffsetsChangedRequest
from storage_engine.wire.protocol import Op
from storage_engine.wire.struct import Wire


def observers(store: Store) -> dict[int, Callable[[Wire], Wire]]:
    """What answers each of them, for all connections of a store that is open."""
    feed = OffsetFeed(store.consumption.delivery, store.epoch)
    return {
        Op.OFFSETS_CHANGED: lambda request: feed.changed(cast("OffsetsChangedRequest", request)),
        Op.OBSERVE: lambda request: observe(store.config, store.disk, store.watched(), store.epoch),
    }
