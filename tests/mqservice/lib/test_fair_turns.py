"""Turns: no more than there are, no more of one asker than its part, and lines by turns."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqservice.lib.fair_turns import FairTurns

AT_ONCE, EACH_MAX, WAITING_MAX = 3, 2, 5
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "end", "end", "leave"]), st.sampled_from("abcd")
    ),
    max_size=60,
)


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
        self.turns.end(name[:1])
        await self.settle()

    async def settle(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def _one(self, name: str) -> None:
        has_turn = await self.turns.begin(name[:1])
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


async def test_a_turn_given_to_who_is_just_leaving_continues_to_the_next() -> None:
    turns = FairTurns(at_once=1, each_max=1)
    asking = Asking(turns)
    _, leaving, _ = await asking.ask("a1", "b1", "c1")
    turns.end("a")  # gives it to b, who has not run since
    leaving.cancel()
    await asking.settle()
    assert asking.begun == ["a1", "c1"]
    await asking.end("c")
    await asking.ask("d1")
    assert asking.begun == ["a1", "c1", "d1"]


async def test_who_has_left_and_has_not_heard_of_it_yet_is_passed_over() -> None:
    turns = FairTurns(at_once=1, each_max=1)
    asking = Asking(turns)
    _, *leaving, _ = await asking.ask("a1", "b1", "b2", "c1")
    for task in leaving:
        task.cancel()
    turns.end("a")
    await asking.settle()
    assert asking.begun == ["a1", "c1"]
    await asking.end("c")
    await asking.ask("b3")
    assert asking.begun == ["a1", "c1", "b3"]


async def test_who_asks_for_too_much_makes_room_for_others() -> None:
    asking = Asking(FairTurns(at_once=1, each_max=1, waiting_max=4))
    await asking.ask("a0", "a1", "a2", "a3", "a4", "a5")
    assert asking.refused == ["a5"]
    await asking.ask("b1", "c1")
    assert asking.refused == ["a5", "a4", "a3"]
    await asking.ask("b2")  # nobody has much more than two
    assert asking.refused[3:] == ["b2"]
    for name in ["a", "a", "b", "c"]:
        await asking.end(name)
    assert asking.begun == ["a0", "a1", "b1", "c1", "a2"]


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


class Model(Asking):
    """Knows of each asker how many turns it has and who waits, and what fairness allows."""

    def __init__(self) -> None:
        super().__init__(FairTurns(at_once=AT_ONCE, each_max=EACH_MAX, waiting_max=WAITING_MAX))
        self.at_work: Counter[str] = Counter()
        self.waiting: dict[str, list[asyncio.Task[None]]] = {name: [] for name in "abcd"}
        # Turns that others were given while an asker waited that has less than its part.
        self.overtaken: dict[str, Counter[str]] = {name: Counter() for name in "abcd"}

    async def step(self, kind: str, name: str) -> None:
        """One that has nobody to end or to leave does nothing."""
        begun_count, refused_count = len(self.begun), len(self.refused)
        if kind == "ask":
            self.waiting[name] += await self.ask(name)
        elif kind == "end" and self.at_work[name]:
            self.at_work[name] -= 1
            await self.end(name)
        elif kind == "leave" and self.waiting[name]:
            self.waiting[name].pop(0).cancel()
            await self.settle()
        for asker, tasks in self.waiting.items():
            self.waiting[asker] = [task for task in tasks if not task.done()]
            if not self.waiting[asker]:
                self.overtaken[asker].clear()  # who comes again comes last
        for asker in self.begun[begun_count:]:
            self._begins(asker)
        for asker in self.refused[refused_count:]:
            assert len(self.waiting[asker]) + 1 >= max(map(len, self.waiting.values()))
            assert sum(map(len, self.waiting.values())) == WAITING_MAX

    def _begins(self, asker: str) -> None:
        for other, tasks in self.waiting.items():
            if other != asker and tasks and self.at_work[other] < EACH_MAX:
                self.overtaken[other][asker] += 1
                assert self.overtaken[other][asker] == 1, f"{asker} twice while {other} waits"
        self.overtaken[asker].clear()
        self.at_work[asker] += 1

    def check(self) -> None:
        assert self.at_work.total() <= AT_ONCE
        assert all(count <= EACH_MAX for count in self.at_work.values())
        assert sum(map(len, self.waiting.values())) <= WAITING_MAX
        if self.at_work.total() < AT_ONCE:  # nobody waits in vain
            assert all(self.at_work[name] == EACH_MAX for name in "abcd" if self.waiting[name])


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_bounds_hold_and_nobody_is_overtaken_twice(steps: list[tuple[str, str]]) -> None:
    async def run() -> None:
        model = Model()
        for kind, name in steps:
            await model.step(kind, name)
            model.check()
        for task in [task for tasks in model.waiting.values() for task in tasks]:
            task.cancel()
        await model.settle()

    asyncio.run(run())


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_whoever_leaves_at_whatever_moment_no_turn_is_lost(steps: list[tuple[str, str]]) -> None:
    async def run() -> None:
        turns = FairTurns(at_once=AT_ONCE, each_max=EACH_MAX, waiting_max=WAITING_MAX)
        at_work: list[str] = []

        async def one(name: str) -> None:
            if await turns.begin(name):
                at_work.append(name)

        tasks: list[tuple[str, asyncio.Task[None]]] = []
        for kind, name in steps:  # the loop runs between some of them only
            mine = [task for asker, task in tasks if asker == name and not task.done()]
            if kind == "ask":
                tasks.append((name, asyncio.create_task(one(name))))
            elif kind == "leave" and mine:
                mine[0].cancel()
            elif kind == "end" and name in at_work:
                at_work.remove(name)
                turns.end(name)
            else:
                await asyncio.sleep(0)
        for task in [task for _, task in tasks]:
            task.cancel()
        await asyncio.gather(*(task for _, task in tasks), return_exceptions=True)
        for name in at_work:
            turns.end(name)
        last = Asking(turns)
        await last.ask("a1", "a2", "b1", "c1", "c2", "c3", "c4", "c5", "c6")
        assert last.begun == ["a1", "a2", "b1"]
        assert last.refused == ["c6"]

    asyncio.run(run())
