"""A run of the comparison: which workloads belong to it, and which run a figure is of."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.peers.__main__ import _chosen
from bench.peers.peer import WayFacts
from bench.peers.turns import Measured, Timing, Turn, by_turns
from bench.peers.usage import Usage

TIMING = Timing(seconds=1, warm_up_seconds=0, idle_seconds=0, repeats=3)


class Scripted(Turn):
    """Measures what it is told, each with a latency of its own."""

    facts = WayFacts(label="scripted", peer="x", durability="none", is_synced=False)

    def __init__(self, *values: float) -> None:
        self._values = list(values)

    async def prepare(self, timing: Timing) -> None:
        """Nothing."""

    async def once(self, timing: Timing) -> Measured:
        value = self._values.pop(0)
        usage = Usage(seconds=1, server_cores=value, generator_cores=0, other_cores=0)
        return Measured(value=value, usage=usage, extra={"p99_ms": value})

    async def finish(self) -> None:
        """Nothing."""


class Adding(Scripted):
    """The last run has counted those before."""

    def standing(self, runs: Sequence[Measured]) -> Measured:
        return runs[-1]


@pytest.mark.parametrize(("turn", "value"), [(Scripted(2, 9, 1), 2), (Adding(2, 9, 1), 1)])
async def test_value_usage_and_what_else_is_told_are_of_one_run(turn: Turn, value: float) -> None:
    [figure], failed = await by_turns("w", [turn], TIMING)
    assert failed == {}
    assert (figure.median, figure.usage.server_cores, figure.extra) == (
        value, value, {"p99_ms": value},
    )  # fmt: skip
    assert figure.runs == [2, 9, 1]


def test_with_a_workload_come_those_that_go_before_it() -> None:
    def keys(*only: str) -> list[str]:
        return [each.key for each in _chosen(only, is_quick=False, is_large=False)]

    assert keys("topics-rest") == ["topics-made", "topics-socket", "topics-rest"]
    assert keys("idle", "topics-socket") == ["topics-made", "topics-socket", "idle"]
    assert keys("backlog") == ["backlog"]
    assert "backlog" not in keys()
