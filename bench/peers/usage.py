"""CPU and memory of a server with all its processes, by its first process.

root pids ─▶ [UsageMeter] ─▶ all their descendants ─▶ cores meanwhile, MiB afterwards
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.measure import children_cpu_seconds, cpu_seconds, machine_cpu_seconds

KIB_A_MIB: Final = 1_024
PARENT_AT: Final = 1  # of the fields of /proc/PID/stat after the command's closing parenthesis
_SHARE: Final = re.compile(r"^(Pss|Pss_Anon):\s+(\d+) kB$", re.MULTILINE)


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """``server_cores`` is what the peer used, ``other_cores`` the rest of the machine.

    ``anonymous_mib`` is memory that no file stands behind, ``resident_mib`` all that is in memory,
    mapped files of the store included; what processes share counts once.
    """

    seconds: float
    server_cores: float
    generator_cores: float
    other_cores: float
    anonymous_mib: float = 0.0
    resident_mib: float = 0.0


class UsageMeter:
    """From being made to ``stop``."""

    def __init__(self, roots: Sequence[int]) -> None:
        self._roots = roots
        self._before = {pid: cpu_seconds(pid) for pid in process_tree(roots)}
        self._machine_before = machine_cpu_seconds()
        self._generator_before = _generator_seconds()
        self._started = time.perf_counter()

    def stop(self) -> Usage:
        seconds = time.perf_counter() - self._started
        generator = (_generator_seconds() - self._generator_before) / seconds
        machine = (machine_cpu_seconds() - self._machine_before) / seconds
        tree = process_tree(self._roots)
        # A process that started meanwhile counts from its start.
        used = sum(cpu_seconds(pid) - self._before.get(pid, 0.0) for pid in tree)
        server = used / seconds
        anonymous, resident = memory_mib(tree)
        return Usage(
            seconds=seconds,
            server_cores=round(server, 2),
            generator_cores=round(generator, 2),
            other_cores=round(max(machine - server - generator, 0.0), 2),
            anonymous_mib=round(anonymous, 1),
            resident_mib=round(resident, 1),
        )


def process_tree(roots: Sequence[int]) -> list[int]:
    """The processes and all their descendants that live, ascending."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[PARENT_AT])
            children.setdefault(parent, []).append(int(entry))
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return sorted(found)


def is_alive(pid: int) -> bool:
    """A zombie, that its parent has yet to collect, is not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def memory_mib(pids: Sequence[int]) -> tuple[float, float]:
    """(anonymous, resident) MiB of all these together."""
    kib = {"Pss": 0, "Pss_Anon": 0}
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        for name, value in _SHARE.findall(text):
            kib[name] += int(value)
    return kib["Pss_Anon"] / KIB_A_MIB, kib["Pss"] / KIB_A_MIB


def _generator_seconds() -> float:
    return cpu_seconds(os.getpid()) + children_cpu_seconds()
