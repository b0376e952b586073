"""Each process replaced in turn under mixed load: nothing is lost, stuck or unheard-of."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from tests.acceptance.history.asking import is_drained, make_topic_and_group
from tests.acceptance.history.clients import Client
from tests.acceptance.history.events import Accepted, History, killed_within
from tests.acceptance.history.judge import judge
from tests.acceptance.history.watching import (
    Signals,
    WatchingProducer,
    WatchingRestConsumer,
    WatchingSocketConsumer,
)
from tests.services import Service, running_service, wait_until

pytestmark = [pytest.mark.torture, pytest.mark.acceptance, pytest.mark.timeout(600)]
SEED = 20_267
NAME = "rolling"
DRAIN_WAIT_S = 120
KINDS = ("web", "worker", "beat", "engine")
REPLACED = {"web-1", "web-2", "worker", "beat", "engine"}


def restart(data_dir: Path, kind: str) -> list[str]:
    """What the command said, a line for each process."""
    done = subprocess.run(
        [sys.executable, "-m", "mqservice.cli.main", "restart", kind],
        env={**os.environ, "MQ_DATA_DIR": str(data_dir)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def clients_of(service: Service, history: History, signals: Signals) -> list[Client]:
    facts = msgspec.structs.replace(service.facts, topic=NAME, group=NAME)
    producers = [WatchingProducer(f"p{n}", facts, history, SEED) for n in range(2)]
    # Of two, one may come to a process that is new already, and see no end at all.
    sockets = [WatchingSocketConsumer(f"socket-{n}", facts, history, SEED) for n in range(4)]
    rest = WatchingRestConsumer("rest", facts, history, SEED)
    rest.signals = signals
    for producer in producers:
        producer.signals = signals
    for socket in sockets:
        socket.signals = signals
    return [*producers, *sockets, rest]


def test_clients_outlive_new_processes_for_all_old_ones(tmp_path: Path) -> None:
    history, signals = History(), Signals()
    with running_service(tmp_path / "data", MQ_WEB_WORKERS="2", MQ_SEPARATE_WORKERS="1") as service:
        make_topic_and_group(service.facts, NAME, {})
        clients = clients_of(service, history, signals)
        for client in clients:
            client.start()
        wait_until(lambda: len(history.of(Accepted)) > 200, 120, "there is load")
        before = service.facts.pids
        for kind in KINDS:
            begun_s = time.monotonic()
            said = restart(service.data_dir, kind)
            for kill in killed_within(kind, begun_s, time.monotonic()):
                history.add(kill)
            assert len(said) == (2 if kind == "web" else 1), said
            print("\n".join(said))
        after = service.facts.pids
        accepted_count = len(history.of(Accepted))
        wait_until(
            lambda: len(history.of(Accepted)) > accepted_count, 120, "messages are taken again"
        )
        for producer in clients[:2]:
            producer.stop()
            producer.join(60)
        wait_until(lambda: is_drained(service.facts, NAME), DRAIN_WAIT_S, "all is consumed")
        for client in clients[2:]:
            client.stop()
            client.join(60)

    assert {name for name in before if after[name] != before[name]} == REPLACED
    assert [client.failure for client in clients] == [None] * len(clients)
    verdict = judge(history)
    print(f"{verdict.accepted_count} accepted, again because {dict(verdict.explained)}")
    print(f"signals: {dict(signals.seen)}")
    assert verdict.violations == {}
    assert signals.forbidden == []
    # A process tells its sockets before it goes; which of the two a client is at is chance.
    assert signals.seen["frame goaway"] >= 1
    assert signals.seen["close 1012"] >= 2
