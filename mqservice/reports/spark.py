"""Runs Spark as its own process, and says how far it has come and why it failed.

    [run_spark] ── python -m analytics run … ──▶ Java ──▶ lines of JSON ──▶ tell(step, done, total)

Java never lives inside a worker.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from mqservice.lib.clock import Clock
from mqservice.reports.programs import Failure, RunFailed, child_env, run_program

PROGRAM: Final = (sys.executable, "-P", "-m", "analytics", "run")
_BY_EXIT_CODE: Final = {
    1: Failure.JOB_FAILED,
    2: Failure.ARGUMENTS,
    3: Failure.STORE_UNREADABLE,
    4: Failure.NO_SPARK,
}


class Progress(msgspec.Struct, frozen=True):
    """A line before each step."""

    step: str
    done: int
    total: int


class Outcome(msgspec.Struct, frozen=True):
    """The last line: records of each day of UTC, of each shard the days that the lake does not have
    whole, rows of each report.
    """

    records: dict[str, int]
    incomplete_days: dict[str, list[str]]
    report_rows: dict[str, int]

    @property
    def step_count(self) -> int:
        """How many there were: one for each shard and report."""
        return len(self.incomplete_days) + len(self.report_rows)


def run_spark(
    arguments: Sequence[str],
    *,
    limit_s: int,
    clock: Clock,
    tell: Callable[[Progress], None],
    still_wanted: Callable[[], bool],
    program: Sequence[str] = PROGRAM,
) -> Outcome:
    """Run it to its end. Raises ``RunFailed``, or ``RunSuperseded`` once ``still_wanted`` says
    no.
    """
    outcomes: list[Outcome] = []

    def on_line(line: bytes) -> None:
        """Lines of others on standard output are passed over: Java may print what it likes."""
        with contextlib.suppress(msgspec.DecodeError):
            outcomes.append(msgspec.json.decode(line, type=Outcome))
            return
        with contextlib.suppress(msgspec.DecodeError):
            tell(msgspec.json.decode(line, type=Progress))

    code, said = run_program(
        [*program, *arguments],
        env=child_env(os.environ),
        limit_s=limit_s,
        clock=clock,
        on_line=on_line,
        still_wanted=still_wanted,
    )
    if code == 0 and outcomes:
        return outcomes[-1]
    if code in _BY_EXIT_CODE:
        failure = _BY_EXIT_CODE[code]
        shown = said.splitlines()[-1] if said and failure is Failure.NO_SPARK else failure.value
        raise RunFailed(failure, shown, said)
    raise RunFailed(Failure.KILLED, f"the process exited with {code}", said)
