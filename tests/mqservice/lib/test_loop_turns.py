"""Turns of the loop: numbered while somebody asks, and one waiting worker served in each."""

from __future__ import annotations

import asyncio

from mqservice.web.loop_turns import LoopTurns, turns_of


async def test_a_turn_keeps_its_number_until_the_loop_comes_round() -> None:
    turns = LoopTurns(asyncio.get_running_loop())
    first = turns.number()
    assert turns.number() == first
    await asyncio.sleep(0)
    assert turns.number() == first + 1


async def test_one_that_waits_is_served_in_each_turn_in_their_order() -> None:
    turns = LoopTurns(asyncio.get_running_loop())
    served: list[tuple[str, int]] = []
    for name in "abc":
        turns.wait(lambda name=name: served.append((name, turns.number())))  # type: ignore[misc] # bound now
    while len(served) < 3:
        await asyncio.sleep(0)
    assert [name for name, _ in served] == ["a", "b", "c"]
    assert [number for _, number in served] == [1, 2, 3]


async def test_others_have_their_turn_between_two_that_wait() -> None:
    loop = asyncio.get_running_loop()
    turns = LoopTurns(loop)
    order: list[str] = []

    def other(left: int) -> None:
        order.append("other")
        if left:
            loop.call_soon(other, left - 1)

    for _ in range(3):
        turns.wait(lambda: order.append("waiter"))
    loop.call_soon(other, 2)
    while len(order) < 6:
        await asyncio.sleep(0)
    assert order == ["waiter", "other"] * 3


async def test_one_that_was_cancelled_while_it_waited_takes_no_others_turn() -> None:
    turns = LoopTurns(asyncio.get_running_loop())
    gone = asyncio.ensure_future(turns.next_turn())
    stays = asyncio.ensure_future(turns.next_turn())
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait_for(stays, 30)
    assert gone.cancelled()


async def test_a_worker_that_fails_does_not_stop_those_behind_it() -> None:
    loop = asyncio.get_running_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    turns = LoopTurns(loop)

    def fail() -> None:
        raise ZeroDivisionError

    turns.wait(fail)
    await asyncio.wait_for(turns.next_turn(), 30)
    assert [type(each) for each in failures] == [ZeroDivisionError]


async def test_all_workers_of_a_loop_share_its_turns() -> None:
    loop = asyncio.get_running_loop()
    assert turns_of(loop) is turns_of(loop)
