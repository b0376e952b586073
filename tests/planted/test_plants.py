"""The bugs that a release run plants still fit the code, and the tests that they name exist.

``make torture`` says whether they are caught; here they must only not rot.
"""

from __future__ import annotations

import ast
from functools import cache
from typing import Final

import pytest

from tests.planted.catalogue import all_plants, get_plant
from tests.planted.plant import DoesNotFit, Plant, Thing
from tests.planted.plugin import Failure, Outcome, kind_of
from tests.planted.run_plant import ROOT, Verdict, try_plant, verdict
from tests.storage_engine.planted.bugs import BUGS
from tests.torture import named_bugs

PLANTS: Final = all_plants()
RELEASE_MIN: Final = 40  # planted in a release run, those of every run among them
FAILED: Final = Failure("t", "call", "AssertionError", "no")


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_bug_fits_what_it_takes_the_place_of(plant: Plant) -> None:
    plant.check()


def test_every_test_that_a_bug_names_exists() -> None:
    named = {test for plant in PLANTS for test in plant.tests}

    missing = {test for test in named if not _exists(test)}

    assert missing == set()
    assert all(plant.tests for plant in PLANTS)


def test_enough_bugs_are_planted_each_under_a_name_of_its_own() -> None:
    names = [plant.name for plant in PLANTS] + [bug.name for bug in BUGS]

    assert len(names) >= RELEASE_MIN
    assert len(set(names)) == len(names)


def test_a_bug_that_its_test_fails_for_is_caught() -> None:
    assert try_plant(get_plant("line_break_of_a_stranger_in_the_log")).caught_as == "AssertionError"


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome(passed_count=1, fired_count=1), Verdict()),
        (Outcome(fired_count=1, failures=[FAILED]), Verdict(caught_as="AssertionError")),
        (Outcome(fired_count=0, failures=[FAILED]), Verdict(wrongly="no test met it")),
        (
            Outcome(fired_count=1, failures=[FAILED], mistakes=["TypeError()"]),
            Verdict(wrongly="its own error: TypeError()"),
        ),
        (
            Outcome(fired_count=1, failures=[FAILED, Failure("t", "setup", "OSError", "none")]),
            Verdict(wrongly="t setup: none"),
        ),
        (
            Outcome(fired_count=1, failures=[Failure("t", "call", "OSError,TypeError", "own")]),
            Verdict(wrongly="t call: own"),
        ),
    ],
)
def test_only_a_test_that_fails_as_tests_do_has_caught_a_bug(
    outcome: Outcome, expected: Verdict
) -> None:
    assert verdict(outcome) == expected


@pytest.mark.parametrize(
    ("found", "anomalies"),
    [
        (Verdict(caught_as="AssertionError"), []),
        (Verdict(), ["planted-bug-missed"]),
        (Verdict(caught_as="AssertionError", wrongly="its own error"), ["planted-wrongly"]),
    ],
)
def test_a_run_counts_as_caught_what_was_and_calls_all_else_an_anomaly(
    found: Verdict, anomalies: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_bugs, "try_plant", lambda plant: found)

    part = named_bugs.named_bug("origin_by_substring")

    assert [anomaly.name for anomaly in part.anomalies] == anomalies
    assert part.counts == {"planted": 1} | ({} if anomalies else {"caught": 1})
    assert bool(part.planted[0].caught_as) == (not anomalies)


@pytest.mark.parametrize(
    ("passed_count", "wrong", "is_good"), [(1_000, "", True), (1_000, "t", False), (0, "", False)]
)
def test_controls_that_fail_or_do_not_run_are_an_anomaly(
    passed_count: int, wrong: str, is_good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_bugs, "try_unplanted", lambda tests: (passed_count, wrong))

    part = named_bugs.unplanted_tests(PLANTS[0].theme)

    assert [anomaly.name for anomaly in part.anomalies] == ["control-failed"] * (not is_good)


def test_errors_in_groups_are_told_each() -> None:
    group = ExceptionGroup("all", [ValueError(), ExceptionGroup("some", [TypeError()])])

    assert kind_of(group) == "TypeError,ValueError"


def test_a_bug_that_does_not_fit_is_refused() -> None:
    def wants_more(real: Thing, value: Thing, more: Thing) -> None:
        return

    for target in ("mqservice.lib.csv_cells:csv_cell", "mqservice.lib.csv_cells:gone", "gone:gone"):
        with pytest.raises(DoesNotFit):
            Plant(wants_more, "", target, ()).check()


def test_a_mistake_in_a_bug_is_told_from_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from mqservice.lib import csv_cells

    def mistaken(real: Thing, value: Thing) -> Thing:
        return value.nothing

    firing = Plant(mistaken, "", "mqservice.lib.csv_cells:csv_cell", ()).put_in(monkeypatch)
    with pytest.raises(AttributeError):
        csv_cells.csv_cell("text")

    assert firing.count == 1
    assert "AttributeError" in firing.mistakes[0]


def _exists(test: str) -> bool:
    """Whether there is such a function; which parameters it has is not looked at."""
    path, _, name = test.partition("::")
    return name.partition("[")[0] in _tests_of(path)


@cache
def _tests_of(path: str) -> frozenset[str]:
    """Names of all tests in a file; the empty one for the file itself."""
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset({"", *(node.name for node in tree.body if isinstance(node, functions))})
