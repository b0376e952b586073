"""Runs, their medians, and the CPU that processes used meanwhile.

workload ─▶ measured(window) ─▶ Run ─▶ repeated ─▶ Row ─▶ report
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

CLOCK_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the command's closing parenthesis, from 0.
GENERATOR: Final = "generator"
OTHERS: Final = "others"
USER_TICKS_AT: Final = 11
SYSTEM_TICKS_AT: Final = 12


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How long each run takes, and how often it is repeated."""

    warm_up_ms: int = 2_000
    duration_ms: int = 8_000
    repeats: int = 3

    @property
    def text(self) -> str:
        return (
            f"{self.repeats} runs of {self.duration_ms / 1000:g} s after "
            f"{self.warm_up_ms / 1000:g} s of warm-up each; the median counts"
        )


QUICK = Plan(warm_up_ms=500, duration_ms=2_000, repeats=1)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run. ``cpu`` is in cores, by process name; ``extra`` further figures by name and unit.

    ``course`` is how one figure went with another: (x, y) pairs, ``course_of`` names both.
    """

    rate: float
    cpu: dict[str, float] = {}
    extra: dict[str, float] = {}
    course: list[tuple[float, float]] = []
    course_of: tuple[str, str] = ("", "")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the result. ``target`` is the least that is wanted, None where nothing is; where
    ``is_less_better``, the most.
    """

    workload: str
    name: str
    unit: str
    median: float
    runs: list[float]
    setting: str
    cpu: dict[str, float] = {}
    extra: dict[str, float] = {}
    target: float | None = None
    is_less_better: bool = False
    course: list[tuple[float, float]] = []
    course_of: tuple[str, str] = ("", "")

    @property
    def is_met(self) -> bool | None:
        if self.target is None:
            return None
        return self.median <= self.target if self.is_less_better else self.median >= self.target


class Skipped(Exception):
    """A workload that cannot run on this machine; says why."""


class MeasureFailed(Exception):
    """A run whose figure would mean nothing, or that could not take place; says why."""


class Meter:
    """CPU and wall time of named processes between two moments.

    ``others`` is what the rest of the machine used: a figure taken beside a busy neighbour is not
    this service's.
    """

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = {**pids, GENERATOR: os.getpid()}
        self._before = {name: cpu_seconds(pid) for name, pid in self._pids.items()}
        self._machine_before = machine_cpu_seconds()
        self._children_before = children_cpu_seconds()
        self._started = time.perf_counter()

    def stop(self) -> tuple[float, dict[str, float]]:
        """(seconds passed, cores used by each process that used any)."""
        seconds = time.perf_counter() - self._started
        used = {
            name: (cpu_seconds(pid) - self._before[name]) / seconds
            for name, pid in self._pids.items()
        }
        # A load generator that ran as a child and ended meanwhile.
        used[GENERATOR] += (children_cpu_seconds() - self._children_before) / seconds
        machine = (machine_cpu_seconds() - self._machine_before) / seconds
        used[OTHERS] = machine - sum(used.values())
        return seconds, {name: round(cores, 2) for name, cores in used.items() if cores >= 0.01}


def cpu_us_each(run_cpu: dict[str, float], rate: float) -> float:
    """CPU that one message costs in the processes measured, generator and others left out."""
    ours = sum(cores for name, cores in run_cpu.items() if name not in (GENERATOR, OTHERS))
    return round(ours * 1_000_000 / rate, 1) if rate else 0.0


def machine_cpu_seconds() -> float:
    """Busy CPU time of the whole machine since it started."""
    user, nice, system, _idle, _wait, irq, soft, *_ = map(
        int, Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    )
    return (user + nice + system + irq + soft) / CLOCK_TICKS_PER_S


def children_cpu_seconds() -> float:
    """CPU time of this process's children that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its ended children's threads so far; 0 when it is gone."""
    try:
        content = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = content.rpartition(")")[2].split()
    return (int(fields[USER_TICKS_AT]) + int(fields[SYSTEM_TICKS_AT])) / CLOCK_TICKS_PER_S


async def repeated(
    once: Callable[[], Awaitable[Run]],
    plan: Plan,
    *,
    workload: str,
    name: str,
    unit: str,
    setting: str,
    target: float | None = None,
) -> Row:
    """Run ``once`` as often as planned; the row shows the run in the middle."""
    runs = [await once() for _ in range(plan.repeats)]
    return row_of(runs, workload=workload, name=name, unit=unit, setting=setting, target=target)


def row_of(
    runs: Sequence[Run],
    *,
    workload: str,
    name: str,
    unit: str,
    setting: str,
    target: float | None = None,
    is_less_better: bool = False,
) -> Row:
    """One line for several runs of the same thing."""
    middle = sorted(runs, key=lambda run: run.rate)[len(runs) // 2]
    extra = dict(middle.extra)
    if each := cpu_us_each(middle.cpu, middle.rate):
        extra["cpu_us_each"] = each
    return Row(
        workload=workload,
        name=name,
        unit=unit,
        median=statistics.median(run.rate for run in runs),
        runs=[round(run.rate, 3) for run in runs],
        setting=setting,
        cpu=middle.cpu,
        extra=extra,
        target=target,
        is_less_better=is_less_better,
        course=middle.course,
        course_of=middle.course_of,
    )


def ratio_row(workload: str, name: str, part: Row, whole: Row, *, target: float | None) -> Row:
    """``part`` as a share of ``whole``, both of this run."""
    return Row(
        workload=workload,
        name=name,
        unit="ratio",
        median=part.median / whole.median,
        runs=[],
        setting=f"{part.name} / {whole.name}",
        target=target,
    )
