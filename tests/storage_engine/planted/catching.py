"""Runs one harness in a reduced form and says what it caught."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tests.storage_engine.crash.explore import explored
from tests.storage_engine.planted.catchers import SCENARIOS

SEED: Final = 4
STATES: Final = 400


def caught_as(catcher: str, *, states: int = STATES) -> str | None:
    """What was wrong, in words; None when nothing was found."""
    scenario = SCENARIOS.get(catcher)
    if scenario is None:
        try:
            found = explored(catcher, seed=SEED, state_max=states)
        except Exception as exc:
            return f"the workload itself ended with {exc!r}"
        return found.violations[0] if found.violations else None
    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(_awaited(catcher))
    except Exception as exc:
        return repr(exc)
    finally:
        logging.disable(logging.NOTSET)
    return None


async def _awaited(catcher: str) -> None:
    await SCENARIOS[catcher]()
