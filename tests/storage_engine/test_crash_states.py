"""Power cuts at every moment of every workload: the store recovers from each state they leave."""

from __future__ import annotations

from typing import Final

import pytest

from tests.storage_engine.crash.explore import explored, explored_recoveries
from tests.storage_engine.crash.workloads import WORKLOADS

SEED: Final = 20_260
STATES: Final = 1_125  # of each workload, but for those whose few steps allow no more
FEWER_STATES: Final = {"crashes_one_after_the_other": 1_000, "async_with_checkpoints": 1_000}
STATES_INSIDE_RECOVERY: Final = 195
FEW_STATES: Final = 60

pytestmark = pytest.mark.timeout(300)  # seconds on a core of its own


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_power_cut_at_any_moment_keeps_every_promise(name: str) -> None:
    wanted = FEWER_STATES.get(name, STATES)
    found = explored(name, seed=SEED, state_max=wanted)
    assert found.violations == []
    assert found.state_count == wanted


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_power_cut_inside_recovery_keeps_every_promise(name: str) -> None:
    found = explored_recoveries(name, seed=SEED, state_max=STATES_INSIDE_RECOVERY)
    assert found.violations == []
    assert found.state_count >= STATES_INSIDE_RECOVERY


def test_what_a_crash_left_of_a_put_without_a_clear_end_can_be_settled() -> None:
    """In the story of this seed a failed sync leaves a message, which is received and acked."""
    found = explored("anything_in_any_order", seed=3, state_max=FEW_STATES)
    assert found.violations == []
    assert found.state_count == FEW_STATES


def test_enough_states_are_tried() -> None:
    assert len(WORKLOADS) >= 12
    assert sum(FEWER_STATES.get(name, STATES) for name in WORKLOADS) >= 30_000
    assert len(WORKLOADS) * STATES_INSIDE_RECOVERY >= 5_000
