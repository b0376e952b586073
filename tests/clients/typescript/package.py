"""The TypeScript client, compiled for the tests, and Node to run them with.

    clients/typescript ──▶ .cache/typescript-client ── npm ci, once for each lock file
                                                    └─ tsc, once for each change ──▶ dist/

Neither is needed to run the service. Where Node or the compiler is missing, ``why_no_package``
says so, and the tests are skipped with that reason.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mqservice.supervisor.quickstart import Quickstart

ROOT: Final = Path(__file__).resolve().parents[3]
SOURCE: Final = ROOT / "clients" / "typescript"
GENERATED: Final = SOURCE / "src" / "generated"
WORK: Final = ROOT / ".cache" / "typescript-client"
NODE_MIN: Final = (20, 16)
NPM_TIMEOUT_S: Final = 180
TEST_TIMEOUT_S: Final = 240
_LOCKED: Final = ("package.json", "package-lock.json")


@functools.cache
def why_no_package() -> str:
    """For people to read; empty when the package is compiled and can be run."""
    return why_no_modules("the TypeScript client", SOURCE, WORK)


def why_no_modules(what: str, source: Path, work: Path) -> str:
    """Why ``what`` cannot run; empty once the packages of ``source`` are installed in ``work``."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return f"there is no Node with npm; {what} needs 20.16 or newer"
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    found = tuple(int(part) for part in re.findall(r"\d+", said)[:2])
    if found < NODE_MIN:
        return f"Node is {said.strip()}; {what} needs 20.16 or newer"
    with _only_one(work):
        return _why_not_installed(what, npm, source, work)


def dist() -> Path:
    """The compiled modules, of the sources as they are now. Raises AssertionError if tsc fails."""
    with _only_one(WORK):
        stamp = WORK / "compiled"
        wanted = _hash(path for path in sorted(SOURCE.rglob("*")) if "src" in path.parts)
        wanted += (SOURCE / "tsconfig.json").read_text()
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            for name in ("src", "dist"):
                shutil.rmtree(WORK / name, ignore_errors=True)
            shutil.copytree(SOURCE / "src", WORK / "src")
            for name in ("tsconfig.json", "README.md", "LICENSE"):
                shutil.copy(SOURCE / name, WORK / name)
            run(["node_modules/.bin/tsc", "--project", "tsconfig.json"], cwd=WORK)
            stamp.write_text(wanted)
    return WORK / "dist"


def pack(folder: Path) -> Path:
    """The archive that would be published, made in ``folder``."""
    dist()
    # Its script would compile once more.
    run(
        ["npm", "pack", "--ignore-scripts", "--silent", "--pack-destination", str(folder)], cwd=WORK
    )
    [archive] = folder.glob("*.tgz")
    return archive


def run(
    argv: list[str], *, cwd: Path, env: Mapping[str, str] = {}, timeout_s: float = TEST_TIMEOUT_S
) -> str:
    """What a command says on stdout; fails with all it says unless it ends well."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**_environment(), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{argv} ended with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def environment_for(facts: Quickstart) -> dict[str, str]:
    """What the scripts of the tests read: the package, and which service to talk to."""
    return {
        "CLIENT": dist().joinpath("index.js").as_uri(),
        "MQ_BASE_URL": facts.base_url,
        "MQ_API_KEY": facts.api_key,
        "NODE_OPTIONS": "--unhandled-rejections=strict",
    }


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MQ_")}


def _why_not_installed(what: str, npm: str, source: Path, work: Path) -> str:
    """Installs the packages unless the lock file is the one that they were installed for."""
    stamp = work / "installed"
    wanted = _hash(source / name for name in _LOCKED)
    if stamp.exists() and stamp.read_text() == wanted:
        return ""
    stamp.unlink(missing_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    for name in _LOCKED:
        shutil.copy(source / name, work / name)
    done = subprocess.run(
        [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=NPM_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        return f"npm could not install what {what} needs: {done.stderr.strip()[-300:]}"
    stamp.write_text(wanted)
    return ""


def _hash(paths: Iterator[Path]) -> str:
    summed = hashlib.sha256()
    for path in paths:
        if path.is_file():
            summed.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return summed.hexdigest()


@contextmanager
def _only_one(work: Path) -> Iterator[None]:
    """Test processes that start at the same time share the directory."""
    work.parent.mkdir(parents=True, exist_ok=True)
    with work.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
