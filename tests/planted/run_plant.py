"""Runs the tests that a bug names, in a process of their own, and says what they made of it.

    Plant ──▶ pytest -p tests.planted.plugin ── Outcome ──▶ [verdict] ──▶ Verdict

Caught is a bug that was met and that a named test failed for as tests fail. An error in the bug
itself, in a fixture, or a bug that no test met, was planted wrongly, which is no catch.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tests.planted.plant import MISTAKES, Plant
from tests.planted.plugin import OUTCOME, PLANT, TOLD, Outcome

ROOT: Final = Path(__file__).resolve().parents[2]
RUN_S_MAX: Final = 600
_STOP_S_MAX: Final = 30
_MISTAKES: Final = frozenset(each.__name__ for each in MISTAKES)
_PYTEST: Final = ("-m", "pytest", "-q", "-p", "tests.planted.plugin", "-p", "no:cacheprovider")


class Verdict(NamedTuple):
    """``caught_as``: the kind of failure, empty when nothing noticed. ``wrongly``: why the bug, or
    the run, proves nothing.
    """

    caught_as: str = ""
    wrongly: str = ""


def try_plant(plant: Plant) -> Verdict:
    """With the bug in the code."""
    outcome = run_tests(plant.tests, plant.name)
    return verdict(outcome) if isinstance(outcome, Outcome) else Verdict(wrongly=outcome)


def try_unplanted(tests: Iterable[str]) -> tuple[int, str]:
    """The same tests on the code as it is: how many passed, and what went wrong."""
    outcome = run_tests(sorted(set(tests)), "")
    if isinstance(outcome, str):
        return 0, outcome
    return outcome.passed_count, "; ".join(
        f"{each.test} {each.phase}: {each.detail}" for each in outcome.failures
    )


def verdict(outcome: Outcome) -> Verdict:
    """What a run with a bug in it says of that bug."""
    if outcome.mistakes:
        return Verdict(wrongly=f"its own error: {outcome.mistakes[0]}")
    if not outcome.fired_count:
        return Verdict(wrongly="no test met it")
    for failure in outcome.failures:
        if failure.phase != "call" or _MISTAKES & set(failure.kind.split(",")):
            return Verdict(wrongly=f"{failure.test} {failure.phase}: {failure.detail}")
    return Verdict(caught_as=outcome.failures[0].kind if outcome.failures else "")


def run_tests(tests: Iterable[str], plant_name: str) -> Outcome | str:
    """How they ended, or why nobody knows."""
    with tempfile.TemporaryDirectory(prefix="planted") as directory:
        path = Path(directory, "outcome.json")
        environment = {
            **os.environ,
            PLANT: plant_name,
            OUTCOME: str(path),
            TOLD: str(Path(directory, "told")),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(Path(directory, "hypothesis")),
            "PYTHONPATH": str(ROOT),
        }
        process = subprocess.Popen(
            [sys.executable, *_PYTEST, f"--basetemp={directory}/tmp", *tests],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=RUN_S_MAX)
        except BaseException:
            _stop(process)
            raise
        if process.returncode not in (0, 1) or not path.exists():
            return f"pytest ended with {process.returncode}: {said[-1_000:]}"
        return msgspec.json.decode(path.read_bytes(), type=Outcome)


def _stop(process: subprocess.Popen[str]) -> None:
    """As Ctrl-C does, so that it ends its servers."""
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=_STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
