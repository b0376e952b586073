"""What the table of group settings says is what the row, the engine and the policies have."""

from __future__ import annotations

import msgspec

from mqservice import store
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.retry import shown_retry
from mqservice.groups.settings import (
    ASSIGNMENT_NAMES_MAX,
    DELAY_MS_MAX,
    RETRY,
    RETRY_DELAYS_MAX,
    SETTINGS,
)
from mqservice.store import ExponentialDelays, GroupConfig


def test_each_setting_has_its_column_and_the_engine_the_same_default() -> None:
    defaults = {setting.key: setting.stored_default for setting in SETTINGS}

    row = ConsumerGroup()
    assert {column: getattr(row, column) for column in defaults} == defaults
    config = msgspec.convert({"group": "acme%billing", **defaults}, GroupConfig)
    assert config == GroupConfig(group="acme%billing")
    assert {"group", *defaults} == set(GroupConfig.__struct_fields__)


def test_a_form_offers_the_delays_that_a_policy_without_any_has() -> None:
    offered = {part.name: part.shown_default for part in RETRY.parts_of("exponential")[1:]}

    assert {"policy": "exponential", **offered} == shown_retry(ExponentialDelays())


def test_the_limits_of_documents_are_those_of_the_engine() -> None:
    assert (DELAY_MS_MAX, RETRY_DELAYS_MAX, ASSIGNMENT_NAMES_MAX) == (
        store.DELAY_MS_MAX,
        store.RETRY_DELAY_COUNT_MAX,
        store.ASSIGNMENT_NAMES_MAX,
    )
