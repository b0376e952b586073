"""A real storage engine for tests: its own process, its own directory, killed at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

START_WAIT_S = 60.0
POLL_WAIT_S = 0.01


@contextmanager
def running_engine(limits: Mapping[str, str] | None = None) -> Iterator[str]:
    """The path of its socket, once it accepts connections; its files are in ``store`` beside it.

    ``limits``: names and values of ``storage_engine.config``, as in its environment.
    """
    # A socket's path has to be short, hence not pytest's own directory.
    with tempfile.TemporaryDirectory(prefix="mq-engine-", dir="/tmp") as directory:
        path = Path(directory, "engine.sock")
        process = subprocess.Popen(
            [sys.executable, "-m", "storage_engine"],
            env=os.environ
            | (limits or {})
            | {"MQ_ENGINE_STORE_DIR": f"{directory}/store", "MQ_ENGINE_SOCKET": str(path)},
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(path, process)
            yield str(path)
        finally:
            process.terminate()
            process.wait(START_WAIT_S)


def _wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_WAIT_S
    pause = threading.Event()
    while not path.exists():
        assert process.poll() is None, "the engine ended at its start"
        assert time.monotonic() < deadline, "the engine opened no socket"
        pause.wait(POLL_WAIT_S)
