"""Refusals wait for their turn, each tenant's and each address's for its own."""

from __future__ import annotations

import asyncio

import pytest

from mqservice.quotas import rejection_pacing
from mqservice.quotas.rejection_pacing import (
    BODY_BYTES_MAX,
    CONNECTION_BYTES,
    REJECTIONS_AT_ONCE,
    REJECTIONS_PER_SECOND,
    WAITING_BYTES_MAX,
    PacedRejections,
    RejectionPacer,
    body_bytes_of,
)
from tests.mqservice.quotas.doubles import ManualClock


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
    paces = RejectionPacer(clock, sleeper)
    for _ in range(REJECTIONS_AT_ONCE):
        assert await paces.turn("tenant 1")
    assert sleeper.asked_s == []
    for _ in range(3):
        assert await paces.turn("tenant 1")
    step_s = 1 / REJECTIONS_PER_SECOND
    assert sleeper.asked_s == pytest.approx([step_s, 2 * step_s, 3 * step_s], abs=0.002)
    assert await paces.turn("tenant 2")
    assert await paces.turn("192.0.2.7")
    assert len(sleeper.asked_s) == 3
    clock.ms += 2_000
    assert await paces.turn("tenant 1")
    assert len(sleeper.asked_s) == 3


async def test_when_too_many_wait_the_next_is_answered_at_once_and_told_to_go() -> None:
    sleeper = Sleeper()
    paces = RejectionPacer(ManualClock(), sleeper)
    for _ in range(REJECTIONS_AT_ONCE):
        assert await paces.turn("a")
    waiting = [
        asyncio.ensure_future(paces.turn("a")) for _ in range(WAITING_BYTES_MAX // CONNECTION_BYTES)
    ]
    await asyncio.sleep(0)
    assert not await paces.turn("a")
    assert max(sleeper.asked_s) == 5
    waiting.pop().cancel()  # its client is gone
    await asyncio.sleep(0)
    sleeper.wake.set()
    assert await paces.turn("a")
    assert all(await asyncio.gather(*waiting))


def test_who_waits_with_much_of_a_body_takes_the_room_of_many() -> None:
    refused = PacedRejections(0)
    for _ in range(REJECTIONS_AT_ONCE):
        assert refused.begin(0, 10 * BODY_BYTES_MAX) == 0
    large = 0
    while refused.begin(0, 10 * BODY_BYTES_MAX) is not None:
        large += 1
    assert large == WAITING_BYTES_MAX // (CONNECTION_BYTES + BODY_BYTES_MAX) > 100
    for _ in range(large):
        refused.end(10 * BODY_BYTES_MAX)
    small = 0
    while refused.begin(0, 1) is not None:
        small += 1
    assert small > 20 * large


def test_what_was_owed_by_a_flood_is_over_in_five_seconds() -> None:
    refused = PacedRejections(0)
    for _ in range(2_000):
        refused.begin(0)
    assert refused.begin(5_001) == 0


@pytest.mark.parametrize(
    ("headers", "body_bytes"),
    [
        ({}, 0),
        ({b"content-length": b"17"}, 17),
        ({b"content-length": b"-1"}, BODY_BYTES_MAX),
        ({b"content-length": b"9" * 5_000}, 10**19 - 1),
        ({b"transfer-encoding": b"chunked"}, BODY_BYTES_MAX),
    ],
)
def test_a_body_is_as_large_as_its_head_says_or_may_be(
    headers: dict[bytes, bytes], body_bytes: int
) -> None:
    assert body_bytes_of(headers) == body_bytes


async def test_no_more_are_remembered_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rejection_pacing, "KEYS_MAX", 3)
    paces = RejectionPacer(ManualClock(), Sleeper())
    for number in range(10):
        assert await paces.turn(f"tenant {number}")
    assert list(paces._by_key) == ["tenant 7", "tenant 8", "tenant 9"]
