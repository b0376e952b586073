"""All bugs that are caught by named tests, theme by theme."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

import django

from tests.planted.plant import Plant

_THEMES: Final = (
    "engine_delivery",
    "engine_keeping",
    "engine_lag",
    "engine_replication",
    "engine_takeover",
    "engine_old_segments",
    "engine_stores",
    "service_tenants",
    "service_masking",
    "service_issues",
    "service_answers",
    "service_edges",
    "service_road",
    "service_networks",
    "service_shards",
    "service_sqs",
)


@cache
def all_plants() -> tuple[Plant, ...]:
    """Imports most of the service, for which Django must be set up first."""
    import_module("tests.plugin")  # what settings want to find in the environment
    django.setup()
    modules = [import_module(f"tests.planted.{name}") for name in _THEMES]
    return tuple(plant for module in modules for plant in module.PLANTS)


def get_plant(name: str) -> Plant:
    """Raises ``KeyError``."""
    return {plant.name: plant for plant in all_plants()}[name]
