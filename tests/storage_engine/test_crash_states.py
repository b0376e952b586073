"""Power cuts at every moment of every workload: the store recovers from each state they leave."""

from __future__ import annotations

from typing import Final

import pytest

from tests.storage_engine.crash.explore import explored, explored_recoveries
from tests.storage_engine.crash.workloads import WORKLOADS

SEED: Final = 20_260
# Of each workload; `make torture` tries many more in its steps crash_states, crash_in_recovery.
STATES: Final = 60
STATES_INSIDE_RECOVERY: Final = 30
RECOVERED: Final = ("single_sends", "consume_and_ack", "segment_roll", "checkpoints")


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_power_cut_at_any_moment_keeps_every_promise(name: str) -> None:
    found = explored(name, seed=SEED, state_max=STATES)
    assert found.violations == []
    assert found.state_count == STATES


@pytest.mark.parametrize("name", RECOVERED)
def test_a_power_cut_inside_recovery_keeps_every_promise(name: str) -> None:
    found = explored_recoveries(name, seed=SEED, state_max=STATES_INSIDE_RECOVERY)
    assert found.violations == []
    assert found.state_count >= STATES_INSIDE_RECOVERY


@pytest.mark.torture
def test_what_a_crash_left_of_a_put_without_a_clear_end_can_be_settled() -> None:
    """In the story of this seed a failed sync leaves a message, which is received and acked."""
    found = explored("anything_in_any_order", seed=3, state_max=STATES)
    assert found.violations == []
    assert found.state_count == STATES
