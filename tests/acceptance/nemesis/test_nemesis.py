"""Processes killed and standing still, clients that misbehave: nothing breaks, all heals."""

from __future__ import annotations

import pytest

from tests.acceptance.nemesis.dead_readers import DeadReaders
from tests.acceptance.nemesis.floods import NoisyNeighbour, Overload
from tests.acceptance.nemesis.processes import Kill, KillBackend, Pause
from tests.acceptance.nemesis.run import Fault, run_faults
from tests.services import Service

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
SEED = 20_261


def fire(service: Service, name: str, *faults: Fault, is_ordered: bool = True) -> None:
    """Each in turn, under load; all must fire, and nothing may be found."""
    run = run_faults(
        service, faults, seed=SEED, name=name, is_ordered=is_ordered, is_thorough=False
    )
    verdict = run.verdict
    print(
        f"seed {SEED}: {dict(run.fired)}, {verdict.accepted_count} accepted, "
        f"{verdict.delivered_count} deliveries, again because {dict(verdict.explained)}"
    )
    assert run.anomalies == []
    assert set(run.fired) == {fault.name for fault in faults}
    assert verdict.accepted_count > 500
    assert verdict.explained, "nothing was given back or forgotten: the load is not what it was"


@pytest.mark.parametrize(
    "is_ordered",
    [pytest.param(False, marks=pytest.mark.torture, id="plain"), pytest.param(True, id="ordered")],
)
def test_kills_on_the_way_of_messages_break_no_promise(service: Service, is_ordered: bool) -> None:
    name = "ordered" if is_ordered else "plain"
    fire(service, name, Kill("engine"), Kill("web-1"), Kill("engine"), is_ordered=is_ordered)


@pytest.mark.torture
def test_messages_flow_while_other_processes_are_killed(service: Service) -> None:
    fire(service, "others", *map(Kill, ("valkey", "worker")), KillBackend())


@pytest.mark.torture
def test_what_is_stalled_continues_afterwards(service: Service) -> None:
    fire(service, "pauses", *map(Pause, ("engine", "web-1", "postgres", "valkey")))


@pytest.mark.torture
def test_clients_that_misbehave_harm_nobody_else(service: Service) -> None:
    fire(service, "misbehaved", DeadReaders(), NoisyNeighbour(), Overload())
