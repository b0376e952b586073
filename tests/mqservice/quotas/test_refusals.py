"""Refusals wait for their turn, each tenant's and each address's for its own."""

from __future__ import annotations

import asyncio

import pytest

from mqservice.quotas import refusals
from mqservice.quotas.refusals import (
    REFUSALS_AT_ONCE,
    REFUSALS_PER_SECOND,
    REFUSALS_WAITING_MAX,
    RefusalPaces,
)
from tests.mqservice.quotas.manual import ManualClock


class Sleeper:
    """Notes how long it was asked to sleep, and wakes up when it is told to."""

    def __init__(self) -> None:
        self.asked_s: list[float] = []
        self.wake = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.asked_s.append(seconds)
        await self.wake.wait()


async def test_a_flood_gets_a_hundred_at_once_and_then_a_hundred_a_second() -> None:
    clock, sleeper = ManualClock(), Sleeper()
    sleeper.wake.set()
    paces = RefusalPaces(clock, sleeper)
    for _ in range(REFUSALS_AT_ONCE):
        assert await paces.turn("tenant 1")
    assert sleeper.asked_s == []
    for _ in range(3):
        assert await paces.turn("tenant 1")
    step_s = 1 / REFUSALS_PER_SECOND
    assert sleeper.asked_s == pytest.approx([step_s, 2 * step_s, 3 * step_s], abs=0.002)
    assert await paces.turn("tenant 2")
    assert await paces.turn("192.0.2.7")
    assert len(sleeper.asked_s) == 3
    clock.ms += 2_000
    assert await paces.turn("tenant 1")
    assert len(sleeper.asked_s) == 3


async def test_when_too_many_wait_the_next_is_answered_at_once_and_told_to_go() -> None:
    sleeper = Sleeper()
    paces = RefusalPaces(ManualClock(), sleeper)
    for _ in range(REFUSALS_AT_ONCE):
        assert await paces.turn("a")
    waiting = [asyncio.ensure_future(paces.turn("a")) for _ in range(REFUSALS_WAITING_MAX)]
    await asyncio.sleep(0)
    assert not await paces.turn("a")
    assert max(sleeper.asked_s) <= 1
    waiting.pop().cancel()  # its client is gone
    await asyncio.sleep(0)
    sleeper.wake.set()
    assert await paces.turn("a")
    assert all(await asyncio.gather(*waiting))


async def test_no_more_are_remembered_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refusals, "KEYS_MAX", 3)
    paces = RefusalPaces(ManualClock(), Sleeper())
    for number in range(10):
        assert await paces.turn(f"tenant {number}")
    assert list(paces._by_key) == ["tenant 7", "tenant 8", "tenant 9"]
