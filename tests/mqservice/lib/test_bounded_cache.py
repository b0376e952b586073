"""What callers choose the length of takes a bounded number of bytes."""

from __future__ import annotations

import random

from mqservice.lib.bounded_cache import ENTRY_OVERHEAD_BYTES, BoundedCache

_ENTRY = ENTRY_OVERHEAD_BYTES + 10


def test_oldest_entries_leave_when_the_bytes_are_used_up() -> None:
    cache = BoundedCache[str, int](bytes_max=3 * _ENTRY, entry_bytes_max=10)
    for n in range(5):
        assert cache.put(f"k{n}", n, 10)
    assert [cache.get(f"k{n}") for n in range(5)] == [None, None, 2, 3, 4]
    assert cache.total_bytes == 3 * _ENTRY


def test_an_entry_that_is_too_long_is_not_kept_and_pushes_nothing_out() -> None:
    cache = BoundedCache[str, int](bytes_max=3 * _ENTRY, entry_bytes_max=10)
    cache.put("short", 1, 10)
    assert not cache.put("long", 2, 11)
    assert (cache.get("short"), cache.get("long")) == (1, None)


def test_an_entry_that_is_put_again_is_counted_once() -> None:
    cache = BoundedCache[str, int](bytes_max=2 * _ENTRY, entry_bytes_max=10)
    cache.put("first", 1, 10)
    cache.put("other", 2, 10)
    cache.put("first", 3, 4)
    assert (cache.get("first"), cache.get("other")) == (3, 2)
    assert cache.total_bytes == 2 * _ENTRY - 6


def test_total_is_that_of_the_entries_whatever_is_done() -> None:
    dice = random.Random(18)
    cache = BoundedCache[int, int](bytes_max=4_000, entry_bytes_max=1_000)
    sizes: dict[int, int] = {}
    for _ in range(2_000):
        key, size = dice.randrange(30), dice.randrange(1_200)
        if dice.random() < 0.2:
            cache.drop(key)
        elif cache.put(key, size, size):
            sizes[key] = size
        kept = [key for key in range(30) if cache.get(key) is not None]
        assert len(kept) == len(cache)
        assert cache.total_bytes == sum(sizes[key] + ENTRY_OVERHEAD_BYTES for key in kept) <= 4_000
    cache.clear()
    assert (len(cache), cache.total_bytes) == (0, 0)
