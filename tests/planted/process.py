"""Runs a module of the service as ``python -m`` does, with the bug that ``MQ_PLANT`` names in it.

    python -m tests.planted.process mqservice.web … ──▶ bug put in ──▶ the module, as the main one

Only bugs that tests meet over the network are put into other processes: those of
``service_networks``. The engine has none of them, and starts as it is.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import django
import pytest

from tests.planted import service_networks
from tests.planted.plant import Firing
from tests.planted.plugin import PLANT, TOLD


def main() -> None:
    """See the module's docstring."""
    del sys.argv[0]
    module = sys.argv[0]
    plants = {plant.name: plant for plant in service_networks.PLANTS}
    plant = plants.get(os.environ[PLANT])
    if plant is not None and not module.startswith("storage_engine"):
        Firing.told = Path(os.environ[TOLD]) if TOLD in os.environ else None
        if plant.target.startswith("mqservice.lib."):  # before settings are read
            plant.put_in(pytest.MonkeyPatch())
        django.setup()
        if not plant.target.startswith("mqservice.lib."):
            plant.put_in(pytest.MonkeyPatch())
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
