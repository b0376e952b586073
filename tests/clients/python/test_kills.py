"""The judge of histories over the Python client while processes are killed and restarted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pytest

from mqservice.supervisor.quickstart import Quickstart
from tests.acceptance.history.events import Delivered, History, Killed
from tests.acceptance.nemesis.processes import Kill
from tests.acceptance.nemesis.run import Clients, Fault, run_faults
from tests.acceptance.nemesis.site import Site
from tests.acceptance.test_rolling_restart import restart
from tests.clients.python.conftest import Target
from tests.clients.python.history_clients import (
    Arrivals,
    AsyncConsumer,
    BatchProducer,
    HandlerConsumer,
    IteratingConsumer,
    RestConsumer,
)

pytestmark = [pytest.mark.acceptance, pytest.mark.torture, pytest.mark.timeout(300)]
SEED = 20_261


@dataclass(frozen=True, slots=True)
class Restart:
    """A process is replaced as an upgrade does it: its clients are asked to come again."""

    kind: str

    @property
    def name(self) -> str:
        return f"restart: {self.kind}"

    def fire(self, site: Site) -> None:
        site.history.add(Killed(self.kind))
        restart(site.service.data_dir, self.kind)
        site.load.run.fired[self.name] += 1
        site.history.add(Killed(self.kind))
        site.must_heal(f"{self.name} is over")


@pytest.mark.parametrize(
    "faults",
    [[Kill("engine"), Kill("web-1")], [Restart("web"), Restart("engine")]],
    ids=["kills", "restarts"],
)
def test_faults_of_engine_and_web_lose_nothing_and_store_nothing_twice(
    service: Target,
    faults: list[Fault],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert service.process is not None
    load = run_faults(
        service.process,
        faults,
        seed=SEED,
        name=f"python-{request.node.callspec.id}",
        is_ordered=False,
        is_thorough=False,
        clients=partial(python_clients, arrivals=Arrivals(monkeypatch)),
    )

    verdict = load.verdict
    print(
        f"{verdict.accepted_count} accepted, {verdict.delivered_count} deliveries, "
        f"again because {dict(verdict.explained)}"
    )
    assert load.anomalies == []
    assert verdict.accepted_count > 200
    assert verdict.explained["given back"] > 0
    places: dict[str, set[tuple[int, int]]] = {}
    for event in load.history.of(Delivered):
        assert isinstance(event, Delivered)
        if event.attempt == 1:
            places.setdefault(event.body, set()).add((event.queue, event.offset))
    assert {body: found for body, found in places.items() if len(found) > 1} == {}


def python_clients(facts: Quickstart, history: History, seed: int, arrivals: Arrivals) -> Clients:
    common = facts, history, seed, arrivals
    return Clients(
        [BatchProducer(f"p{number}", facts, history, seed) for number in range(2)],
        [
            RestConsumer("rest", *common),
            IteratingConsumer("loop", *common),
            HandlerConsumer("handler", *common),
            AsyncConsumer("async", *common),
        ],
    )
