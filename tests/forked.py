"""Processes of the project's programs without the time that their imports take.

    Starter(modules) ──▶ [starter.py, one for each test process] ── fork ──▶ Forked

Such a process has a pid, an environment, a directory and descriptors of its own, and gets signals
as any other. All it lacks is what ``python -m`` does before it calls ``main``; tests of that start
the program itself.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tests.starter import Order

_ROOT = Path(__file__).resolve().parents[1]


class Process(Protocol):
    """What ``Forked`` and ``subprocess.Popen`` have in common."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...
    def kill(self) -> None: ...


class Forked:
    """As ``subprocess.Popen`` has it: an exit code below 0 is a signal."""

    def __init__(self, status: int) -> None:
        # Without a buffer, which would take the exit code together with the pid.
        self._status = io.FileIO(status)
        self.pid = int(self._status.readline())
        self._code: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Raises ``subprocess.TimeoutExpired``. ``timeout``: seconds."""
        if self._code is None:
            ending = select.poll()
            ending.register(self._status, select.POLLIN)
            if not ending.poll(None if timeout is None else timeout * 1_000):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            with self._status:
                self._code = int(self._status.readline())
        return self._code

    def send_signal(self, sig: int, /) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Starter:
    """Forks processes that have imported these modules. It ends with the process that made it."""

    def __init__(self, *modules: str) -> None:
        self._orders, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.starter", str(its.fileno()), *modules],
                cwd=_ROOT,
                # A process that has threads is not one to fork.
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
            )

    def start(
        self,
        entry: str,
        *argv: str,
        environ: Mapping[str, str],
        directory: Path,
        standard: tuple[int, int, int],
    ) -> Forked:
        """``standard``: what is its stdin, stdout and stderr; the rest is as in ``Order``."""
        order = Order(entry, list(argv), dict(environ), str(directory))
        status, its = os.pipe()
        try:
            socket.send_fds(self._orders, [order.encode()], [*standard, its])
        finally:
            os.close(its)
        return Forked(status)
