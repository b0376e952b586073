"""The whole service backed up under load, lost, and brought back in another place."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from mqservice.supervisor.quickstart import Quickstart
from tests.acceptance.history.asking import is_drained, make_topic_and_group
from tests.acceptance.history.clients import Client, Producer, RestConsumer
from tests.acceptance.history.events import Accepted, Acked, Delivered, History
from tests.services import Service, client_of, run_up, running_service, wait_until

pytestmark = [pytest.mark.torture, pytest.mark.acceptance, pytest.mark.timeout(600)]
SEED = 20_266
NAME = "kept"  # of topic and group
WAIT_S = 120
BodyT = TypeVar("BodyT", Accepted, Acked, Delivered)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mqservice.cli.main", "backup", *arguments]


def environment(data_dir: Path) -> dict[str, str]:
    ours = ("MQ_", "DATABASE_URL", "VALKEY_URL", "DJANGO_SETTINGS_MODULE")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**clean, "MQ_DATA_DIR": str(data_dir)}


def backup(data_dir: Path, *arguments: str) -> str:
    """Run a command to its end; what it said."""
    done = subprocess.run(
        command(*arguments), env=environment(data_dir), capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


def kill_while_it_restores(data_dir: Path, place: Path) -> None:
    restoring = subprocess.Popen(command("restore", str(place)), env=environment(data_dir))
    try:
        wait_until((data_dir / "store.restoring").is_dir, WAIT_S, "it copies")
    finally:
        restoring.send_signal(signal.SIGKILL)
        restoring.wait(10)


def stop_all(clients: list[Client]) -> None:
    for client in clients:
        client.stop()
    for client in clients:
        client.join(60)
    assert [client.failure for client in clients] == [None] * len(clients)


class SparingProducer(Producer):
    """What is produced while a backup is made must all be consumed in the other place."""

    pause_s = 0.05
    batch_count = 10


def load_of(facts: Quickstart, history: History) -> list[Client]:
    return [
        SparingProducer("p0", facts, history, SEED),
        SparingProducer("p1", facts, history, SEED),
        RestConsumer("rest", facts, history, SEED),
    ]


def bodies(history: History, kind: type[BodyT], before: float = math.inf) -> set[str]:
    events = [each for each in history.of(kind) if isinstance(each, kind) and each.at < before]
    return {each.body for each in events}


def begin_schedule(service: Service, facts: Quickstart) -> None:
    """A message that comes due after the restore, and whose sender asks only once."""
    with client_of(facts) as mq:
        mq.send(NAME, "scheduled", delay="20s")


def test_what_was_acknowledged_before_a_backup_lives_on_in_another_place(
    service: Service, tmp_path: Path
) -> None:
    make_topic_and_group(service.facts, NAME, {})
    facts = msgspec.structs.replace(service.facts, topic=NAME, group=NAME)
    before, after = History(), History()
    clients = load_of(facts, before)
    for client in clients:
        client.start()
    wait_until(lambda: len(before.of(Acked)) > 200, WAIT_S, "messages are settled")
    begin_schedule(service, facts)
    began_at = time.monotonic()
    backup(service.data_dir, "create", str(tmp_path / "backup"))
    ended_at = time.monotonic()
    stop_all(clients)
    acknowledged = bodies(before, Accepted, began_at)
    settled = bodies(before, Acked, began_at)
    assert len(acknowledged) > len(settled) > 200
    assert any(began_at < each.at < ended_at for each in before.of(Accepted))

    backup(service.data_dir, "verify", str(tmp_path / "backup"))
    data_dir = tmp_path / "data"
    kill_while_it_restores(data_dir, tmp_path / "backup")
    refused = run_up(data_dir)
    assert refused.returncode == 2
    assert "is incomplete" in refused.stderr
    backup(data_dir, "restore", str(tmp_path / "backup"))

    with running_service(data_dir) as elsewhere:
        assert elsewhere.facts.api_key == facts.api_key
        there = msgspec.structs.replace(elsewhere.facts, topic=NAME, group=NAME)
        consumer = RestConsumer("again", there, after, SEED)
        consumer.start()
        wait_until(lambda: is_drained(elsewhere.facts, NAME), WAIT_S, "all is consumed")
        wait_until(
            lambda: "scheduled" in bodies(after, Delivered), WAIT_S, "what was scheduled has come"
        )
        producer = Producer("new", there, after, SEED)
        producer.start()
        wait_until(lambda: len(after.of(Accepted)) > 50, WAIT_S, "new messages are taken")
        producer.stop()
        producer.join(60)
        wait_until(lambda: is_drained(elsewhere.facts, NAME), WAIT_S, "all is consumed again")
        stop_all([consumer])
    delivered = bodies(after, Delivered)
    assert not settled & delivered
    assert acknowledged <= delivered | bodies(before, Acked)
    assert bodies(after, Accepted) <= delivered
