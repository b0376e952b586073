"""Turns: no more than there are, no more of one asker than its part, and lines by turns."""

from __future__ import annotations

import asyncio

import pytest

from mqservice.lib.fair_turns import FairTurns


class Asking:
    """Asks for turns, and notes who has got one, in order."""

    def __init__(self, turns: FairTurns) -> None:
        self.turns = turns
        self.begun: list[str] = []
        self.refused: list[str] = []

    async def ask(self, *names: str) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self._one(name)) for name in names]
        await self.settle()
        return tasks

    async def end(self, name: str) -> None:
        self.turns.end(name[:1].encode())
        await self.settle()

    async def settle(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def _one(self, name: str) -> None:
        has_turn = await self.turns.begin(name[:1].encode())
        (self.begun if has_turn else self.refused).append(name)


async def test_who_asks_for_little_comes_before_who_has_asked_for_much() -> None:
    asking = Asking(FairTurns(at_once=2, each_max=2))
    await asking.ask("a1", "a2", "a3", "a4", "a5", "b1", "c1")
    assert asking.begun == ["a1", "a2"]
    for _ in range(2):
        await asking.end("a")
    assert asking.begun[2:] == ["a3", "b1"]
    await asking.end("b")
    await asking.end("a")
    assert asking.begun[4:] == ["c1", "a4"]


async def test_one_asker_never_has_more_than_its_part() -> None:
    asking = Asking(FairTurns(at_once=3, each_max=2))
    await asking.ask("a1", "a2", "a3", "b1", "b2")
    assert asking.begun == ["a1", "a2", "b1"]
    await asking.end("b")
    assert asking.begun[3:] == ["b2"]
    await asking.end("b")
    assert asking.begun[4:] == []  # a third turn is free, and a has its part
    await asking.end("a")
    assert asking.begun[4:] == ["a3"]


async def test_who_leaves_a_line_takes_no_turn() -> None:
    asking = Asking(FairTurns(at_once=1, each_max=1))
    _, left, _ = await asking.ask("a1", "b1", "c1")
    left.cancel()
    await asking.settle()
    await asking.end("a")
    assert asking.begun == ["a1", "c1"]


async def test_a_turn_given_to_who_is_just_leaving_goes_on_to_the_next() -> None:
    turns = FairTurns(at_once=1, each_max=1)
    asking = Asking(turns)
    _, leaving, _ = await asking.ask("a1", "b1", "c1")
    turns.end(b"a")  # gives it to b, who has not run since
    leaving.cancel()
    await asking.settle()
    assert asking.begun == ["a1", "c1"]
    await asking.end("c")
    await asking.ask("d1")
    assert asking.begun == ["a1", "c1", "d1"]


@pytest.mark.parametrize("waiting_max", [0, 2])
async def test_lines_are_bounded_all_together(waiting_max: int) -> None:
    asking = Asking(FairTurns(at_once=1, each_max=1, waiting_max=waiting_max))
    await asking.ask("a1", "b1", "c1", "d1")
    assert asking.refused == ["b1", "c1", "d1"][waiting_max:]
    for name in ["a", "b", "c"][: waiting_max + 1]:
        await asking.end(name)
    assert asking.begun == ["a1", "b1", "c1"][: waiting_max + 1]
    await asking.ask("e1")
    assert asking.begun[-1] == "e1"
