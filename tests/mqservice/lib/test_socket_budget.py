"""The budget of one socket, with a clock and turns that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from mqservice.web.loop_turns import LoopTurns
from mqservice.web.socket_budget import (
    COMMAND_NS_PER_BYTE_MAX,
    DEBT_S_MAX,
    DEBTS_MAX,
    READ_NS_PER_BYTE,
    BudgetLimits,
    Debts,
    SocketBudget,
)

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
        self.budget.spend_refusal(cost_ns // COMMAND_NS_PER_BYTE_MAX)
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
    moved.budget.spend_refusal(0)
    assert moved.budget.pause_s() == 0


# A debt -----------------------------------------------------------------------------------------


class Sharing:
    """Two sockets of one key; the clock of both is that of ``first``."""

    def __init__(self) -> None:
        self.first, self.other = Moved(), Moved()
        self.debts = Debts(lambda: self.first.now_ns)
        for moved in (self.first, self.other):
            moved.budget.debt = self.debts.of("key:1")

    def wait(self, seconds: float) -> None:
        for moved in (self.first, self.other):
            moved.now_ns += round(seconds * SECOND)


def test_sockets_of_a_key_share_what_their_refused_commands_cost() -> None:
    sharing = Sharing()
    assert sharing.first.refuse(800_000) == 0
    sharing.wait(0)
    sharing.other.now_ns = sharing.first.now_ns
    assert sharing.other.refuse(800_000) > 0, "together they cost more than a second may"
    assert sharing.debts.seconds("key:1") == 2
    assert sharing.debts.seconds("key:2") == 0


def test_a_socket_that_was_refused_nothing_does_not_pay_for_others() -> None:
    sharing = Sharing()
    assert sharing.first.refuse(3 * MS) > 0
    sharing.other.now_ns = sharing.first.now_ns
    assert sharing.other.work(commands=3) == 0


def test_a_debt_is_paid_by_time_and_pauses_until_then(moved: Moved) -> None:
    assert moved.refuse(5 * MS) == pytest.approx(3, abs=0.1)
    moved.now_ns += 3 * SECOND
    assert moved.work() > 1, "of 5 s, 3 are paid"
    assert moved.budget.excess == "", "it has sent nothing since"
    moved.now_ns += 3 * SECOND
    assert moved.work() == 0


def test_a_debt_has_a_limit() -> None:
    sharing = Sharing()
    for _ in range(5):
        sharing.first.refuse(500 * MS)
    assert sharing.debts.seconds("key:1") == DEBT_S_MAX
    sharing.wait(DEBT_S_MAX)
    assert sharing.debts.seconds("key:1") == 0


def test_bytes_of_a_frame_that_ends_a_session_cost_time_too() -> None:
    sharing = Sharing()
    sharing.first.budget.spend_end(4 * 1024 * 1024)
    assert sharing.debts.seconds("key:1") >= 4 * READ_NS_PER_BYTE


def test_a_frame_that_ends_a_session_costs_half_a_second() -> None:
    sharing = Sharing()
    sharing.first.budget.start_cost()
    sharing.first.budget.spend_end(2)
    assert sharing.debts.seconds("key:1") == 0, "one may come back at once"
    sharing.first.budget.spend_end(2)
    assert sharing.debts.seconds("key:1") == 2
    sharing.wait(2)
    assert sharing.debts.seconds("key:1") == 0


def test_who_is_closed_for_an_excess_owes_as_much_again() -> None:
    sharing = Sharing()
    while not sharing.first.budget.excess:
        sharing.first.work(no_ops=6)
        sharing.first.now_ns += SECOND
    assert sharing.debts.seconds("key:1") == LIMITS.excess_s_max - 1


def test_debts_that_are_paid_are_forgotten() -> None:
    now_ns = 0
    debts = Debts(lambda: now_ns)
    debts.of("owing").add(50 * SECOND, now_ns)
    for number in range(3 * DEBTS_MAX):
        debts.of(f"key:{number}").add(2 * SECOND, now_ns)
        now_ns += 1_000_000
    assert debts.seconds("owing") == 20
    assert len(debts._debts) <= DEBTS_MAX


def test_time_that_no_command_of_its_size_takes_is_not_owed(moved: Moved) -> None:
    """Other processes ran meanwhile."""
    moved.budget.start()
    moved.budget.spend_command()
    moved.now_ns += 900 * MS
    moved.budget.spend_refusal(10)
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
