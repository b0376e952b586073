"""Fires faults at a running service one after the other, under load, and judges what clients saw.

    faults ──▶ fire ─ until all is as before ──▶ … ──▶ drained ──▶ judge ──▶ LoadRun

Two producers and a receiver over REST and two consumers over WebSocket work all the while, unless
others are given; across all faults their history breaks no promise.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from bench.second_tenant import environment_of
from mqservice.supervisor.quickstart import Quickstart
from tests.acceptance.history.asking import is_drained, make_topic_and_group
from tests.acceptance.history.clients import Client, Producer, RestConsumer, SocketConsumer
from tests.acceptance.history.control import ControlAsker
from tests.acceptance.history.events import History
from tests.acceptance.history.load import Load, LoadRun
from tests.acceptance.nemesis.dead_readers import DeadReaders
from tests.acceptance.nemesis.floods import NoisyNeighbour, Overload
from tests.acceptance.nemesis.processes import Kill, KillBackend, Pause
from tests.acceptance.nemesis.site import Site
from tests.services import Service


class Fault(Protocol):
    """Fires, notes in the site's load what happened, and returns when all should be as before."""

    @property
    def name(self) -> str: ...

    def fire(self, site: Site) -> None: ...


KILL_NOTHING: Final[tuple[Fault, ...]] = (
    *map(Pause, ("engine", "web-1", "worker", "clock", "beat", "valkey", "postgres")),
    DeadReaders(),
    NoisyNeighbour(),
    Overload(),
)
ALL: Final[tuple[Fault, ...]] = (
    *map(Kill, ("engine", "web-1", "web-2", "worker", "clock", "beat", "valkey")),
    KillBackend(),
    *KILL_NOTHING,
)


class PacedProducer(Producer):
    """Small batches: requests meet a fault, messages only cost processor."""

    pause_s = 0.05
    batch_count = 10


class PatientSocketConsumer(SocketConsumer):
    """Frames do not say when a lease ends, and while processes start one may be read late."""

    lease_ms = 5_000


class Clients(NamedTuple):
    """The load of a run."""

    producers: Sequence[Client]
    consumers: Sequence[Client]


def plain_clients(facts: Quickstart, history: History, seed: int) -> Clients:
    return Clients(
        [PacedProducer(f"p{n}", facts, history, seed) for n in range(2)],
        [
            RestConsumer("rest", facts, history, seed),
            PatientSocketConsumer("socket-1", facts, history, seed),
            PatientSocketConsumer("socket-2", facts, history, seed),
        ],
    )


def run_faults(
    service: Service,
    faults: Iterable[Fault],
    *,
    seed: int,
    name: str,
    is_ordered: bool = True,
    is_thorough: bool = True,
    clients: Callable[[Quickstart, History, int], Clients] = plain_clients,
) -> LoadRun:
    """Each in turn; ``name`` of a topic and a group that are not there yet. See ``Site``."""
    run = LoadRun(History())
    make_topic_and_group(service.facts, name, {"ordered": is_ordered})
    facts = msgspec.structs.replace(service.facts, topic=name, group=name)
    asker = ControlAsker("control", facts, run.history, seed)
    producers, consumers = clients(facts, run.history, seed)
    load = Load(run, producers=producers, consumers=consumers, others=[asker])
    load.start()
    database_url = environment_of(service.facts.pids["web-1"])["DATABASE_URL"]
    site = Site(service, database_url, facts, load, asker, random.Random(seed), is_thorough)
    for fault in faults:
        fault.fire(site)
    site.must_beat("all faults are over", time.time())
    load.finish(lambda: is_drained(facts, name), is_ordered=is_ordered)
    return run
