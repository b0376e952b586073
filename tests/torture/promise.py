"""One promise of the engine, and how the tests that try to break it are named."""

from __future__ import annotations

from typing import Final, NamedTuple


class Promise(NamedTuple):
    """``tests`` are pytest's names; ``steps`` those of a release run."""

    id: str
    text: str
    tests: tuple[str, ...]
    steps: tuple[str, ...] = ()


ENGINE: Final = "tests/storage_engine"


def engine_tests(file: str, *names: str) -> tuple[str, ...]:
    """``delivery/ordered``: the tests ``names`` of ``delivery/test_ordered.py``."""
    folder, _, module = file.rpartition("/")
    path = f"{ENGINE}/{folder}/test_{module}.py" if folder else f"{ENGINE}/test_{module}.py"
    return tuple(f"{path}::test_{name}" for name in names)


CRASH: Final = engine_tests("crash/crash_states", "a_power_cut_at_any_moment_keeps_every_promise")
KILLS: Final = engine_tests(
    "kills/kill_loop", "nothing_acknowledged_is_lost_however_often_the_engine_is_killed"
)
MODEL: Final = ("tests/storage_engine/delivery/test_delivery_model.py::TestDelivery",)
