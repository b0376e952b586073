"""Puts the bug that ``MQ_PLANT`` names into a pytest run and writes down how its tests ended.

    MQ_PLANT=name, MQ_PLANT_OUTCOME=path ──▶ pytest -p tests.planted.plugin … ──▶ Outcome, JSON

Without ``MQ_PLANT`` nothing is put in, and the outcome is that of the code as it is. Processes that
the tests start put the bug in by themselves (``process.py``), and say so in ``MQ_PLANT_TOLD``.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.planted.catalogue import get_plant
from tests.planted.plant import Firing

PLANT: Final = "MQ_PLANT"
OUTCOME: Final = "MQ_PLANT_OUTCOME"
TOLD: Final = "MQ_PLANT_TOLD"
_DETAIL_CHARS_MAX: Final = 500
_patch: Final = pytest.MonkeyPatch()


class Failure(msgspec.Struct, frozen=True):
    """``kind``: the error's class, those of a group by commas. ``phase``: setup, call, teardown."""

    test: str
    phase: str
    kind: str
    detail: str


class Outcome(msgspec.Struct):
    """``fired_count``: how often the bug was met."""

    passed_count: int = 0
    fired_count: int = 0
    failures: list[Failure] = []
    mistakes: list[str] = []


_outcome: Final = Outcome()
_firings: Final[list[Firing]] = []


@pytest.hookimpl(trylast=True)
def pytest_sessionstart() -> None:
    """Django is set up by now, and no test is imported yet."""
    name = os.environ.get(PLANT)
    if not name:
        return
    _firings.append(get_plant(name).put_in(_patch))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.passed:
        _outcome.passed_count += 1
    if report.failed and call.excinfo is not None:
        exc = call.excinfo.value
        _outcome.failures.append(
            Failure(item.nodeid, call.when, kind_of(exc), repr(exc)[:_DETAIL_CHARS_MAX])
        )
    return report


def pytest_unconfigure() -> None:
    _patch.undo()
    for firing in _firings:
        _outcome.fired_count += firing.count
        _outcome.mistakes += firing.mistakes
    path = os.environ.get(OUTCOME)
    told = Path(os.environ[TOLD]) if TOLD in os.environ else None
    if told is not None and told.exists():
        lines = told.read_text().splitlines()
        _outcome.fired_count += lines.count("met")
        _outcome.mistakes += [line for line in lines if line != "met"]
    if path:
        Path(path).write_bytes(msgspec.json.encode(_outcome))


def kind_of(exc: BaseException) -> str:
    """Names of the errors themselves, not of the groups that hold them."""
    if isinstance(exc, BaseExceptionGroup):
        return ",".join(sorted({kind_of(each) for each in exc.exceptions}))
    return type(exc).__name__
