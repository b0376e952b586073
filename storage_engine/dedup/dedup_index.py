"""Which requests have already stored their message, and where; within the configured window.

    once_puts ── add, find ──▶ [DedupIndex] ◀── recovery, dedup_files

Entries lie in slices of an eighth of the window; a slice is dropped whole, so that forgetting costs
nothing. They are packed: some 250 bytes each. Nothing is forgotten before its time: when there is
no room, new requests with a key are refused. Times are of the monotonic clock. Loop thread only.
"""

from __future__ import annotations

import struct
from collections import Counter, deque
from typing import Final, NamedTuple

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.errors import StoreBusy
from storage_engine.records.dedup_mark import FINGERPRINT_BYTES, KEY_HASH_BYTES

_SLICES: Final = 8
_NAMESPACE_SHARE: Final = 4  # no namespace has more than one part in so many
_PLACE = struct.Struct(f">{FINGERPRINT_BYTES}sqi?qq8s")
NAMESPACE_HASH_BYTES: Final = 8
PLACE_BYTES: Final = _PLACE.size  # less the id of the message, which follows


class Stored(NamedTuple):
    """The message that a request has stored. ``queue_id`` is what its sender was told;
    ``queue_offset`` is in the schedule when it ``is_waiting``.
    """

    fingerprint: bytes
    physical_offset: int
    queue_id: int
    is_waiting: bool
    queue_offset: int
    store_timestamp_ms: int
    namespace_hash: bytes
    message_id: bytes


class _Slice:
    __slots__ = ("counts", "end_ms", "entries")

    def __init__(self, end_ms: int) -> None:
        self.end_ms = end_ms
        self.entries: dict[bytes, bytes] = {}
        self.counts: Counter[bytes] = Counter()  # by namespace


class DedupIndex:
    """See the module's docstring."""

    def __init__(self, config: StoreConfig, clock: Clock) -> None:
        self._window_ms = config.dedup_window_ms
        self._slice_ms = max(1, config.dedup_window_ms // _SLICES)
        self._count_max = config.dedup_count_max
        self._clock = clock
        self._slices: deque[_Slice] = deque()  # the oldest first

    def __len__(self) -> int:
        return sum(len(part.entries) for part in self._slices)

    def find(self, key_hash: bytes) -> Stored | None:
        """What was stored under the key within the window, or a little before."""
        self._drop_old()
        for part in reversed(self._slices):
            packed = part.entries.get(key_hash)
            if packed is not None:
                return unpack(packed)
        return None

    def require_room(self, namespace_hash: bytes, count: int) -> None:
        """Raises ``StoreBusy`` when so many keys of the namespace cannot be remembered."""
        self._drop_old()
        total = len(self) + count
        own = count + sum(part.counts[namespace_hash] for part in self._slices)
        if total > self._count_max or own > max(1, self._count_max // _NAMESPACE_SHARE):
            raise StoreBusy(
                f"{len(self)} request keys are remembered for {self._window_ms} ms "
                f"each; the limit is {self._count_max}, of which one namespace may "
                "use a quarter; try again later"
            )

    def add(self, key_hash: bytes, stored: Stored, age_ms: int = 0) -> bool:
        """Remember a message that was stored so long ago; False when that is too long, or an older
        one with this key is known, which then stays what it is.
        """
        if age_ms >= self._window_ms or self.find(key_hash) is not None:
            return False
        part = self._slice_of(self._clock.monotonic_ms() - age_ms)
        part.entries[key_hash] = pack(stored)
        part.counts[stored.namespace_hash] += 1
        return True

    def _slice_of(self, at_ms: int) -> _Slice:
        """The slice for what was stored at ``at_ms``: one that ends later."""
        for part in self._slices:
            if at_ms < part.end_ms:
                return part
        part = _Slice(at_ms + self._slice_ms)
        self._slices.append(part)
        return part

    def _drop_old(self) -> None:
        now_ms = self._clock.monotonic_ms()
        while self._slices and self._slices[0].end_ms + self._window_ms <= now_ms:
            self._slices.popleft()


def pack(stored: Stored) -> bytes:
    return _PLACE.pack(*stored[:-1]) + stored.message_id


def unpack(packed: bytes) -> Stored:
    return Stored._make((*_PLACE.unpack_from(packed), packed[_PLACE.size :]))


assert KEY_HASH_BYTES == FINGERPRINT_BYTES
