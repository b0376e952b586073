"""A dictionary with a bounded number of bytes, for keys whose length callers choose.

    put(key, value, size) ──▶ too long: not kept ── full: the oldest leave ──▶ kept
    get(key) ──────────────▶ one dict hit, for the hot path

Invariants: the sizes of all entries together are at most ``bytes_max``, and that of each at most
``entry_bytes_max``. An entry's place is the moment it was put, not when it was last used: with
room for far more than is in use, moving entries at each hit is not worth its cost.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# What the dictionary, the key's and the value's objects take besides their content.
ENTRY_OVERHEAD_BYTES: Final = 256


class BoundedCache(Generic[K, V]):
    """See the module's docstring. One thread uses it."""

    def __init__(self, *, bytes_max: int, entry_bytes_max: int) -> None:
        """``entry_bytes_max``: without the overhead of an entry, which is counted beside it."""
        assert 0 < entry_bytes_max + ENTRY_OVERHEAD_BYTES <= bytes_max
        self._bytes_max = bytes_max
        self._entry_bytes_max = entry_bytes_max
        self._values: dict[K, V] = {}
        self._sizes: dict[K, int] = {}
        self.total_bytes = 0
        self.get: Callable[[K], V | None] = self._values.get

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: K, value: V, size_bytes: int) -> bool:
        """Keep ``value``, whose content has ``size_bytes`` with its key's. False: too long."""
        if size_bytes > self._entry_bytes_max:
            return False
        self.drop(key)
        counted_bytes = size_bytes + ENTRY_OVERHEAD_BYTES
        while self.total_bytes + counted_bytes > self._bytes_max:
            self.drop(next(iter(self._values)))
        self._values[key] = value
        self._sizes[key] = counted_bytes
        self.total_bytes += counted_bytes
        return True

    def drop(self, key: K) -> None:
        """Forget ``key`` if it is known."""
        if key in self._values:
            del self._values[key]
            self.total_bytes -= self._sizes.pop(key)

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()
        self._sizes.clear()
        self.total_bytes = 0
