"""A Kafka broker as a program, alone in KRaft mode.

    kafka_broker/pom.xml ── mvn, once ──▶ .cache/kafka/lib     [running_kafka] ── java ──▶ address

``why_no_kafka`` says in a line what a machine lacks; its tests are skipped there.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.ports import find_steady_port
from tests.rocketmq.broker_program import ROOT, why_not_fetched

PROJECT: Final = Path(__file__).with_name("kafka_broker")
CACHE: Final = ROOT / ".cache" / "kafka"
# 16 bytes as Base64. Not a random one: what begins with "-" is an option to Kafka's tool.
CLUSTER_ID: Final = "tests-of-mq-service-00"
START_S: Final = 60
STOP_S: Final = 30


@functools.cache
def why_no_kafka() -> str:
    """Why no broker can be run here; empty when one can. The first call fetches it."""
    return why_not_fetched("Kafka's broker", PROJECT, CACHE)


@contextmanager
def running_kafka() -> Iterator[str]:
    """Its address. Everything that it keeps is gone afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        home = Path(directory)
        address = f"127.0.0.1:{find_steady_port()}"
        controller = f"127.0.0.1:{find_steady_port()}"
        (home / "server.properties").write_text(_properties(home, address, controller))
        _run(home, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "--standalone", "-c")
        with (
            (home / "broker.log").open("w") as log,
            subprocess.Popen(
                [*_JAVA, "kafka.Kafka", "server.properties"], cwd=home, stdout=log, stderr=log
            ) as broker,
        ):
            try:
                _wait_for(address, broker, home)
                yield address
            finally:
                broker.terminate()
                try:
                    broker.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    broker.kill()


def _wait_for(address: str, broker: subprocess.Popen[bytes], home: Path) -> None:
    host, _, port = address.partition(":")
    pause = threading.Event()
    for _ in range(START_S * 10):
        assert broker.poll() is None, (home / "broker.log").read_text()[-4_000:]
        with contextlib.suppress(OSError), socket.create_connection((host, int(port))):
            return
        pause.wait(0.1)
    raise AssertionError((home / "broker.log").read_text()[-4_000:])


_JAVA: Final = [
    *("java", "-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("-cp", f"{CACHE}/lib/*"),
]


def _run(home: Path, *arguments: str) -> None:
    done = subprocess.run(
        [*_JAVA, *arguments, "server.properties"], cwd=home, capture_output=True, text=True,
        timeout=START_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def _properties(home: Path, address: str, controller: str) -> str:
    return f"""
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers={controller}
listeners=PLAINTEXT://{address},CONTROLLER://{controller}
advertised.listeners=PLAINTEXT://{address}
controller.listener.names=CONTROLLER
log.dirs={home / "data"}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
"""
