"""The jobs of a run: each calls one harness once and says what happened.

steps ── function, arguments ──▶ [work, in a process of its own] ── Part ──▶ steps

Arguments and results are small and can be sent between processes.
"""

from __future__ import annotations

import asyncio
import logging
import math
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import seed as seeded
from hypothesis.stateful import invariant, run_state_machine_as_test

from bench.scale import recover
from tests.storage_engine.crash.explore import explored, explored_recoveries
from tests.storage_engine.crash.violation import Violation
from tests.storage_engine.delivery.test_delivery_model import DeliveryMachine
from tests.storage_engine.faults.power import run_async_cut, run_cuts
from tests.storage_engine.faults.small_disk import fill_and_free
from tests.storage_engine.faults.traced import run_injured
from tests.storage_engine.kills.history_checker import anomalies
from tests.storage_engine.kills.kill_loop import run_kill_loop
from tests.storage_engine.kills.outcomes import History, Outcome
from tests.storage_engine.planted.bugs import BUGS
from tests.storage_engine.planted.catching import caught_as
from tests.storage_engine.replication.takeovers import (
    LOST_WITH_REPLICA,
    LOST_WITHOUT_REPLICA,
    broken_promises,
    run_takeovers,
)
from tests.torture.evidence import Anomaly, Part, Planted

ACKED_EACH: Final = 11  # between two kills
STEPS_EACH: Final = 60  # of one example of the delivery model
# S7, for a million messages or fewer. Of CPU: what the clock says depends on the neighbours too.
RECOVERY_CPU_MS_MAX: Final = 10_000
PLANTED_THEME: Final = "Disk, crashes and recovery"


def crash_states(workload: str, seed: int, state_max: int) -> Part:
    """Power cuts and kills at every moment of a workload."""
    try:
        found = explored(workload, seed=seed, state_max=state_max)
    except Violation as exc:  # while the workload ran, before any crash
        return Part(anomalies=[Anomaly(exc.name, f"{workload}, seed {seed}: {exc}")])
    injected = {f"{kind}, injected": count for kind, count in found.fired.items()}
    return Part(
        counts={
            "states": found.state_count,
            "states_after_kill": found.killed_count,
            "system_calls": found.operation_count,
            "acked": found.answered_count,
        },
        fired={"power cut": found.state_count, "kill": found.killed_count} | injected,
        anomalies=_anomalies(found.violations),
    )


def crash_in_recovery(workload: str, seed: int, state_max: int) -> Part:
    """Power cuts while recovering from a power cut."""
    try:
        found = explored_recoveries(workload, seed=seed, state_max=state_max)
    except Violation as exc:
        return Part(anomalies=[Anomaly(exc.name, f"{workload}, seed {seed}: {exc}")])
    return Part(
        counts={"states": found.state_count, "system_calls": found.operation_count},
        fired={"power cut inside recovery": found.state_count},
        anomalies=_anomalies(found.violations),
    )


def kills(kill_count: int, seed: int) -> Part:
    """kill -9 of an engine that is worked on."""
    loop = run_kill_loop(kill_count, seed=seed)
    running_count = loop.kill_count - loop.kill_in_start_count
    return Part(
        counts={"kills": loop.kill_count} | _counts(loop.history),
        fired={
            "kill -9": running_count,
            "kill -9 of a starting engine": loop.kill_in_start_count,
        },
        anomalies=_anomalies(anomalies(loop.history)),
    )


def takeovers(kill_count: int, seed: int) -> Part:
    """kill -9 of owners of a shard with a replicated log; most lose their disk too."""
    history, fired = run_takeovers(kill_count, seed=seed, acked_each=ACKED_EACH)
    lost_count = fired[LOST_WITH_REPLICA] + fired[LOST_WITHOUT_REPLICA]
    return Part(
        counts={"kills": kill_count, "lost_disks": lost_count} | _counts(history),
        fired=dict(fired),
        anomalies=_anomalies(broken_promises(history)),
    )


def planted_bug(name: str, states: int) -> Part:
    """One bug in the engine; that nothing catches it is an anomaly."""
    bug = next(bug for bug in BUGS if bug.name == name)
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        caught = caught_as(bug.caught_by, states=states)
    if caught is None:
        missed = [Anomaly("planted-bug-missed", name)]
        planted = Planted(name=name, caught_by=bug.caught_by, caught_as="", theme=PLANTED_THEME)
        return Part(counts={"planted": 1}, anomalies=missed, planted=[planted])
    planted = Planted(name=name, caught_by=bug.caught_by, caught_as=caught[0], theme=PLANTED_THEME)
    return Part(counts={"planted": 1, "caught": 1}, planted=[planted])


def unplanted(scenario: str) -> Part:
    """The same scenario on the engine as it is finds nothing."""
    caught = caught_as(scenario)
    found = [] if caught is None else [caught]
    return Part(counts={"controls": 1}, anomalies=_anomalies(found))


def injured_calls(injection: str, seed: int) -> Part:
    """An unmodified engine process whose system calls fail, are slow, or end it."""
    injured = run_injured(injection, seed=seed)
    call, what = injection.split(":")[:2]
    if what.startswith("signal"):
        fired = {f"kill -9 at {call}": int(injured.has_died)}
    else:
        kind = "delay of" if what.startswith("delay") else what.partition("=")[2] + " from"
        fired = {f"{kind} {call}": injured.fired_count}
    not_reached = {} if any(fired.values()) else {"injections_not_reached": 1}
    return Part(
        counts={"injections": 1} | not_reached | _counts(injured.history),
        fired=fired,
        anomalies=_anomalies(injured.anomalies),
    )


def power_cuts(cut_count: int, seed: int) -> Part:
    """The power of a mounted disk is cut while sync topics are worked on."""
    cuts = run_cuts(cut_count, seed=seed)
    return Part(
        counts={"cuts": cuts.cut_count} | _counts(cuts.history),
        fired={"power cut of ext4": cuts.cut_count},
        anomalies=_anomalies(cuts.anomalies),
    )


def async_power_cut(seed: int) -> Part:
    """The same with an async topic, whose youngest messages may go."""
    cut = run_async_cut(seed=seed)
    return Part(
        counts={"cuts": 1, "async_lost_within_window": cut.window_lost_count}
        | _counts(cut.history),
        fired={"power cut of ext4": 1},
        anomalies=_anomalies(cut.anomalies),
    )


def full_disk(body_bytes: int) -> Part:
    """A disk without room, which gets some again."""
    try:
        refused_count = fill_and_free(body_bytes)
    except Violation as exc:
        return Part(counts={"disks": 1}, anomalies=[Anomaly(exc.name, str(exc))])
    return Part(
        counts={"disks": 1, "refused": refused_count}, fired={"put on a full disk": refused_count}
    )


def delivery_model(example_count: int, seed: int) -> Part:
    """Random receives, settles, times and restarts against dicts and lists."""
    counts: Counter[str] = Counter()

    @seeded(seed)
    class Counted(DeliveryMachine):
        @invariant()
        def count_a_step(self) -> None:
            counts["steps"] += 1

        def teardown(self) -> None:
            counts["examples"] += 1
            super().teardown()

    logging.disable(logging.ERROR)
    limits = settings(
        max_examples=example_count,
        stateful_step_count=STEPS_EACH,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(Counted, settings=limits)
    except Exception as exc:
        return Part(counts=counts, anomalies=[Anomaly("diverges", repr(exc))])
    finally:
        logging.disable(logging.NOTSET)
    return Part(counts=counts)


def recovery_time(message_count: int) -> Part:
    """How long a start takes that has to read everything again."""
    with tempfile.TemporaryDirectory(prefix="torture") as directory:
        row = asyncio.run(recover(Path(directory), message_count))
    counts = {
        "messages": int(row.extra["messages"]),
        "start_ms": math.ceil(row.extra["seconds"] * 1_000),
        "start_cpu_ms": math.ceil(row.extra["cpu_seconds"] * 1_000),
    }
    found = []
    if counts["start_cpu_ms"] > RECOVERY_CPU_MS_MAX:
        found.append(Anomaly("slow-recovery", f"{counts['start_cpu_ms']:,} ms of CPU"))
    return Part(counts=counts, fired={"kill -9": 1}, anomalies=found)


def _counts(history: History) -> dict[str, int]:
    outcomes = {str(outcome): history.count(outcome) for outcome in Outcome}
    return outcomes | {
        "deliveries": len(history.deliveries),
        "settles_answered": sum(settle.is_answered for settle in history.settles),
    }


def _anomalies(found: Iterable[tuple[str, str]]) -> list[Anomaly]:
    return [Anomaly(name, detail) for name, detail in found]
