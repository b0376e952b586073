"""How much one WebSocket may do in one turn of the event loop, and in one second.

    frame, command ──▶ [SocketBudget] ── its part of the turn used up ──▶ go on in a later turn
    no-op          ──▶                ── its part of the second used up ──▶ read nothing meanwhile
                                           └ for many seconds in a row ──▶ ``excess``: close, 1008

A no-op costs work and moves nothing: a ping, a pong, a small fragment, a command that has no effect
or would be refused again. Honest clients send few of them. All other commands are never a reason to
close: a client that sends more of them than it may is read more slowly.

The time that refused work took is a ``Debt``, which all sockets of one key share: whoever caused it
is read again once it is paid, and no new socket is let in before, so that it does not help to come
back with another one.

Time is charged between ``start`` and ``stop`` and within one turn, so what other sockets do while
this one waits is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from mqservice.web.loop_turns import LoopTurns

SECOND_NS: Final = 1_000_000_000
US_NS: Final = 1_000
DEBT_S_MAX: Final = 60
DEBTS_MAX: Final = 10_000
READ_NS_PER_BYTE: Final = 4  # to read and unmask a frame and make text of it
COMMAND_NS_MAX: Final = 500_000
COMMAND_NS_PER_BYTE_MAX: Final = 16


class BudgetLimits(msgspec.Struct, frozen=True, kw_only=True):
    """``turn_us_max``: what all others wait for when a socket has much to do. Much less would cost
    throughput, since what is taken in one turn goes to the engine in one request.

    ``no_op_us_max``: time that refused work may cost each second. A single command may cost many
    times that, and is paid for by reading nothing for as many seconds; ``pause_s_max`` at a time,
    so that the client is not taken for gone.
    """

    turn_count_max: int = 256
    turn_bytes_max: int = 1024 * 1024
    turn_us_max: int = 2_000
    commands_per_second_max: int = 50_000
    no_ops_per_second_max: int = 1_000
    no_op_us_max: int = 5_000
    pause_s_max: int = 5
    excess_s_max: int = 10


class Debt:
    """What refused work has cost: the moment from which on nothing is owed any more."""

    __slots__ = ("_paid_ns",)

    def __init__(self) -> None:
        self._paid_ns = 0

    def add(self, seconds_ns: int, now_ns: int) -> None:
        """So much later is it paid."""
        most_ns = now_ns + DEBT_S_MAX * SECOND_NS
        self._paid_ns = min(max(self._paid_ns, now_ns) + seconds_ns, most_ns)

    def seconds(self, now_ns: int) -> int:
        """How long nothing should be taken, in whole seconds; what a second may cost is free."""
        owed_ns = self._paid_ns - now_ns
        return -(-owed_ns // SECOND_NS) if owed_ns > SECOND_NS else 0


class Debts:
    """The debt of each key, until it is paid."""

    def __init__(self, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock_ns = clock_ns
        self._debts: dict[str, Debt] = {}

    def of(self, name: str) -> Debt:
        """The one that all sockets of that name share."""
        debt = self._debts.get(name)
        if debt is None:
            if len(self._debts) >= DEBTS_MAX:
                self._forget_paid()
            debt = self._debts[name] = Debt()
        return debt

    def seconds(self, name: str) -> int:
        """For how long no new socket of that name should be let in."""
        debt = self._debts.get(name)
        return 0 if debt is None else debt.seconds(self._clock_ns())

    def _forget_paid(self) -> None:
        now_ns = self._clock_ns()
        self._debts = {name: debt for name, debt in self._debts.items() if debt.seconds(now_ns)}


class SocketBudget:
    """See the module's docstring. One event loop uses it."""

    __slots__ = (
        "_clock_ns",
        "_command_count",
        "_command_since_ns",
        "_command_turn",
        "_excess_s",
        "_is_exceeded",
        "_is_owing",
        "_limits",
        "_no_op_count",
        "_paused_until_ns",
        "_second_end_ns",
        "_since_ns",
        "_turn",
        "_turn_bytes",
        "_turn_count",
        "_turn_ns",
        "_turns",
        "_waiting_count",
        "debt",
        "excess",
    )

    def __init__(
        self,
        turns: LoopTurns,
        limits: BudgetLimits,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._turns = turns
        self._limits = limits
        self._clock_ns = clock_ns
        self._turn = -1  # the one that the next four are about
        self._turn_count = 0
        self._turn_bytes = 0
        self._turn_ns = 0
        self._since_ns: int | None = None
        self._waiting_count = 0
        self._second_end_ns = 0  # of the second that the next three are about
        self._command_count = 0
        self._no_op_count = 0
        self._is_exceeded = False
        self._is_owing = False  # some of the debt comes from this socket
        self._command_turn = -1
        self._command_since_ns = 0
        self._paused_until_ns = 0
        self._excess_s = 0  # seconds in a row with too many no-ops
        self.debt = Debt()  # replaced by that of the key once it is known
        self.excess = ""  # why the socket is to be closed, if it is

    # What is done -------------------------------------------------------------------------------

    def start(self) -> None:
        """Work for this socket begins, or goes on."""
        self._since_ns = None
        self._enter_turn()
        now_ns = self._since_ns = self._clock_ns()
        if now_ns >= self._second_end_ns:
            self._start_second(now_ns)

    def stop(self) -> None:
        """It is done, or waits for something."""
        if self._since_ns is not None:
            if self._enter_turn():
                self._turn_ns += self._clock_ns() - self._since_ns
            self._since_ns = None

    def charge_since(self, began_ns: int) -> None:
        """For work that is not between ``start`` and ``stop``; ``began_ns`` is of ``now_ns``."""
        self._enter_turn()
        self._turn_ns += self._clock_ns() - began_ns

    def now_ns(self) -> int:
        """Of the clock that time is charged by."""
        return self._clock_ns()

    def spend_bytes(self, count: int) -> None:
        """So much was read."""
        self._turn_bytes += count

    def spend_frame(self) -> None:
        """A frame is taken."""
        self._turn_count += 1

    def start_cost(self) -> None:
        """What is done from now on is the cost of a refusal, if one follows."""
        self._command_turn = self._turn
        self._command_since_ns = self._clock_ns()

    def spend_command(self) -> None:
        """A command is taken."""
        self._turn_count += 1
        self._command_count += 1
        self.start_cost()

    def spend_commands(self, count: int) -> None:
        """The command that was taken costs as much as so many."""
        self._command_count += count

    def spend_no_op(self) -> None:
        """The frame or command that was taken has moved nothing."""
        self._no_op_count += 1

    def spend_refusal(self, byte_count: int) -> None:
        """The command that was taken last, of so many bytes, is refused, and would be again."""
        self._no_op_count += 1
        # One that gave way to the loop has waited, which is no work.
        if self._command_turn == self._turns.number():
            # No command of so many bytes takes more; the rest went to other processes.
            most_ns = COMMAND_NS_MAX + byte_count * COMMAND_NS_PER_BYTE_MAX
            self._owe(min(self._clock_ns() - self._command_since_ns, most_ns))

    def spend_end(self, byte_count: int) -> None:
        """A frame of so many bytes ends the session: half a second's worth, and its own cost."""
        self.spend_refusal(byte_count)
        self._owe(self._limits.no_op_us_max * US_NS // 2 + byte_count * READ_NS_PER_BYTE)

    # What follows from it -----------------------------------------------------------------------

    @property
    def is_turn_over(self) -> bool:
        """Whether the rest should be done in a later turn."""
        if not self._enter_turn():
            return False
        limits = self._limits
        if self._turn_count >= limits.turn_count_max or self._turn_bytes >= limits.turn_bytes_max:
            return True
        used_ns = self._turn_ns
        if self._since_ns is not None:
            used_ns += self._clock_ns() - self._since_ns
        return used_ns >= limits.turn_us_max * US_NS

    async def give_way(self) -> None:
        """If the turn is over, return in a later one, after the sockets that wait already."""
        if self.is_turn_over:
            self._waiting_count += 1
            try:
                await self._turns.next_turn()
            finally:
                self._waiting_count -= 1

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` in a later turn, after the sockets that wait already."""

        def go_on_now() -> None:
            self._waiting_count -= 1
            go_on()

        self._waiting_count += 1
        self._turns.wait(go_on_now)

    @property
    def is_waiting(self) -> bool:
        """Whether there is more to do for this socket as soon as it has its turn."""
        return self._waiting_count > 0

    def pause_s(self) -> float:
        """For how long nothing should be read; 0: it may be. May set ``excess``."""
        limits = self._limits
        if self._paused_until_ns:
            left_ns = self._paused_until_ns - self._clock_ns()
            if left_ns > 0:
                return left_ns / SECOND_NS
        owed_s = self.debt.seconds(self._clock_ns()) if self._is_owing else 0
        if owed_s or self._no_op_count > limits.no_ops_per_second_max:
            seconds = min(max(1, owed_s), limits.pause_s_max)
            self._record_excess(seconds, is_costly=owed_s > 0)
        elif self._command_count > limits.commands_per_second_max:
            seconds = 1
        else:
            return 0
        self._is_owing = owed_s > seconds
        now_ns = self._clock_ns()
        end_ns = max(now_ns, self._second_end_ns) + (seconds - 1) * SECOND_NS
        self._paused_until_ns = self._second_end_ns = end_ns
        self._command_count = self._no_op_count = 0
        return (end_ns - now_ns) / SECOND_NS

    # --------------------------------------------------------------------------------------------

    def _enter_turn(self) -> bool:
        """Whether this is still the turn that was counted last; else a new count begins."""
        turn = self._turns.number()
        if turn == self._turn:
            return True
        self._turn = turn
        self._turn_count = 0
        self._turn_bytes = 0
        self._turn_ns = 0
        if self._since_ns is not None:
            self._since_ns = self._clock_ns()
        return False

    def _start_second(self, now_ns: int) -> None:
        if not self._is_exceeded or now_ns >= self._second_end_ns + SECOND_NS:
            self._excess_s = 0
        self._is_exceeded = False
        self._command_count = self._no_op_count = 0
        self._paused_until_ns = 0
        self._second_end_ns = now_ns + SECOND_NS

    def _owe(self, cost_ns: int) -> None:
        self._is_owing = True
        self.debt.add(cost_ns * SECOND_NS // (self._limits.no_op_us_max * US_NS), self._clock_ns())

    def _record_excess(self, seconds: int, *, is_costly: bool) -> None:
        limits = self._limits
        self._is_exceeded = True
        if self._no_op_count:  # else an old debt, which is only paid off
            self._excess_s += seconds
        if self._excess_s < limits.excess_s_max or self.excess:
            return
        for_long = f"for {limits.excess_s_max} s in a row"
        if is_costly:
            time_max = f"{limits.no_op_us_max / 1_000:g} ms a second"
            self.excess = f"refused commands took more than {time_max} {for_long}"
        else:
            what = "pings, pongs, small fragments and commands without effect"
            self.excess = f"over {limits.no_ops_per_second_max} {what} a second {for_long}"
        self.debt.add(limits.excess_s_max * SECOND_NS, self._clock_ns())
