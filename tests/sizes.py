"""How often tests that count repeat: a few times in ``make test``, many in ``make torture``.

    MQ_TORTURE ──▶ [sized] ──▶ kills, examples, messages

Such tests carry the mark ``sized``; both runs have them. Tests with the mark ``torture`` show once
more, or at length, what a test of ``make test`` shows, or another case of what it shows; only
``make torture`` runs them.
"""

from __future__ import annotations

import os
from typing import Final

import pytest
from _pytest.mark import ParameterSet

IS_TORTURE: Final = bool(os.environ.get("MQ_TORTURE"))


def in_torture(*values: object) -> list[ParameterSet]:
    """Parameters of tests that only ``make torture`` runs, each of one value or a tuple of them."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.torture)
        for value in values
    ]


def sized(few: int, *, torture: int) -> int:
    """``few``, or in ``make torture`` so many as ``torture`` says."""
    return torture if IS_TORTURE else few
