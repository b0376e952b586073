"""kill -9 of a real engine under load, again and again: nothing acknowledged is ever lost."""

from __future__ import annotations

from typing import Final

from tests.storage_engine.kills.history_checker import anomalies
from tests.storage_engine.kills.kill_loop import run_kill_loop
from tests.storage_engine.kills.outcomes import Outcome

SEED: Final = 20_260
# `make torture` kills 500 times in its step kills, and waits then for the leases that may be left.
KILLS: Final = 5
ACKED_EACH: Final = 11


def test_nothing_acknowledged_is_lost_however_often_the_engine_is_killed() -> None:
    loop = run_kill_loop(KILLS, seed=SEED, acked_each=ACKED_EACH, is_patient=False)
    assert anomalies(loop.history) == []
    assert loop.kill_count >= KILLS
    assert loop.kill_in_start_count > 0
    assert loop.history.count(Outcome.ACKED) >= ACKED_EACH * (KILLS - 2)
    assert loop.history.count(Outcome.UNKNOWN) > 0
