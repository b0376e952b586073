"""Debian packages for what PyPI does not have: Java, and the browser of the tests.

    java.py, tests ── install(package) ──▶ apt-get ──▶ "" or what went wrong

It waits for nobody: a mirror that does not answer must hold up no start and no test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

_UPDATE_WAIT_S: Final = 2 * 60
_INSTALL_WAIT_S: Final = 10 * 60
_IMPATIENT: Final = ("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=15")


def is_allowed() -> bool:
    """Whether this machine has it, and this user may."""
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def update() -> str:
    """Read what packages there are. What went wrong; empty for nothing."""
    return _apt(_UPDATE_WAIT_S, "update")


def install(package: str) -> str:
    """Install one of them. What went wrong; empty for nothing."""
    return _apt(_INSTALL_WAIT_S, "install", "--yes", "--no-install-recommends", package)


def _apt(wait_s: int, *arguments: str) -> str:
    try:
        subprocess.run(
            ["apt-get", "-qq", *_IMPATIENT, *arguments],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=wait_s,
        )
    except subprocess.CalledProcessError as exc:
        said = exc.stderr.decode("utf-8", "replace").strip()[-300:]
        return f"apt-get {arguments[0]} failed: {said}"
    except (OSError, subprocess.TimeoutExpired) as exc:
        return f"apt-get {arguments[0]} failed: {exc}"
    return ""
