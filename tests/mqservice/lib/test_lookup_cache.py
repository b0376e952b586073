"""The cache of look-ups: freshness, absence, bounds, outages, races."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mqservice.lib.lookup_cache import CacheLimits, LookupCache, LookupUnavailable
from tests.clock import ManualClock

LIMITS = CacheLimits(
    fresh_ms=100,
    stale_ms_max=1_000,
    absent_ms=10,
    find_ms_max=60_000,
    backoff_ms=50,
    entries_max=3,
    absent_max=2,
)


class Source:
    """The truth behind the cache; counts the questions."""

    def __init__(self, **values: str) -> None:
        self.values = values
        self.is_away = False
        self.asked: list[str] = []
        self.gate: asyncio.Event | None = None
        self.was_asked = asyncio.Event()

    async def find(self, key: str) -> str | None:
        self.asked.append(key)
        self.was_asked.set()
        answer = self.values.get(key)
        if self.gate is not None:
            await self.gate.wait()
        if self.is_away:
            raise LookupUnavailable("away")
        return answer


def cache_of(
    source: Source, clock: ManualClock, limits: CacheLimits = LIMITS
) -> LookupCache[str, str]:
    return LookupCache(source.find, limits=limits, clock=clock)


async def test_value_is_asked_for_once_while_fresh() -> None:
    source, clock = Source(a="1"), ManualClock()
    cache = cache_of(source, clock)
    assert cache.get("a") is None
    assert await cache.load("a") == "1"
    clock.advance(99)
    assert cache.get("a") == "1"
    assert source.asked == ["a"]


async def test_value_is_asked_for_again_after_its_time() -> None:
    source, clock = Source(a="1"), ManualClock()
    cache = cache_of(source, clock)
    await cache.load("a")
    source.values["a"] = "2"
    clock.advance(100)
    assert cache.get("a") is None
    assert await cache.load("a") == "2"


async def test_absence_is_remembered_shortly_and_within_bounds() -> None:
    source, clock = Source(), ManualClock()
    cache = cache_of(source, clock)
    assert await cache.load("a") is None
    assert await cache.load("a") is None
    assert source.asked == ["a"]
    clock.advance(10)
    assert await cache.load("a") is None
    assert source.asked == ["a", "a"]
    for key in "bcd":
        await cache.load(key)
    await cache.load("a")  # pushed out by the two that came later
    assert source.asked[-1] == "a"


async def test_oldest_entry_leaves_when_the_cache_is_full() -> None:
    source, clock = Source(a="1", b="2", c="3", d="4"), ManualClock()
    cache = cache_of(source, clock)
    for key in "abcd":
        await cache.load(key)
    assert len(cache) == 3
    assert cache.get("a") is None
    assert cache.get("d") == "4"


async def test_stale_value_serves_while_the_source_is_away_up_to_its_limit() -> None:
    source, clock = Source(a="1"), ManualClock()
    cache = cache_of(source, clock)
    await cache.load("a")
    source.is_away = True
    clock.advance(999)
    assert await cache.load("a") == "1"
    clock.advance(1)
    with pytest.raises(LookupUnavailable):
        await cache.load("a")


async def test_source_that_is_unavailable_is_not_asked_at_each_request() -> None:
    source, clock = Source(a="1"), ManualClock()
    cache = cache_of(source, clock)
    source.is_away = True
    for _ in range(5):
        with pytest.raises(LookupUnavailable):
            await cache.load("a")
    assert source.asked == ["a"]
    source.is_away = False
    clock.advance(50)
    assert await cache.load("a") == "1"


async def test_source_that_hangs_counts_as_away() -> None:
    source, clock = Source(a="1"), ManualClock()
    cache = cache_of(source, clock, replace(LIMITS, find_ms_max=20))
    await cache.load("a")
    source.gate = asyncio.Event()
    clock.advance(100)
    assert await cache.load("a") == "1"  # after find_ms_max
    with pytest.raises(LookupUnavailable):
        await cache.load("b")
    # Once it is known to hang, nobody waits for it who can be served
    clock.advance(100)
    async with asyncio.timeout(0):
        assert await cache.load("a") == "1"
    source.gate.set()


async def test_source_that_comes_back_is_noticed_behind_the_stale_value() -> None:
    source, clock = Source(a="old"), ManualClock()
    cache = cache_of(source, clock)
    await cache.load("a")
    source.is_away = True
    clock.advance(100)
    assert await cache.load("a") == "old"
    source.is_away = False
    source.values["a"] = "new"
    clock.advance(50)
    assert await cache.load("a") == "old"
    for _ in range(5):
        await asyncio.sleep(0)
    assert cache.get("a") == "new"


async def test_those_who_wait_share_one_question() -> None:
    source = Source(a="1")
    source.gate = asyncio.Event()
    cache = cache_of(source, ManualClock())
    waiting = [asyncio.ensure_future(cache.load("a")) for _ in range(20)]
    await asyncio.sleep(0)
    source.gate.set()
    assert await asyncio.gather(*waiting) == ["1"] * 20
    assert source.asked == ["a"]


async def test_one_who_gives_up_does_not_take_the_answer_from_the_others() -> None:
    source = Source(a="1")
    source.gate = asyncio.Event()
    cache = cache_of(source, ManualClock())
    first, second = (asyncio.ensure_future(cache.load("a")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    source.gate.set()
    assert await second == "1"


async def test_answer_from_before_a_drop_is_not_kept() -> None:
    source = Source(a="old")
    source.gate = asyncio.Event()
    cache = cache_of(source, ManualClock())
    waiting = asyncio.ensure_future(cache.load("a"))
    await source.was_asked.wait()
    source.values["a"] = "new"
    cache.drop("a")
    source.gate.set()
    assert await waiting == "new"
    assert cache.get("a") == "new"


async def test_drop_where_forgets_the_affected_values_and_all_absences() -> None:
    source, clock = Source(a="1", b="2"), ManualClock()
    cache = cache_of(source, clock)
    for key in "abz":
        await cache.load(key)
    cache.drop_where(lambda value: value == "1")
    assert cache.get("a") is None
    assert cache.get("b") == "2"
    source.values["z"] = "26"
    assert await cache.load("z") == "26"


async def test_value_with_an_end_of_its_own_is_not_used_beyond_it() -> None:
    source, clock = Source(a="1"), ManualClock()
    cache = LookupCache(source.find, life_ms=lambda value: 20, limits=LIMITS, clock=clock)
    await cache.load("a")
    clock.advance(19)
    assert cache.get("a") == "1"
    clock.advance(1)
    assert cache.get("a") is None
    source.is_away = True
    with pytest.raises(LookupUnavailable):
        await cache.load("a")
