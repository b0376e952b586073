"""Runs one harness in a reduced form and says what it caught."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tests.storage_engine.crash.explore import explored
from tests.storage_engine.crash.violation import Violation
from tests.storage_engine.kills.history_checker import Anomaly
from tests.storage_engine.planted.catchers import SCENARIOS

SEED: Final = 4
STATES: Final = 400
# A bug that also spoils the put after a recovery shows as "unusable" first: go on for what it lost.
VIOLATIONS_MAX: Final = 60
# A plant that does not fit the engine any more; nothing was caught.
_PLANTED_WRONGLY: Final = (TypeError, AttributeError, NameError)


def caught_as(catcher: str, *, states: int = STATES) -> Anomaly | None:
    """What was wrong, by name and in words; None when nothing was found."""
    scenario = SCENARIOS.get(catcher)
    if scenario is None:
        try:
            found = explored(catcher, seed=SEED, state_max=states, violations_max=VIOLATIONS_MAX)
        except _PLANTED_WRONGLY:
            raise
        except Exception as exc:
            return _anomaly(exc, "the workload itself ended with ")
        telling = [anomaly for anomaly in found.violations if anomaly[0] != "unusable"]
        return next(iter(telling or found.violations), None)
    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(_awaited(catcher))
    except Exception as exc:
        return _anomaly(exc, "")
    finally:
        logging.disable(logging.NOTSET)
    return None


def _anomaly(exc: Exception, before: str) -> Anomaly:
    name = exc.name if isinstance(exc, Violation) else type(exc).__name__
    return name, f"{before}{exc!r}"


async def _awaited(catcher: str) -> None:
    await SCENARIOS[catcher]()
