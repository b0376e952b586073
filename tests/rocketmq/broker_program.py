"""A RocketMQ broker as a program: it writes a store, or opens one and says what it serves.

    pom.xml ── mvn, once ──▶ .cache/rocketmq/lib      [run_broker] ── java Broker.java ──▶ Served

``why_no_broker`` says in a line what a machine lacks; its tests are skipped there.
"""

from __future__ import annotations

import fcntl
import functools
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = Path(__file__).with_name("broker")
CACHE: Final = ROOT / ".cache" / "rocketmq"
FETCH_S: Final = 300
RUN_S: Final = 180


@dataclass
class Served:
    """What a broker serves: bodies by (topic, queue id, queue offset), and the rest."""

    messages: dict[tuple[str, int, int], str] = field(default_factory=dict)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)  # topic@group, queue id
    groups: set[str] = field(default_factory=set)

    def bodies(self, topic: str) -> list[str]:
        """Of all queues of a topic, in order."""
        return [body for (of, _, _), body in sorted(self.messages.items()) if of == topic]


@functools.cache
def why_no_broker() -> str:
    """Why no broker can be run here; empty when one can. The first call fetches it."""
    return why_not_fetched("RocketMQ's broker", PROJECT, CACHE)


def why_not_fetched(what: str, project: Path, cache: Path) -> str:
    """Fetch the jars of a project's ``pom.xml`` into ``cache``/lib, once; why not, if it fails."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            return f"{what} is not run: there is no {program} (a JDK 17 and Maven do)"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other test processes wait for the one that fetches
        done = cache / "complete"
        wanted = (project / "pom.xml").read_text()
        if done.exists() and done.read_text() == wanted:
            return ""
        shutil.rmtree(cache / "lib", ignore_errors=True)  # of another pom.xml
        copy = ["dependency:copy-dependencies", f"-DoutputDirectory={cache / 'lib'}"]
        try:
            fetched = subprocess.run(
                ["mvn", "-q", "-B", *copy],
                cwd=project, capture_output=True, text=True, timeout=FETCH_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"{what} is not run: Maven did not fetch it within {FETCH_S} s"
        if fetched.returncode != 0:
            last = fetched.stdout.strip().rpartition("\n")[2]
            return f"{what} is not run: Maven cannot fetch it: {last}"
        done.write_text(wanted)
    return ""


def run_broker(home: Path, *arguments: str) -> Served:
    """Run the broker's program to its end; ``home`` gets its logs."""
    with running_broker(home, *arguments) as (served, _):
        return served


def refusal_of_broker(home: Path, *arguments: str) -> str:
    """What the broker's program says that does not open a store; empty when it does."""
    ended = subprocess.run(
        _command(home, *arguments), cwd=home, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=RUN_S, check=False,
    )  # fmt: skip
    return ended.stderr if ended.returncode else ""


@contextmanager
def running_broker(home: Path, *arguments: str) -> Iterator[tuple[Served, subprocess.Popen[str]]]:
    """The broker's program while it runs, and its process. It stops in order at the end, unless
    the process was killed.
    """
    served = Served()
    with (
        (home / "broker.err").open("w+") as errors,
        subprocess.Popen(
            _command(home, *arguments), cwd=home, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        ) as broker,
    ):  # fmt: skip
        too_long = threading.Timer(RUN_S, broker.kill)
        too_long.start()
        try:
            assert broker.stdin is not None
            assert broker.stdout is not None
            is_ready = False
            for line in broker.stdout:
                match line.rstrip("\n").split("\t"):
                    case ["MESSAGE", topic, queue_id, queue_offset, body]:
                        served.messages[topic, int(queue_id), int(queue_offset)] = body
                    case ["OFFSET", name, queue_id, offset]:
                        served.offsets[name, int(queue_id)] = int(offset)
                    case ["GROUP", name]:
                        served.groups.add(name)
                    case ["READY"]:
                        is_ready = True
                        break
            assert is_ready, (home / "broker.err").read_text()[-4_000:]
            yield served, broker
            broker.stdin.close()
            code = broker.wait()
            assert code in (0, -signal.SIGKILL), (home / "broker.err").read_text()[-4_000:]
        finally:
            too_long.cancel()
            broker.kill()


def _command(home: Path, *arguments: str) -> list[str]:
    java = ["java", "-Xmx512m", f"-Duser.home={home}", "-cp", f"{_jars()}/*"]
    return [*java, str(PROJECT / "Broker.java"), *arguments]


def _jars() -> Path:
    return CACHE / "lib"
