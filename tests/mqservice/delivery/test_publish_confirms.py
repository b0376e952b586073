"""Answers of publishes: in the order of their outcomes, bounded, and never in anybody's way."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, cast

import pytest

from mqservice.delivery.produce.produce_responses import StoredResult
from mqservice.delivery.produce.put import Put
from mqservice.delivery.socket.codec import CODECS
from mqservice.delivery.socket.session import PublishConfirms, Session
from mqservice.lib.problem import Problem
from mqservice.protocol.frames import Subprotocol
from mqservice.store import OutcomeUnknown, StoreError
from mqservice.web.loop_turns import turns_of
from mqservice.web.socket_budget import BudgetLimits, SocketBudget

ROOM = 64
TURN_US = 500


class Puts:
    """Puts whose outcomes tests decide; how often each was told."""

    def __init__(self) -> None:
        self.puts: dict[int, _Put] = {}
        self.told: list[int] = []

    def put(self, number: int) -> Put:
        self.puts[number] = _Put(self, number)
        return cast("Put", self.puts[number])

    def decide(self, number: int, error: Exception | None = None) -> None:
        self.puts[number].decide(error)


class _Put:
    def __init__(self, puts: Puts, number: int) -> None:
        self._puts, self._number = puts, number
        self._error: Exception | None = None
        self._done: Callable[[], None]

    def send_to_store(self, done: Callable[[], None]) -> None:
        self._done = done

    def decide(self, error: Exception | None) -> None:
        self._error = error
        self._done()

    def results(self) -> tuple[int, list[StoredResult]]:
        self._puts.told.append(self._number)
        if self._error is not None:
            raise self._error
        return 201, []


class Sessions:
    """A session that writes down what it sends, and is its own sender."""

    def __init__(self) -> None:
        self.codec = CODECS[Subprotocol.JSON]
        loop = asyncio.get_running_loop()
        self.budget = SocketBudget(turns_of(loop), BudgetLimits(turn_us_max=TURN_US), self.now_ns)
        self.passed_us_each = 0  # that an answer takes to make
        self._now_us = 0
        self.sender = self
        self.is_closed = False
        self.has_failed = False
        self.is_direct = False
        self.sent: list[bytes] = []
        self.spawned: list[asyncio.Task[None]] = []
        self.is_gone = False
        self.may_send = asyncio.Event()
        self.may_send.set()
        self._lock = asyncio.Lock()

    def now_ns(self) -> int:
        self._now_us += self.passed_us_each
        return self._now_us * 1_000

    def may_write(self) -> bool:
        return self.is_direct and not self._lock.locked()

    def write(self, frame: bytes) -> None:
        assert self.may_write()
        self.sent.append(frame)

    def failed(self, exc: Exception) -> None:
        self.has_failed = True

    @contextlib.asynccontextmanager
    async def only_sender(self) -> AsyncIterator[Callable[[bytes], Awaitable[None]]]:
        async with self._lock:
            yield self._send

    async def _send(self, frame: bytes) -> None:
        await self.may_send.wait()
        if self.is_gone:
            raise ConnectionResetError
        self.sent.append(frame)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.spawned.append(asyncio.ensure_future(work))
        return self.spawned[-1]

    async def rest(self) -> None:
        """Until nothing more happens by itself."""
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.gather(*self.spawned, return_exceptions=True)

    @property
    def ids(self) -> list[int]:
        return [int(frame.split(b'"id":')[1].split(b",")[0]) for frame in self.sent]


def start() -> tuple[Sessions, Puts, PublishConfirms]:
    session = Sessions()
    return session, Puts(), PublishConfirms(cast("Session", session))


async def test_outcomes_that_come_together_are_sent_by_one_task_in_their_order() -> None:
    session, puts, confirming = start()
    for number in range(5):
        confirming.hand_over(number, puts.put(number))
    for number in (3, 0, 4):
        puts.decide(number)
    await session.rest()
    assert (session.ids, len(session.spawned), confirming.count) == ([3, 0, 4], 1, 2)
    for number in (1, 2):
        puts.decide(number)
    await session.rest()
    assert (session.ids, len(session.spawned), confirming.count) == ([3, 0, 4, 1, 2], 2, 0)
    assert sorted(puts.told) == list(range(5))


async def test_a_failure_is_reported_and_costs_no_other() -> None:
    session, puts, confirming = start()
    errors = [OutcomeUnknown("gone"), Problem.of("RATE_LIMITED", "slower"), None]
    for number, error in enumerate(errors):
        confirming.hand_over(number, puts.put(number))
        puts.decide(number, error)
    await session.rest()
    assert [b'"op":"err"' in frame for frame in session.sent] == [True, True, False]
    assert session.ids == [0, 1, 2]


async def test_who_wants_no_answer_gets_none() -> None:
    session, puts, confirming = start()
    confirming.hand_over(None, puts.put(1))
    puts.decide(1)
    await session.rest()
    assert (session.sent, puts.told, confirming.count) == ([], [1], 0)


async def test_only_so_many_are_under_way_until_their_answers_are_sent() -> None:
    session, puts, confirming = start()
    session.may_send.clear()  # the client does not read
    for number in range(ROOM):
        await asyncio.wait_for(confirming.wait_for_room(), 30)
        confirming.hand_over(number, puts.put(number))
    waiting = asyncio.ensure_future(confirming.wait_for_room())
    puts.decide(7)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    session.may_send.set()
    await asyncio.wait_for(waiting, 30)
    assert (session.ids, confirming.count) == ([7], ROOM - 1)


@pytest.mark.parametrize("end", ["the client is gone", "the session is closed"])
async def test_an_end_leaves_nobody_waiting_and_counts_what_was_stored(end: str) -> None:
    session, puts, confirming = start()
    session.may_send.clear()
    for number in range(ROOM):
        confirming.hand_over(number, puts.put(number))
        if number % 2:
            puts.decide(number, StoreError("gone") if number % 3 == 0 else None)
    waiting = asyncio.ensure_future(confirming.wait_for_room())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    if end == "the client is gone":
        session.is_gone = True
        session.may_send.set()
    else:
        session.is_closed = True
        session.spawned[0].cancel()
    await asyncio.wait_for(waiting, 30)
    session.is_closed = True
    for number in range(0, ROOM, 2):
        puts.decide(number)
    await session.rest()
    assert (session.sent, confirming.count) == ([], 0)
    assert sorted(puts.told) == list(range(ROOM))


async def test_answers_are_written_at_once_unless_others_wait_or_send() -> None:
    session, puts, confirming = start()
    session.is_direct = True
    for number in range(4):
        confirming.hand_over(number, puts.put(number))
    puts.decide(2)
    await asyncio.sleep(0)
    assert (session.ids, session.spawned, confirming.count) == ([2], [], 3)
    async with session.only_sender():
        puts.decide(0)
        await asyncio.sleep(0)
    puts.decide(3, OutcomeUnknown("gone"))
    await asyncio.sleep(0)  # the task that sends 0 has been made and has the lock next
    await session.rest()
    assert (session.ids, len(session.spawned), confirming.count) == ([2, 0, 3], 1, 1)


async def test_an_exception_that_nobody_expects_ends_the_session() -> None:
    session, puts, confirming = start()
    session.is_direct = True
    confirming.hand_over(1, puts.put(1))
    puts.decide(1, ZeroDivisionError())
    await session.rest()
    assert (session.has_failed, session.sent, confirming.count) == (True, [], 0)


async def test_answers_that_come_together_are_spread_over_turns() -> None:
    session, puts, confirming = start()
    session.is_direct = True
    session.passed_us_each = TURN_US
    for number in range(8):
        confirming.hand_over(number, puts.put(number))
    turns = []

    def look() -> None:
        turns.append(len(session.sent))
        if len(session.sent) < 8:
            asyncio.get_running_loop().call_soon(look)

    for number in range(8):
        puts.decide(number)
    look()
    while len(session.sent) < 8:
        await asyncio.sleep(0)
    assert session.ids == list(range(8))
    assert max(later - sooner for sooner, later in itertools.pairwise(turns)) == 1


async def test_a_publish_waits_for_room_for_all_of_its_messages() -> None:
    _, puts, confirming = start()
    for number in range(2):
        await asyncio.wait_for(confirming.wait_for_room(2_000), 30)
        confirming.hand_over(number, puts.put(number), 2_000)
    waiting = asyncio.ensure_future(confirming.wait_for_room(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    puts.decide(0)
    await asyncio.wait_for(waiting, 30)


async def test_a_publish_larger_than_the_room_waits_for_all_others_only() -> None:
    _, puts, confirming = start()
    await asyncio.wait_for(confirming.wait_for_room(1_000_000), 30)
    confirming.hand_over(0, puts.put(0), 1_000_000)
    assert confirming.count == 1
