"""Waiting for what another thread does, without sleeping."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PAUSE_SECONDS = 0.005


def wait_until(is_so: Callable[[], bool], seconds: float = 60.0) -> None:
    """Until ``is_so``; fails when that takes longer than ``seconds``."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        pause.wait(PAUSE_SECONDS)
