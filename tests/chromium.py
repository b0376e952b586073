"""The browser of the tests: Debian's Chromium, found, missed in words, or installed.

    [why_no_chromium] ──▶ "" or what is missing     python -m tests.chromium ──▶ apt-get, when root

``make test`` calls it and goes on without one; the tests in a browser are skipped then, with the
reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Final

PACKAGE: Final = "chromium"
HINT: Final = f"on Debian: apt-get install {PACKAGE}"
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_INSTALL_WAIT_S: Final = 10 * 60


def find_chromium() -> str | None:
    """``MQ_TEST_CHROMIUM``, else the path."""
    named = os.environ.get("MQ_TEST_CHROMIUM")
    if named:
        return named
    return next(filter(None, map(shutil.which, _NAMES)), None)


def why_no_chromium() -> str:
    """For people to read; empty when there is one."""
    return "" if find_chromium() else f"there is no Chromium; {HINT}, or set MQ_TEST_CHROMIUM"


def main() -> int:
    """Say what there is, after trying to get it. Always 0."""
    reason = why_no_chromium()
    if reason and shutil.which("apt-get") and os.geteuid() == 0:
        print(f"Installing {PACKAGE} for the tests in a browser ...")
        reason = _install() or why_no_chromium()
    if reason:
        print(f"The console is not tested in a browser: {reason}", file=sys.stderr)
    else:
        print(f"Browser of the tests: {find_chromium()}")
    return 0


def _install() -> str:
    """Why it could not be had; empty when it could."""
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", PACKAGE]):
        try:
            subprocess.run(
                ["apt-get", "-qq", *arguments],
                env=quiet,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=_INSTALL_WAIT_S,
            )
        except subprocess.CalledProcessError as exc:
            said = exc.stderr.decode("utf-8", "replace").strip()[-300:]
            return f"apt-get {arguments[0]} failed: {said}; {HINT}"
        except (OSError, subprocess.TimeoutExpired) as exc:
            return f"apt-get {arguments[0]} failed: {exc}; {HINT}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
