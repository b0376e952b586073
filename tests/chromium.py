"""The browser of the tests: Debian's Chromium, found, missed in words, or installed.

Best without a window: its headless shell draws the same pages in a quarter of the processor time
of the whole browser, which is the second choice.

    [why_no_chromium] ──▶ "" or what is missing     python -m tests.chromium ──▶ apt-get, when root

``make test`` calls it and goes on without one; the tests in a browser are skipped then, with the
reason.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Final

from analytics.apt import install, is_allowed, update

PACKAGE: Final = "chromium-headless-shell"
HINT: Final = f"on Debian: apt-get install {PACKAGE}"
_NAMES: Final = (PACKAGE, "chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """``MQ_TEST_CHROMIUM``, else the path."""
    named = os.environ.get("MQ_TEST_CHROMIUM")
    if named:
        return named
    return next(filter(None, map(shutil.which, _NAMES)), None)


def why_no_chromium() -> str:
    """For people to read; empty when there is one."""
    return "" if find_chromium() else f"there is no Chromium; {HINT}, or set MQ_TEST_CHROMIUM"


def _may_be_better() -> bool:
    return not os.environ.get("MQ_TEST_CHROMIUM") and shutil.which(PACKAGE) is None


def main() -> int:
    """Say what there is, after trying to get it. Always 0."""
    said = ""
    if _may_be_better() and is_allowed():
        print(f"Installing {PACKAGE} for the tests in a browser ...", flush=True)
        # Who has a browser waits for no list of packages.
        said = (find_chromium() is None and update()) or install(PACKAGE)
    reason = why_no_chromium()
    if reason and said:
        reason = f"{said}; {HINT}"
    if reason:
        print(f"The console is not tested in a browser: {reason}", file=sys.stderr)
    else:
        print(f"Browser of the tests: {find_chromium()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
