"""Cuts links of a running installation one after the other and judges what its clients saw.

    links × directions ──▶ cut ─ hold ─ heal ─ until all is as before ──▶ … ──▶ drained ──▶ judge

While the service is cut off from PostgreSQL or Valkey, messages must flow on and every question to
the control plane be answered; a minute after any cut at most everything works as before, without a
restart. Across all of them the history of the clients breaks no promise.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from tests.acceptance.history.asking import is_drained, make_topic_and_group
from tests.acceptance.history.clients import Client
from tests.acceptance.history.events import Accepted, Cut, Delivered, Event, History
from tests.acceptance.history.judge import Verdict, judge
from tests.acceptance.partitions.clients import (
    TIMEOUT_S,
    ControlAsker,
    CutProducer,
    CutRestConsumer,
    CutSocketConsumer,
)
from tests.acceptance.partitions.installation import CLIENT_WEB, LINKS, WEB_POSTGRES, Installation
from tests.acceptance.partitions.network import Direction, Link
from tests.services import wait_until

HOLD_S: Final = (2.0, 5.0)
CLIENT_HOLD_S: Final = (TIMEOUT_S + 1, TIMEOUT_S + 3)  # some requests are given up
LONG_HOLD_S: Final = 40.0  # by then what look-ups have found is not fresh any more
CONDITION_S_MAX: Final = 60
DRAIN_S_MAX: Final = 120
# Three times what the service's limits add up to, half of what the asker itself waits for.
ANSWER_S_MAX: Final = 30
# A packet that a cut dropped is sent again after at most as long as the cut took, and a little.
LATE_S: Final = 1.0


class Partition(NamedTuple):
    """One cut, which holds for some seconds, or for long."""

    link: Link
    direction: Direction
    is_long: bool = False

    def __str__(self) -> str:
        return f"{self.link}: {self.direction}{', long' if self.is_long else ''}"

    def hold_s(self, draw: random.Random) -> float:
        if self.is_long:
            return LONG_HOLD_S
        return draw.uniform(*(CLIENT_HOLD_S if self.link == CLIENT_WEB else HOLD_S))


ALL: Final = (
    *(Partition(link, direction) for link in LINKS for direction in Direction),
    Partition(WEB_POSTGRES, Direction.BOTH, is_long=True),
)


@dataclass(slots=True)
class PartitionRun:
    """``fired``: cuts that dropped packets; ``anomalies``: (name, text)."""

    history: History
    verdict: Verdict = field(default_factory=Verdict)
    fired: Counter[str] = field(default_factory=Counter)
    dropped_count: int = 0
    anomalies: list[tuple[str, str]] = field(default_factory=list)


def run_partitions(
    installation: Installation, partitions: Sequence[Partition], *, seed: int, name: str
) -> PartitionRun:
    """Each in turn, under load; ``name`` of a topic and an ordered group that are not there yet."""
    done = PartitionRun(History())
    draw = random.Random(seed)
    host = installation.network.hosts["clients"]
    host.run(lambda: make_topic_and_group(installation.facts, name, {"ordered": True}))
    facts = msgspec.structs.replace(installation.facts, topic=name, group=name)
    producers = [CutProducer(f"p{n}", facts, done.history, seed) for n in range(2)]
    consumers = [
        CutRestConsumer("rest", facts, done.history, seed),
        CutSocketConsumer("socket-1", facts, done.history, seed),
        CutSocketConsumer("socket-2", facts, done.history, seed),
    ]
    asker = ControlAsker("control", facts, done.history, seed)
    clients = [*producers, *consumers, asker]
    for client in clients:
        client.host = host
        client.start()
    load = _Load(installation, done, asker)
    load.must("the load begins", "not-started", lambda: load.flows_since(0))
    for partition in partitions:
        load.cut(partition, hold_s=partition.hold_s(draw))
    _stop([*producers, asker])
    load.must(
        "all is consumed", "not-drained", lambda: host.run(lambda: is_drained(facts, name)),
        s_max=DRAIN_S_MAX,
    )  # fmt: skip
    _stop(consumers)
    done.anomalies += [
        ("client-failed", f"{client.name}: {client.failure!r}")
        for client in clients
        if client.failure is not None
    ]
    done.verdict = judge(done.history, is_ordered=True)
    done.anomalies += [
        (violation, text) for violation, texts in done.verdict.violations.items() for text in texts
    ]
    return done


class _Load:
    """What is to be seen of the clients while links are cut."""

    def __init__(self, installation: Installation, done: PartitionRun, asker: ControlAsker) -> None:
        self._installation = installation
        self._done = done
        self._asker = asker

    def cut(self, partition: Partition, *, hold_s: float) -> None:
        """Cuts, holds and heals one link; notes what did not go on, or not again."""
        network = self._installation.network
        link, direction, _ = partition
        begun = time.monotonic()
        network.cut(link, direction)
        threading.Event().wait(hold_s)  # a cut has to last: nothing tells when it has lasted
        held = time.monotonic()
        self.must(f"{partition} drops", "fault-never-fired",
                  lambda: network.dropped_count(link, direction) > 0)  # fmt: skip
        if link != CLIENT_WEB:
            self.must(f"{partition}, and messages flow", "stopped", lambda: self.flows_since(held))
        if link == WEB_POSTGRES:
            self.must(
                f"{partition}, and the control plane answers", "unanswered",
                lambda: self._asker.was_answered_since(begun, is_good=False),
                s_max=ANSWER_S_MAX,
            )  # fmt: skip
        dropped_count = network.dropped_count(link, direction)
        network.heal(link, direction)
        healed, healed_epoch_s = time.monotonic(), time.time()
        if dropped_count:
            self._done.fired[str(partition)] += 1
            self._done.dropped_count += dropped_count
        until = healed + (healed - begun) + LATE_S
        if link == CLIENT_WEB:
            self._done.history.add(Cut(until, at=begun))
        self.must(f"{partition} is over, and messages flow", "not-healed",
                  lambda: self.flows_since(max(healed, until)))  # fmt: skip
        self.must(
            f"{partition} is over, and the control plane answers as before", "not-healed",
            lambda: self._asker.was_answered_since(healed, is_good=True),
        )  # fmt: skip
        self.must(
            f"{partition} is over, and workers and beat do their work", "not-healed",
            lambda: network.hosts["postgres"].run(
                lambda: self._installation.have_beaten_since(healed_epoch_s)
            ),
        )  # fmt: skip

    def flows_since(self, moment_s: float) -> bool:
        """Whether something was accepted, and each consumer got something, since then."""
        sent = any(event.at > moment_s for event in self._recent(Accepted))
        got = {
            event.consumer
            for event in self._recent(Delivered)
            if isinstance(event, Delivered) and event.at > moment_s
        }
        return sent and len(got) == 3

    def must(
        self,
        what: str,
        anomaly: str,
        condition: Callable[[], bool],
        *,
        s_max: float = CONDITION_S_MAX,
    ) -> None:
        try:
            wait_until(condition, s_max, what)
        except AssertionError as exc:
            self._done.anomalies.append((anomaly, str(exc)))

    def _recent(self, kind: type[Event]) -> list[Event]:
        return self._done.history.of(kind)[-2_000:]


def _stop(clients: Sequence[Client]) -> None:
    for client in clients:
        client.stop()
    for client in clients:
        client.join(CONDITION_S_MAX + 10)
