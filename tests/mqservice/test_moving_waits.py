"""Requests for a namespace that is on its way to another shard wait until it is there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from mqservice.lib.problem import Problem
from mqservice.moving_waits import MovingWaits
from mqservice.store import ClientConfig
from tests.clock import ManualClock

WAIT_S = 10.0
LIMITS = ClientConfig()


@dataclass(frozen=True)
class Route:
    shard: str
    is_moving: bool = False


class Routes:
    """What PostgreSQL says; how often it was asked."""

    def __init__(self, route: Route | None) -> None:
        self.route = route
        self.count = 0

    async def load(self) -> Route | None:
        self.count += 1
        return self.route


async def asked(routes: Routes, count: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while routes.count < count:
            await asyncio.sleep(0)


async def test_a_route_that_stays_is_asked_for_once() -> None:
    for route in (Route("main"), None):
        routes = Routes(route)
        assert await MovingWaits(ManualClock()).settled(routes.load) == route
        assert routes.count == 1


async def test_those_who_wait_continue_in_order_at_the_new_shard() -> None:
    routes, waits = Routes(Route("main", is_moving=True)), MovingWaits(ManualClock())
    done: list[tuple[int, str]] = []

    async def request(number: int) -> None:
        route = await waits.settled(routes.load)
        assert route is not None
        done.append((number, route.shard))

    tasks = [asyncio.ensure_future(request(number)) for number in range(5)]
    await asked(routes, 5)
    assert done == []
    routes.route = Route("s2")
    waits.look_again()
    await asyncio.wait_for(asyncio.gather(*tasks), WAIT_S)
    assert done == [(number, "s2") for number in range(5)]


async def test_a_move_is_noticed_without_a_notification() -> None:
    routes, waits = Routes(Route("main", is_moving=True)), MovingWaits(ManualClock())
    waiting = asyncio.ensure_future(waits.settled(routes.load))
    await asked(routes, 1)
    routes.route = Route("s2")
    assert await asyncio.wait_for(waiting, WAIT_S) == Route("s2")


async def test_nobody_waits_longer_than_for_a_takeover() -> None:
    clock = ManualClock()
    routes, waits = Routes(Route("main", is_moving=True)), MovingWaits(clock)
    waiting = asyncio.ensure_future(waits.settled(routes.load))
    await asked(routes, 1)
    clock.advance(LIMITS.hold_ms_max)
    waits.look_again()
    with pytest.raises(Problem, match="being moved") as refused:
        await asyncio.wait_for(waiting, WAIT_S)
    problem = refused.value
    assert (problem.status, problem.retryable, problem.stored) == (503, True, False)
    assert problem.retry_after_ms


async def test_one_too_many_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqservice.moving_waits._LIMITS", ClientConfig(hold_count_max=1))
    routes, waits = Routes(Route("main", is_moving=True)), MovingWaits(ManualClock())
    first = asyncio.ensure_future(waits.settled(routes.load))
    await asked(routes, 1)
    with pytest.raises(Problem, match="being moved"):
        await waits.settled(routes.load)
    routes.route = Route("s2")
    assert await asyncio.wait_for(first, WAIT_S) == Route("s2")
    assert await waits.settled(routes.load) == Route("s2")


async def test_each_kind_of_request_has_places_of_its_own() -> None:
    routes = Routes(Route("main", is_moving=True))
    changes, others = MovingWaits(ManualClock(), 1), MovingWaits(ManualClock())
    waiting = [asyncio.ensure_future(each.settled(routes.load)) for each in (changes, others)]
    await asked(routes, 2)
    with pytest.raises(Problem, match="being moved"):
        await changes.settled(routes.load)
    assert (changes.count, others.count) == (1, 1)
    routes.route = Route("s2")
    assert await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S) == [Route("s2")] * 2
    assert (changes.count, others.count) == (0, 0)
