"""The facts of a machine without which a figure means nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Final

import msgspec


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    disk: str


def find_machine(directory: Path) -> Machine:
    """Facts of this machine; ``directory`` is where the stores of this run lie."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(pages / 1024**3, 1),
        kernel=platform.release(),
        python=platform.python_version(),
        disk=_file_system(directory),
    )


# What a run writes of itself, so that a later one of the same code is not taken for another's.
_FIGURES: Final = (":!evidence", ":!docs")


def find_commit() -> str:
    """Which code ran; ``+`` when it differed from the commit."""
    try:
        head = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--", ":/", *_FIGURES],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(directory: Path) -> str:
    """Type and device of the file system that holds ``directory``."""
    path = directory.resolve()
    best = ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        device, mount_point, kind, *_ = line.split()
        if path.is_relative_to(mount_point) and len(mount_point) > len(best[0]):
            best = (mount_point, f"{kind} on {device}")
    return best[1]
