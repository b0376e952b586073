"""Samples as the sampler writes them, and rules over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mqservice.accounts.models import Namespace
from mqservice.alerts.models import AlertRule
from mqservice.groups.models import ConsumerGroup
from mqservice.sampling.limits import SAMPLE_MS
from mqservice.sampling.models import GroupSample
from tests.people import People

NOW_MS = 1_900_000_000_000  # after whatever the rows were created at
Measured = Callable[..., None]
Rule = Callable[..., AlertRule]


@pytest.fixture
def group(people: People) -> ConsumerGroup:
    return ConsumerGroup.objects.create(namespace=people.acme, name="billing")


@pytest.fixture
def measured(people: People) -> Measured:
    """A sample of group billing; its columns by name."""

    def measure(at_ms: int = NOW_MS, *, namespace: Namespace | None = None, **columns: Any) -> None:
        # Any: whatever the columns hold
        GroupSample.objects.create(
            **{
                "namespace": namespace or people.acme, "group_name": "billing", "topic": "",
                "resolution_ms": SAMPLE_MS, "at_ms": at_ms, "known_count": 1, **columns,
            }
        )  # fmt: skip

    return measure


@pytest.fixture
def rule(group: ConsumerGroup) -> Rule:
    """A rule over group billing that fires at a lag of 100; its fields by name."""

    def make(**fields: Any) -> AlertRule:  # Any: whatever the fields hold
        return AlertRule.objects.create(
            **{
                "namespace": group.namespace, "name": "slow", "kind": "lag",
                "group_name": group.name, "threshold": 100, **fields,
            }
        )  # fmt: skip

    return make
