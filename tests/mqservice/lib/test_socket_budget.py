"""The budget of one socket, with a clock and turns that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from mqservice.web.loop_turns import LoopTurns
from mqservice.web.socket_budget import BudgetLimits, SocketBudget

LIMITS = BudgetLimits(
    turn_count_max=4,
    turn_bytes_max=1_000,
    turn_us_max=500,
    commands_per_second_max=20,
    no_ops_per_second_max=5,
    no_op_us_max=1_000,
    pause_s_max=3,
    excess_s_max=4,
)
MS = 1_000_000
SECOND = 1_000 * MS


class Moved:
    """A loop whose turn ends, and a clock that moves, when the test says so."""

    def __init__(self, limits: BudgetLimits = LIMITS) -> None:
        self.now_ns = 7 * SECOND
        self.calls: list[Callable[[], None]] = []
        self.budget = SocketBudget(
            LoopTurns(cast("asyncio.AbstractEventLoop", self)), limits, lambda: self.now_ns
        )

    def call_soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def create_future(self) -> asyncio.Future[None]:
        raise AssertionError("nobody waits here")

    def next_turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()

    def work(self, *, no_ops: int = 0, commands: int = 0) -> float:
        """A turn with so many of them; the pause that follows."""
        self.next_turn()
        self.budget.start()
        for _ in range(no_ops):
            self.budget.spend_no_op()
        for _ in range(commands):
            self.budget.spend_command()
        self.budget.stop()
        return self.budget.pause_s()

    def refuse(self, cost_ns: int) -> float:
        self.next_turn()
        self.budget.start()
        self.budget.spend_command()
        self.now_ns += cost_ns
        self.budget.spend_refusal()
        self.budget.stop()
        return self.budget.pause_s()


@pytest.fixture
def moved() -> Moved:
    return Moved()


# A turn -----------------------------------------------------------------------------------------


def test_a_turn_is_over_after_so_many_frames_and_commands(moved: Moved) -> None:
    budget = moved.budget
    budget.start()
    for _ in range(2):
        budget.spend_frame()
        budget.spend_command()
        was_over, is_over = budget.is_turn_over, budget.is_turn_over
    assert (was_over, is_over) == (True, True)
    moved.next_turn()
    assert not budget.is_turn_over


def test_a_turn_is_over_after_so_many_bytes(moved: Moved) -> None:
    moved.budget.start()
    moved.budget.spend_bytes(999)
    assert not moved.budget.is_turn_over
    moved.budget.spend_bytes(1)
    assert moved.budget.is_turn_over


def test_a_turn_is_over_after_so_much_time_which_adds_up(moved: Moved) -> None:
    budget = moved.budget
    budget.start()
    moved.now_ns += 300_000
    assert not budget.is_turn_over
    budget.stop()
    moved.now_ns += 50 * MS  # of other sockets
    budget.start()
    moved.now_ns += 199_000
    assert not budget.is_turn_over
    moved.now_ns += 1_000
    assert budget.is_turn_over


def test_time_in_which_it_gave_way_is_not_its_own(moved: Moved) -> None:
    moved.budget.start()
    moved.now_ns += 50 * MS
    moved.next_turn()
    assert not moved.budget.is_turn_over
    moved.now_ns += 500_000
    assert moved.budget.is_turn_over


def test_work_outside_of_a_span_is_charged_on_its_own(moved: Moved) -> None:
    began_ns = moved.budget.now_ns()
    moved.now_ns += 500_000
    moved.budget.charge_since(began_ns)
    assert moved.budget.is_turn_over


# A second ---------------------------------------------------------------------------------------


def test_few_no_ops_never_pause(moved: Moved) -> None:
    for _ in range(100):
        assert moved.work(no_ops=5) == 0
        moved.now_ns += SECOND
    assert moved.budget.excess == ""


def test_too_many_no_ops_pause_until_the_second_is_over(moved: Moved) -> None:
    assert moved.work(no_ops=5) == 0
    moved.now_ns += 400 * MS
    assert moved.work(no_ops=1) == pytest.approx(0.6)
    moved.now_ns += 600 * MS
    assert moved.work(no_ops=1) == 0


def test_too_many_commands_pause_and_are_never_an_excess(moved: Moved) -> None:
    for _ in range(100):
        assert moved.work(commands=20) == 0
        assert moved.work(commands=1) == pytest.approx(1)
        moved.now_ns += SECOND
    assert moved.budget.excess == ""


def test_a_command_that_costs_as_much_as_many_counts_as_many(moved: Moved) -> None:
    moved.budget.start()
    moved.budget.spend_command()
    moved.budget.spend_commands(20)
    assert moved.budget.pause_s() == pytest.approx(1)


def test_too_many_no_ops_for_seconds_in_a_row_are_an_excess(moved: Moved) -> None:
    for _ in range(LIMITS.excess_s_max):
        assert moved.budget.excess == ""
        assert moved.work(no_ops=6) == pytest.approx(1)
        moved.now_ns += SECOND
    assert moved.budget.excess == (
        "over 5 pings, pongs, small fragments and commands without effect a second for 4 s in a row"
    )


@pytest.mark.parametrize("quiet", ["a second with few", "a second with none"])
def test_a_quiet_second_begins_the_row_again(moved: Moved, quiet: str) -> None:
    for _ in range(5):
        for _ in range(LIMITS.excess_s_max - 1):
            moved.work(no_ops=6)
            moved.now_ns += SECOND
        if quiet == "a second with few":
            assert moved.work(no_ops=1) == 0
        moved.now_ns += SECOND
    assert moved.budget.excess == ""


def test_a_refused_command_is_paid_for_by_the_time_it_took(moved: Moved) -> None:
    assert moved.refuse(900_000) == 0
    moved.now_ns += SECOND
    assert 1 < moved.refuse(2 * MS) <= 2
    moved.now_ns += 2 * SECOND
    assert 2 < moved.refuse(900 * MS) <= 3  # and no more, or the client would be taken for gone
    assert moved.budget.excess == "refused commands took more than 1 ms a second for 4 s in a row"


def test_a_refused_command_that_waited_has_not_worked(moved: Moved) -> None:
    moved.budget.start()
    moved.budget.spend_command()
    moved.now_ns += 900 * MS
    moved.next_turn()
    moved.budget.spend_refusal()
    assert moved.budget.pause_s() == 0


def test_reasons_fit_into_a_close_frame() -> None:
    for refuse in (False, True):
        moved = Moved(BudgetLimits())
        while not moved.budget.excess:
            if refuse:
                moved.refuse(500 * MS)
            else:
                moved.work(no_ops=1_001)
            moved.now_ns += SECOND
        assert len(moved.budget.excess.encode()) <= 123
