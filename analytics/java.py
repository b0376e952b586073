"""Java for Spark: finds it, says why it will not do, and installs it where that is allowed.

    [why_no_java] ──▶ "" or what is missing        python -m analytics.java ──▶ apt-get, when root

``make test``, ``make analytics`` and, where reports were asked for, ``make run`` call it. It never
fails them: the service and all other tests run without Java.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

JAVA_VERSION_MIN: Final = 17
PACKAGE: Final = "openjdk-17-jre-headless"
HINT: Final = f"on Debian: apt-get install {PACKAGE}"
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_WAIT_S: Final = 20
_INSTALL_WAIT_S: Final = 15 * 60


def why_no_java() -> str:
    """Why Spark cannot run with the Java there is, for people to read; empty when it can."""
    java = find_java()
    if java is None:
        return f"Java {JAVA_VERSION_MIN} or newer is needed and there is no java; {HINT}"
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=True, timeout=_JAVA_WAIT_S
        )
    except (OSError, subprocess.SubprocessError) as exc:
        return f"{java} cannot be run: {exc}"
    found = _VERSION.search(done.stderr + done.stdout)
    if found is None or int(found[1]) < JAVA_VERSION_MIN:
        version = found[1] if found else "of unknown version"
        return f"Java {JAVA_VERSION_MIN} or newer is needed, {java} is {version}; {HINT}"
    return ""


def find_java() -> str | None:
    """As Spark looks for it: ``JAVA_HOME``, else the path."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home, "bin", "java"))
    return shutil.which("java")


def main() -> int:
    """Say what there is, after trying to get it. Always 0."""
    reason = why_no_java()
    if reason:
        reason = _install(reason)
    if reason:
        print(f"Reports are off, all else runs: {reason}", file=sys.stderr)
    else:
        print(f"Java for reports: {find_java()}")
    return 0


def _install(reason: str) -> str:
    """Why there is still none; empty when there is one now."""
    apt_get = shutil.which("apt-get")
    if os.environ.get("JAVA_HOME") or apt_get is None or os.geteuid() != 0:
        return reason  # not ours to change
    print(f"Installing {PACKAGE} for reports ...")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", PACKAGE]):
        try:
            subprocess.run(
                [apt_get, "-qq", *arguments],
                env=quiet,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=_INSTALL_WAIT_S,
            )
        except subprocess.CalledProcessError as exc:
            said = exc.stderr.decode("utf-8", "replace").strip()[-300:]
            return f"apt-get {arguments[0]} failed: {said}; {reason}"
        except (OSError, subprocess.TimeoutExpired) as exc:
            return f"apt-get {arguments[0]} failed: {exc}; {reason}"
    return why_no_java()


if __name__ == "__main__":
    sys.exit(main())
