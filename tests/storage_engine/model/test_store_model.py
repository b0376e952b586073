"""The whole store against dicts and lists: runs of 50 random steps."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.sizes import sized
from tests.storage_engine.model.store_machine import StoreMachine

pytestmark = [pytest.mark.sized, pytest.mark.timeout(1_200)]
TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=sized(15, torture=500),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
