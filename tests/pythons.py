"""Which Pythons are on this machine.

``python3.N`` of the PATH, and those of pyenv, whose commands in the PATH may lead nowhere.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")


class InstalledPython(NamedTuple):
    """``version`` is such as "3.13"; its venv module works."""

    version: str
    path: Path


def installed_pythons(versions: Sequence[str] = SUPPORTED) -> list[InstalledPython]:
    """One of each version that is here, in their order; by default those of the service."""
    found = []
    for version in versions:
        path = next((path for path in _candidates(version) if _makes_environments(path)), None)
        if path is not None:
            found.append(InstalledPython(version, path))
    return found


def _candidates(version: str) -> Iterator[Path]:
    if path := shutil.which(f"python{version}"):
        yield Path(path)
    yield from sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))


def _makes_environments(path: Path) -> bool:
    asked = [str(path), "-c", "import venv, ensurepip"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0
