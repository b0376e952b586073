"""Which Pythons are on this machine, and environments of them for tests.

``python3.N`` of the PATH, and those of pyenv, whose commands in the PATH may lead nowhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
CACHE: Final = Path(__file__).resolve().parents[1] / ".cache" / "pythons"
UV: Final = Path(sys.executable).with_name("uv")


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


def python_with(python: InstalledPython, *packages: str) -> Path:
    """Python of an environment with these packages only, made once."""
    key = hashlib.sha256(" ".join((python.version, *packages)).encode()).hexdigest()[:12]
    folder = CACHE / key
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _uv("venv", "--python", str(python.path), str(folder))
            _uv("pip", "install", "--python", str(folder / "bin" / "python"), *packages)
            (folder / "complete").touch()
    return folder / "bin" / "python"


def _uv(*args: str) -> None:
    argv: Sequence[str] = [str(UV), "--quiet", *args]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _candidates(version: str) -> Iterator[Path]:
    if path := shutil.which(f"python{version}"):
        yield Path(path)
    yield from sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))


@cache  # lists of them are made while tests are collected, more than one
def _makes_environments(path: Path) -> bool:
    asked = [str(path), "-c", "import venv, ensurepip"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0
