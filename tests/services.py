"""The whole service as real processes, for acceptance tests.

running_service(data_dir) ──▶ `mqservice up` ──▶ quickstart.json appears ──▶ Service
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from mqservice_client import Client, Message

from mqservice.supervisor.quickstart import Quickstart, find_quickstart
from tests.ports import find_steady_port
from tests.prepared_cluster import prepare_data_dir

PROGRAM = (sys.executable, "-m", "mqservice.cli.main")
START_WAIT_S = 240
COMMAND_WAIT_S = 300
STOP_WAIT_S = 120
POLL_WAIT_S = 0.05


class Service:
    """A running ``mqservice up``; ``facts`` is read anew each time, since pids change."""

    def __init__(self, data_dir: Path, process: subprocess.Popen[bytes], log: Path) -> None:
        self.data_dir = data_dir
        self.process = process
        self.log = log

    @property
    def facts(self) -> Quickstart:
        facts = find_quickstart(self.data_dir / "quickstart.json")
        assert facts is not None, "the service has written no facts"
        return facts

    def is_back(self, name: str, pid: int) -> bool:
        """Whether a process has taken the place of the one with this pid."""
        return self.facts.pids.get(name) not in (None, pid)

    def stop(self) -> int:
        """Ordered stop. Returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_WAIT_S)

    def kill(self) -> None:
        """Ends the supervisor, and only it, without a chance to tidy up."""
        self.process.kill()
        self.process.wait(STOP_WAIT_S)


def client_of(facts: Quickstart, **options: Any) -> Client:  # Any: what a client takes
    """The library with the key of the service's first start."""
    return Client(facts.base_url, facts.api_key, **{"timeout": "60s", **options})


def consume(
    facts: Quickstart, topic: str, group: str, *, count: int = 100_000, wait: str = "2s"
) -> list[Message]:
    """What the group gets, acked: so many messages, or until none comes for ``wait``."""
    found: list[Message] = []
    with client_of(facts) as mq, mq.subscribe(topic, group) as messages:
        while len(found) < count and (message := messages.get(wait)) is not None:
            message.ack()
            found.append(message)
    assert messages.stats.acked == len(found), messages.stats
    return found


def service_environment(data_dir: Path, **env: str) -> dict[str, str]:
    """This process's environment without what the tests set for themselves; a free port."""
    ours = ("MQ_", "DATABASE_URL", "VALKEY_URL", "DJANGO_SETTINGS_MODULE", "PYTEST_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {
        **clean,
        "MQ_DATA_DIR": str(data_dir),
        "MQ_PORT": str(find_steady_port()),
        "MQ_WEB_WORKERS": "1",
        "MQ_FAILED_KEYS_MAX": "0",  # all tests come from one address, with wrong keys too
        **env,
    }


def run_mqservice(data_dir: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A command of ``mqservice`` on the service's machine, to its end."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        env=service_environment(data_dir, **env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_WAIT_S,
        check=False,
    )


def run_up(data_dir: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """``mqservice up`` for cases in which it must end by itself."""
    return run_mqservice(data_dir, "up", **env)


def listed_shards(data_dir: Path) -> dict[str, dict[str, Any]]:  # Any: decoded JSON
    """What ``mqservice shard list`` says of each, by name."""
    listed = run_mqservice(data_dir, "shard", "list", "-o", "json")
    assert listed.returncode == 0, listed.stderr
    return {row["name"]: row for row in json.loads(listed.stdout)}


def api_of(service: Service) -> httpx.Client:
    """REST in the namespace of the service's first start, with its key."""
    facts = service.facts
    return httpx.Client(
        base_url=f"{facts.base_url}/v1/ns/{facts.namespace}/",
        headers={"authorization": f"Bearer {facts.api_key}"},
        timeout=60,
        trust_env=False,
    )


@contextmanager
def running_service(
    data_dir: Path, program: Sequence[str] = PROGRAM, **env: str
) -> Iterator[Service]:
    """A service that is ready; stopped at the end unless the test has done so.

    ``program`` is the command line of ``mqservice``: of this checkout unless an installed one is
    named. A new data directory has the tables of the prepared cluster.
    """
    is_new = not data_dir.exists() or not any(data_dir.iterdir())
    if is_new and "DATABASE_URL" not in env:
        prepare_data_dir(data_dir)
    with started_service(data_dir, program, **env) as service:
        yield service


@contextmanager
def started_service(
    data_dir: Path, program: Sequence[str] = PROGRAM, **env: str
) -> Iterator[Service]:
    """The same, which does all of a first start itself: to make the tables takes seconds of
    processor.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    log = data_dir.with_name(f"{data_dir.name}.log")
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*program, "up"],
            env=service_environment(data_dir, **env),
            cwd=data_dir.parent if program != PROGRAM else None,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    service = Service(data_dir, process, log)
    try:
        wait_until(lambda: _is_ready(service), START_WAIT_S, "the service is ready")
        yield service
    finally:
        if process.poll() is None:
            service.stop()


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Looks until ``condition`` holds; fails with ``what`` when the time is over."""
    never = threading.Event()
    for _ in range(int(timeout_s / POLL_WAIT_S)):
        if condition():
            return
        never.wait(POLL_WAIT_S)
    raise AssertionError(f"after {timeout_s} s it is still not true that {what}")


def is_process_running(pid: int) -> bool:
    """Not when it only waits to be reaped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def pids_using(data_dir: Path) -> set[int]:
    """Every process whose environment or working directory names ``data_dir``."""
    found = set()
    wanted = f"MQ_DATA_DIR={data_dir}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            is_ours = wanted in (entry / "environ").read_bytes().split(b"\0")
            if is_ours or (entry / "cwd").readlink().is_relative_to(data_dir):
                found.add(int(entry.name))
        except OSError:
            continue  # it ended while we looked, or belongs to somebody else
    return found


def _is_ready(service: Service) -> bool:
    if service.process.poll() is not None:
        raise AssertionError(f"it ended early:\n{service.log.read_text(errors='replace')}")
    facts = find_quickstart(service.data_dir / "quickstart.json")
    return facts is not None and facts.pids.get("supervisor") == service.process.pid
