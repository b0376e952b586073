"""The whole store against dicts and lists: 500 runs of 50 random steps."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.storage_engine.model.store_machine import StoreMachine

PARTS = 4  # there are several cores
SETTINGS = settings(
    max_examples=500 // PARTS,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
pytestmark = pytest.mark.timeout(1_200)  # half a minute on a core of its own


@pytest.mark.parametrize("part", range(PARTS))
def test_the_store_is_as_its_model_says(part: int) -> None:
    machine = type(f"StoreMachine{part}", (StoreMachine,), {})  # Hypothesis draws by the name
    run_state_machine_as_test(machine, settings=SETTINGS)
