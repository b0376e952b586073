"""Power cuts at any moment of a workload: the store recovers from each state they leave."""

from __future__ import annotations

from typing import Final

import pytest

from tests.sizes import in_torture
from tests.storage_engine.crash.explore import explored, explored_recoveries

SEED: Final = 20_260
# Of each workload; the steps crash_states and crash_in_recovery of `make torture` try many more.
STATES: Final = 60
STATES_INSIDE_RECOVERY: Final = 30
# A few of the workloads; those steps run all of them.
TRIED: Final = ("keyed_sends", *in_torture("consume_and_ack", "segment_roll", "a_sync_that_failed"))
RECOVERED: Final = ("segment_roll", *in_torture("single_sends"))


@pytest.mark.parametrize("name", TRIED)
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
