"""Waiting with a limit, where Python 3.11's ``asyncio.wait_for`` loses cancellations."""

from __future__ import annotations

import asyncio

import pytest
from mqservice_client.tasks import within

WAIT_S = 60.0


async def test_what_comes_in_time_is_returned_or_raised() -> None:
    async def returns() -> int:
        return 1

    async def raises() -> None:
        raise ValueError("mine")

    assert await within(WAIT_S, returns()) == 1
    assert await within(None, returns()) == 1
    with pytest.raises(ValueError, match="mine"):
        await within(WAIT_S, raises())


async def test_what_is_late_has_ended_when_it_is_said() -> None:
    ended = asyncio.Event()

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    with pytest.raises(asyncio.TimeoutError):
        await within(0, never())
    assert ended.is_set()


@pytest.mark.parametrize("turns", range(5))
async def test_a_cancellation_that_comes_with_the_result_is_not_lost(turns: int) -> None:
    come = asyncio.Event()

    async def waits() -> None:
        await within(WAIT_S, come.wait())
        await asyncio.Event().wait()

    waiting = asyncio.ensure_future(waits())
    for _ in range(3):
        await asyncio.sleep(0)
    come.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    waiting.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert waiting.cancelled()


async def test_who_is_cancelled_cancels_what_was_waited_for() -> None:
    work = asyncio.ensure_future(asyncio.Event().wait())
    waiting = asyncio.ensure_future(within(WAIT_S, work))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting], timeout=WAIT_S)
    assert waiting.cancelled()
    assert work.cancelled()
