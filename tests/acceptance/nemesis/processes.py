"""Faults of the service's own processes: killed, or standing still for seconds.

A process that takes no part in passing messages on must not stop them.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.peers.usage import is_alive, process_tree
from tests.acceptance.history.events import Cut, Killed
from tests.acceptance.nemesis.site import READY_S_MAX, Site
from tests.services import Service

# Without these no message passes, or none of the clients that are connected there.
ON_THE_WAY: Final = ("engine", "web-1", "web-2")
PAUSE_S: Final = (3.0, 7.0)  # leases of clients end meanwhile
LATE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Kill:
    """``kill -9`` of a process that is started again."""

    process: str

    @property
    def name(self) -> str:
        return f"kill -9: {self.process}"

    def fire(self, site: Site) -> None:
        pid = site.service.facts.pids[self.process]
        site.history.add(Killed(self.process))
        os.kill(pid, signal.SIGKILL)
        site.load.must(f"{self.process} is dead", "fault-never-fired", lambda: not is_alive(pid))
        site.load.run.fired[self.name] += 1
        if self.process not in ON_THE_WAY:
            site.must_flow(self.name, "stopped")
        site.load.must(
            f"{self.process} is back", "not-healed",
            lambda: site.service.is_back(self.process, pid),
            s_max=READY_S_MAX,
        )  # fmt: skip
        site.history.add(Killed(self.process))  # until it was back, nothing was as usual
        site.must_heal(f"{self.name} is over")


@dataclass(frozen=True, slots=True)
class KillBackend:
    """``kill -9`` of one backend: PostgreSQL then ends all, reads its log again and takes new ones.

    Until then it refuses connections. The postmaster itself is not killed: ``mqservice up`` ends
    then, and says so.
    """

    name: str = "kill -9: a backend of postgres"

    def fire(self, site: Site) -> None:
        pid = site.draw.choice(backends(site.service))
        os.kill(pid, signal.SIGKILL)
        site.load.must("the backend is dead", "fault-never-fired", lambda: not is_alive(pid))
        site.load.run.fired[self.name] += 1
        site.must_flow(self.name, "stopped")
        site.must_heal(f"{self.name} is over")


@dataclass(frozen=True, slots=True)
class Pause:
    """A process and its children stand still, then go on: as a machine that swaps, or migrates."""

    process: str

    @property
    def name(self) -> str:
        return f"pause: {self.process}"

    def fire(self, site: Site) -> None:
        root = site.service.facts.pids[self.process]
        is_on_the_way = self.process in ON_THE_WAY
        begun = time.monotonic()
        os.kill(root, signal.SIGSTOP)  # before its children, so that no more come
        pids = [root]
        try:
            pids = process_tree(pids)
            _signal(pids, signal.SIGSTOP)
            site.load.must(
                f"{self.process} stands still", "fault-never-fired",
                lambda: all(state_of(pid) in "TZ" for pid in pids),
            )  # fmt: skip
            site.load.run.fired[self.name] += 1
            # It has to last: nothing tells when it has lasted.
            threading.Event().wait(site.draw.uniform(*PAUSE_S))
            if not is_on_the_way:
                site.must_flow(self.name, "stopped")
        finally:
            _signal(pids, signal.SIGCONT)
        if is_on_the_way:
            # What had been sent before may be read as late as it lasted, and a little.
            now = time.monotonic()
            site.history.add(Cut(now + (now - begun) + LATE_S, at=begun))
        site.must_heal(f"{self.name} is over")


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # a child that has ended by itself
            os.kill(pid, number)


def backends(service: Service) -> list[int]:
    """Processes of PostgreSQL that serve a connection."""
    postmaster = service.facts.pids["postgres"]
    found = []
    for pid in process_tree([postmaster]):
        try:
            title = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"postgres: mqservice "):
            found.append(pid)
    return found


def state_of(pid: int) -> str:
    """One letter, as in /proc; Z when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "Z"
    return stat.rpartition(")")[2].split()[0]
