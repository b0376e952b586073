"""Every way by turns: a workload's runs lie close together, so that all meet the same machine.

    prepare all ─▶ round 1: a, b, c ─▶ round 2: a, b, c ─▶ … ─▶ finish all ─▶ Figure of each

Before each run the file systems are synced, so that nobody pays for what another left unwritten.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from typing import Final, TypeVar

import httpx
import msgspec

from bench.measure import MeasureFailed
from bench.peers.peer import WayFacts
from bench.peers.usage import Usage
from mqservice.cli.errors import ClientError

T = TypeVar("T")
FAILURES: Final = (MeasureFailed, ClientError, httpx.HTTPError, OSError, TimeoutError)
REASON_CHARS: Final = 500


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float
    warm_up_seconds: float
    idle_seconds: float
    repeats: int


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One run. ``extra`` are further figures by name and unit."""

    value: float
    usage: Usage
    extra: dict[str, float] = {}


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One way in one workload: its runs, and of the one in the middle what it used and told."""

    workload: str
    way: WayFacts
    median: float
    runs: list[float]
    usage: Usage
    extra: dict[str, float] = {}


class Turn(ABC):
    """One way in one workload."""

    facts: WayFacts

    @abstractmethod
    async def prepare(self, timing: Timing) -> None:
        """What is not measured: topics, connections, a warm-up."""

    @abstractmethod
    async def once(self, timing: Timing) -> Measured: ...

    @abstractmethod
    async def finish(self) -> None:
        """Undo ``prepare``, also a part of it."""

    def standing(self, runs: Sequence[Measured]) -> Measured:
        """The run that stands for all: the one in the middle, unless they say otherwise."""
        return sorted(runs, key=lambda run: run.value)[len(runs) // 2]


async def by_turns(
    workload: str, turns: Sequence[Turn], timing: Timing
) -> tuple[list[Figure], dict[str, str]]:
    """(figures; reasons of those that have none, by label), in the order of ``turns``."""
    runs: dict[str, list[Measured]] = {turn.facts.label: [] for turn in turns}
    failed: dict[str, str] = {}
    for turn in turns:
        _note(failed, turn, await _tried(turn.prepare(timing)))
    for _ in range(timing.repeats):
        for turn in turns:
            label = turn.facts.label
            if label not in failed:
                await asyncio.to_thread(os.sync)
                outcome = await _tried(turn.once(timing))
                if isinstance(outcome, Measured):
                    runs[label].append(outcome)
                else:
                    _note(failed, turn, outcome)
    for turn in turns:
        _note(failed, turn, await _tried(turn.finish()))
    figures = [
        _figure(workload, turn, runs[turn.facts.label])
        for turn in turns
        if turn.facts.label not in failed
    ]
    return figures, failed


def _figure(workload: str, turn: Turn, runs: Sequence[Measured]) -> Figure:
    standing = turn.standing(runs)
    return Figure(
        workload=workload,
        way=turn.facts,
        median=standing.value,
        runs=[round(run.value, 3) for run in runs],
        usage=standing.usage,
        extra=standing.extra,
    )


def _note(failed: dict[str, str], turn: Turn, outcome: str | None) -> None:
    if outcome:
        failed.setdefault(turn.facts.label, outcome)


async def _tried(step: Awaitable[T]) -> T | str:
    """The step's result, or why it failed. Mistakes of this program are raised."""
    try:
        return await step
    except FAILURES as exc:
        return f"{type(exc).__name__}: {exc}"[:REASON_CHARS]
    except ExceptionGroup as group:
        expected, others = group.split(FAILURES)
        if others is not None or expected is None:
            raise
        first: BaseException = expected
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        return f"{type(first).__name__}: {first}"[:REASON_CHARS]
