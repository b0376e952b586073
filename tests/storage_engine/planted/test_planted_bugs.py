"""The test of the tests: a bug that is planted into the engine must be caught.

Here one for each harness; the step planted_bugs of `make torture` plants all of them.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.storage_engine.planted.bugs import BUGS, Bug
from tests.storage_engine.planted.catchers import SCENARIOS
from tests.storage_engine.planted.catching import caught_as

PLANTED_MIN: Final = 9
STATES: Final = 150  # enough for each; `make torture` looks at 400
WORKLOADS: Final = ("single_sends", "segment_roll", "consume_and_ack")  # of the crash explorer
TRIED: Final = {bug.caught_by: bug for bug in reversed(BUGS)}  # the first bug of each


@pytest.mark.parametrize(
    "bug", [TRIED[name] for name in (*WORKLOADS, *SCENARIOS)], ids=lambda bug: bug.name
)
def test_a_planted_bug_is_caught(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert caught_as(bug.caught_by, states=STATES) is not None


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_without_a_bug_the_scenarios_find_nothing(scenario: str) -> None:
    assert caught_as(scenario) is None  # test_crash_states says the same of the workloads


def test_enough_bugs_are_planted() -> None:
    assert len(BUGS) >= PLANTED_MIN
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert set(SCENARIOS) <= {bug.caught_by for bug in BUGS}
