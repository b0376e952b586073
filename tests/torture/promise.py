"""One promise of the engine, and how the tests that try to break it are named."""

from __future__ import annotations

from typing import Final, NamedTuple


class Promise(NamedTuple):
    """``tests`` are pytest's names; ``steps`` those of a release run."""

    id: str
    text: str
    tests: tuple[str, ...]
    steps: tuple[str, ...] = ()


_ENGINE: Final = "tests/storage_engine"


def engine_tests(file: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{_ENGINE}/test_{file}.py::test_{name}" for name in names)
