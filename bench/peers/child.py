"""A peer's server as a child: started, waited for, ended with everything it started.

command ─▶ [child] ─▶ a process group of its own ─▶ SIGTERM, and SIGKILL where that takes long
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

from bench.peers.usage import is_alive, process_tree
from bench.processes import ProcessFailed

START_S_MAX: Final = 60
STOP_S_MAX: Final = 10
POLL_S: Final = 0.1
LOG_CHARS: Final = 2_000


class Child:
    """A running server."""

    def __init__(self, command: list[str], environ: dict[str, str], directory: Path) -> None:
        self.name = Path(command[0]).name
        self._log_path = directory / f"{self.name}.log"
        with self._log_path.open("ab") as log:
            self._popen = subprocess.Popen(
                command,
                env=environ,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid = self._popen.pid

    async def wait_for(self, is_up: Callable[[], Awaitable[bool]]) -> None:
        """Raises ProcessFailed, with what it wrote, when it ends or takes too long."""
        try:
            async with asyncio.timeout(START_S_MAX):
                while not await is_up():
                    if self._popen.poll() is not None:
                        raise self._failed(f"ended with {self._popen.returncode}")
                    await asyncio.sleep(POLL_S)
        except TimeoutError as exc:
            raise self._failed(f"was not there within {START_S_MAX} s") from exc

    def stop(self) -> None:
        """Its data is thrown away, so it need not take its time."""
        started = process_tree([self.pid])
        self._popen.terminate()
        try:
            self._popen.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        # What it started in sessions of their own, and what outlives a shell that was told to end.
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + STOP_S_MAX
        while any(map(is_alive, started)) and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def _failed(self, how: str) -> ProcessFailed:
        output = self._log_path.read_text(errors="replace")[-LOG_CHARS:]
        return ProcessFailed(f"{self.name} {how}:\n{output}")


@contextlib.contextmanager
def child(command: list[str], environ: dict[str, str], directory: Path) -> Iterator[Child]:
    started = Child(command, environ, directory)
    try:
        yield started
    finally:
        started.stop()


async def answers_on(port: int) -> bool:
    """Whether somebody listens on the loopback port."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
