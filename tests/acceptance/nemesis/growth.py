"""Memory and open files of every process of a service while it is under load, and what grew.

    every 2 s ──▶ Sample of each process ──▶ second quarter ◀── compared ──▶ last quarter ──▶ growth

The first quarter is not compared: caches and pools fill then. A process that was started anew since
says nothing and is left out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from statistics import mean
from typing import Final, NamedTuple

from bench.peers.usage import memory_mib, process_tree
from tests.services import Service

EVERY_S: Final = 2.0
SAMPLES_MIN: Final = 16
GROWTH_SHARE_MAX: Final = 0.1
GROWTH_MIB_MAX: Final = 8.0
GROWTH_FILES_MAX: Final = 16


class Sample(NamedTuple):
    """Of a process with its children; memory that no file stands behind."""

    pid: int
    memory_mib: float
    open_files: int


def growth(samples: Sequence[Sample]) -> str:
    """What grew, in words; empty when nothing did, or when there are too few to tell."""
    newest = [each for each in samples if each.pid == samples[-1].pid]
    if len(newest) < SAMPLES_MIN:
        return ""
    quarter = len(newest) // 4
    early, late = newest[quarter : 2 * quarter], newest[-quarter:]
    before, after = mean(each.memory_mib for each in early), mean(each.memory_mib for each in late)
    if after > before * (1 + GROWTH_SHARE_MAX) + GROWTH_MIB_MAX:
        return f"memory from {before:.1f} to {after:.1f} MiB"
    files_before = max(each.open_files for each in early)
    files_after = min(each.open_files for each in late)
    if files_after > files_before + GROWTH_FILES_MAX:
        return f"open files from {files_before} to {files_after}"
    return ""


class GrowthWatch(threading.Thread):
    """Samples until ``stop``; ``samples`` by name of the process."""

    def __init__(self, service: Service) -> None:
        super().__init__(name="growth", daemon=True)
        self.samples: dict[str, list[Sample]] = {}
        self._service = service
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(EVERY_S):
            for name, pid in self._service.facts.pids.items():
                if name != "supervisor":  # all are its children
                    self.samples.setdefault(name, []).append(_sample(pid))

    def stop(self) -> dict[str, str]:
        """What grew, by process."""
        self._is_over.set()
        self.join()
        found = {name: growth(samples) for name, samples in self.samples.items()}
        return {name: text for name, text in found.items() if text}


def _sample(pid: int) -> Sample:
    tree = process_tree([pid])
    return Sample(pid, memory_mib(tree)[0], sum(map(_open_files, tree)))


def _open_files(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0  # it ended meanwhile
