"""A standalone Spark cluster on this machine: a master and two workers, each a process of its own.

[standalone_cluster] ──▶ master ◀── two workers, registered ──▶ spark://127.0.0.1:PORT
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark

from tests.mqservice.delivery.wait_until import wait_until

WORKERS: Final = 2
_START_WAIT_S: Final = 120
_STOP_WAIT_S: Final = 10
_ROOT: Final = Path(__file__).resolve().parents[2]
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
# The daemons do next to nothing; what they start gets its memory from the session's settings.
_SMALL_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@contextmanager
def standalone_cluster(directory: Path) -> Iterator[str]:
    """Its URL, once both workers are known to the master. Everything is ended with it."""
    with ExitStack() as stack:
        said = directory / "master.log"
        host = ("--host", "127.0.0.1")
        stack.enter_context(_daemon(said, _MASTER, *host, "--port", "0", "--webui-port", "0"))
        # What it says last is that it leads, and from then on it takes workers.
        wait_until(lambda: "New state: ALIVE" in _text(said), _START_WAIT_S)
        found = re.search(r"spark://127\.0\.0\.1:\d+", _text(said))
        assert found is not None, _text(said)
        for number in range(WORKERS):
            place = directory / f"worker{number}"
            place.mkdir()
            stack.enter_context(
                _daemon(
                    place / "log", _WORKER, *host, "--cores", "1", "--memory", "600m",
                    "--webui-port", "0", "--work-dir", str(place), found[0],
                )
            )  # fmt: skip
        wait_until(_count_of(said, "Registering worker", WORKERS), _START_WAIT_S)
        yield found[0]


@contextmanager
def _daemon(log: Path, name: str, *arguments: str) -> Iterator[None]:
    home = Path(pyspark.__file__).parent
    env = {
        **os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": _SMALL_JAVA, "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(_ROOT),
    }  # fmt: skip
    with log.open("wb") as file:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), name, *arguments],
            env={**env, "SPARK_CONF_DIR": str(_conf(log.parent))},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(_STOP_WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _conf(directory: Path) -> Path:
    """A directory of settings that lets the daemons say what they do."""
    made = directory / "conf"
    made.mkdir(exist_ok=True)
    (made / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.stderr.ref = console\n"
        "appender.console.type = Console\nappender.console.name = console\n"
        "appender.console.target = SYSTEM_ERR\nappender.console.layout.type = PatternLayout\n"
        "appender.console.layout.pattern = %m%n\n"
    )
    return made


def _count_of(log: Path, text: str, count: int) -> Callable[[], bool]:
    return lambda: _text(log).count(text) >= count


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.exists() else ""
