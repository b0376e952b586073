"""Java for Spark: finds it, says why it cannot be used, and installs it where that is allowed.

    [java_problem] ─▶ "" or what is missing        python -m analytics.java ──▶ apt-get, when root

``make test`` and ``make analytics`` call it and wait; ``make run`` calls it and does not. It never
fails them: the service and all other tests run without Java.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from analytics.apt import install, is_allowed, update

JAVA_VERSION_MIN: Final = 17
# Debian 12 and Ubuntu have the first, Debian 13 the second.
PACKAGES: Final = ("openjdk-17-jre-headless", "openjdk-21-jre-headless")
HINT: Final = f"on Debian: apt-get install {PACKAGES[0]} (or {PACKAGES[1]})"
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_WAIT_S: Final = 20


def java_problem() -> str:
    """Why Spark cannot run with the Java there is, for people to read; empty when it can."""
    java = find_java()
    if java is None:
        return f"Java {JAVA_VERSION_MIN} or newer is needed, but there is no java; {HINT}"
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=True, timeout=_JAVA_WAIT_S
        )
    except (OSError, subprocess.SubprocessError) as exc:
        return f"cannot run {java}: {exc}"
    found = _VERSION.search(done.stderr + done.stdout)
    if found is None or int(found[1]) < JAVA_VERSION_MIN:
        version = found[1] if found else "of unknown version"
        return f"Java {JAVA_VERSION_MIN} or newer is needed, but {java} is {version}; {HINT}"
    return ""


def find_java() -> str | None:
    """As Spark looks for it: ``JAVA_HOME``, else the path."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home, "bin", "java"))
    return shutil.which("java")


def main(arguments: Sequence[str] = ()) -> int:
    """Say what there is, after trying to get it. Always 0.

    ``--background LOG``: whoever asks does not wait; a process of its own tries, and writes LOG.
    """
    reason = java_problem()
    if reason and may_install():
        if list(arguments[:1]) == ["--background"]:
            _install_aside(Path(arguments[1]))
            return 0
        reason = _install(reason)
    if reason:
        print(f"Reports are off, everything else runs: {reason}", file=sys.stderr)
    else:
        print(f"Java for reports: {find_java()}")
    return 0


def may_install() -> bool:
    """A Java that somebody named is not ours to change."""
    return not os.environ.get("JAVA_HOME") and is_allowed()


def _install_aside(log: Path) -> None:
    with log.open("wb") as file:
        subprocess.Popen(
            [sys.executable, "-m", "analytics.java"],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    print(f"There is no Java {JAVA_VERSION_MIN}; installing it for reports, see {log}")


def _install(reason: str) -> str:
    """Why there is still none; empty when there is one now."""
    said = update()
    if said:
        return f"{said}; {reason}"
    for package in PACKAGES:
        print(f"Installing {package} for reports ...", flush=True)
        said = install(package)
        if not said:
            return java_problem()
    return f"{said}; {reason}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
