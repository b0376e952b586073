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
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from tests.acceptance.history.asking import is_drained, make_topic_and_group
from tests.acceptance.history.control import ControlAsker
from tests.acceptance.history.events import Cut, History
from tests.acceptance.history.load import Load, LoadRun
from tests.acceptance.partitions.clients import (
    TIMEOUT_S,
    CutControlAsker,
    CutProducer,
    CutRestConsumer,
    CutSocketConsumer,
)
from tests.acceptance.partitions.installation import CLIENT_WEB, LINKS, WEB_POSTGRES, Installation
from tests.acceptance.partitions.network import Direction, Link

HOLD_S: Final = (2.0, 5.0)
CLIENT_HOLD_S: Final = (TIMEOUT_S + 1, TIMEOUT_S + 3)  # some requests are given up
LONG_HOLD_S: Final = 40.0  # by then what look-ups have found is not fresh any more
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


def run_partitions(
    installation: Installation, partitions: Sequence[Partition], *, seed: int, name: str
) -> LoadRun:
    """Each in turn, under load; ``name`` of a topic and an ordered group that are not there yet.

    A cut has fired when it dropped packets.
    """
    run = LoadRun(History())
    draw = random.Random(seed)
    host = installation.network.hosts["clients"]
    host.run(lambda: make_topic_and_group(installation.facts, name, {"ordered": True}))
    facts = msgspec.structs.replace(installation.facts, topic=name, group=name)
    producers = [CutProducer(f"p{n}", facts, run.history, seed) for n in range(2)]
    consumers = [
        CutRestConsumer("rest", facts, run.history, seed),
        CutSocketConsumer("socket-1", facts, run.history, seed),
        CutSocketConsumer("socket-2", facts, run.history, seed),
    ]
    asker = CutControlAsker("control", facts, run.history, seed)
    for client in (*producers, *consumers, asker):
        client.host = host
    load = Load(run, producers=producers, consumers=consumers, others=[asker])
    load.start()
    cuts = _Cuts(installation, load, asker)
    for partition in partitions:
        cuts.cut(partition, hold_s=partition.hold_s(draw))
    load.finish(lambda: host.run(lambda: is_drained(facts, name)), is_ordered=True)
    return run


class _Cuts:
    """What is to be seen of the clients while links are cut."""

    def __init__(self, installation: Installation, load: Load, asker: ControlAsker) -> None:
        self._installation = installation
        self._load = load
        self._asker = asker

    def cut(self, partition: Partition, *, hold_s: float) -> None:
        """Cuts, holds and heals one link; notes what did not go on, or not again."""
        network = self._installation.network
        run, must, flows_since = self._load.run, self._load.must, self._load.flows_since
        link, direction, _ = partition
        begun = time.monotonic()
        network.cut(link, direction)
        threading.Event().wait(hold_s)  # a cut has to last: nothing tells when it has lasted
        held = time.monotonic()
        must(f"{partition} drops", "fault-never-fired",
                  lambda: network.dropped_count(link, direction) > 0)  # fmt: skip
        if link != CLIENT_WEB:
            must(f"{partition}, and messages flow", "stopped", lambda: flows_since(held))
        if link == WEB_POSTGRES:
            must(
                f"{partition}, and the control plane answers", "unanswered",
                lambda: self._asker.was_answered_since(begun, is_good=False),
                s_max=ANSWER_S_MAX,
            )  # fmt: skip
        dropped_count = network.dropped_count(link, direction)
        network.heal(link, direction)
        healed, healed_epoch_s = time.monotonic(), time.time()
        if dropped_count:
            run.fired[str(partition)] += 1
            run.counts["packets_dropped"] += dropped_count
        until = healed + (healed - begun) + LATE_S
        if link == CLIENT_WEB:
            run.history.add(Cut(until, at=begun))
        must(f"{partition} is over, and messages flow", "not-healed",
                  lambda: flows_since(max(healed, until)))  # fmt: skip
        must(
            f"{partition} is over, and the control plane answers as before", "not-healed",
            lambda: self._asker.was_answered_since(healed, is_good=True),
        )  # fmt: skip
        must(
            f"{partition} is over, and workers and beat do their work", "not-healed",
            lambda: network.hosts["postgres"].run(
                lambda: self._installation.have_beaten_since(healed_epoch_s)
            ),
        )  # fmt: skip
