"""Power cuts at every moment of every workload: the store recovers from each state they leave."""

from __future__ import annotations

from typing import Final

import pytest

from tests.storage_engine.crash.explore import explored, explored_recoveries
from tests.storage_engine.crash.workloads import WORKLOADS

SEED: Final = 20_260
STATES: Final = 2_100  # of each workload
STATES_INSIDE_RECOVERY: Final = 350
WORKLOADS_KEPT: Final = [
    "checkpoints",
    "crashes_one_after_the_other",
    "many_queues",
    "restarts_in_the_middle",
    "topics_made_while_sending",
]


@pytest.mark.parametrize("name", WORKLOADS_KEPT)
def test_a_power_cut_at_any_moment_keeps_every_promise(name: str) -> None:
    found = explored(name, seed=SEED, state_max=STATES)
    assert found.violations == []
    assert found.state_count == STATES


@pytest.mark.parametrize("name", WORKLOADS_KEPT)
def test_a_power_cut_inside_recovery_keeps_every_promise(name: str) -> None:
    found = explored_recoveries(name, seed=SEED, state_max=STATES_INSIDE_RECOVERY)
    assert found.violations == []
    assert found.state_count >= STATES_INSIDE_RECOVERY


def test_every_workload_named_here_exists() -> None:
    assert set(WORKLOADS_KEPT) <= WORKLOADS.keys()
