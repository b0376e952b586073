"""Commands as users run them: own processes, real pipes, exit codes, one line for an error.

mqservice("topic", "list") ──▶ [starter.py, one for each test process] ── fork ──▶ the command

A command spends most of its time on imports, which the starter has done for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import msgspec

from tests.mqservice.cli.service_double import KEY, ServiceDouble

WAIT_S = 60
_STARTER = Path(__file__).with_name("starter.py")


class Ended(msgspec.Struct):
    """How a command ended."""

    code: int
    out: bytes
    err: str

    @property
    def line(self) -> str:
        """The only line on stderr."""
        assert self.err.count("\n") == 1, self.err
        return self.err.strip()


async def mqservice(
    *arguments: str,
    double: ServiceDouble | None = None,
    stdin: bytes = b"",
    key: str = KEY,
    **variables: str,
) -> Ended:
    """Run a command against ``double``, or against nobody. ``variables``: of the environment."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MQ_")}
    environ["MQ_DATA_DIR"] = "/nonexistent"
    environ["XDG_CONFIG_HOME"] = "/nonexistent"  # whoever runs the tests may have profiles
    environ["MQ_BASE_URL"] = double.target.base_url if double else "http://127.0.0.1:1"
    if key:
        environ["MQ_API_KEY"] = key
    environ |= variables
    return await asyncio.to_thread(run, arguments, environ, stdin)


def run(arguments: tuple[str, ...], environ: dict[str, str], stdin: bytes = b"") -> Ended:
    """Run a command to its end, at most ``WAIT_S``."""
    stdin_end, to_stdin = os.pipe()
    from_stdout, stdout_end = os.pipe()
    from_stderr, stderr_end = os.pipe()
    from_status, status_end = os.pipe()
    order = json.dumps({"arguments": arguments, "environ": environ}).encode()
    ends = [stdin_end, stdout_end, stderr_end, status_end]
    orders, _ = _starter()
    socket.send_fds(orders, [order], ends)
    for end in ends:
        os.close(end)
    with ThreadPoolExecutor(4) as threads:
        threads.submit(_write, to_stdin, stdin)
        out, err = threads.submit(_read, from_stdout), threads.submit(_read, from_stderr)
        with open(from_status, "rb") as status:
            pid = int(status.readline())
            code = threads.submit(status.readline)
            try:
                found = int(code.result(WAIT_S))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
        return Ended(found, out.result(), err.result().decode())


@cache
def _starter() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Where its orders go; it ends with this process, which closes that."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = [sys.executable, str(_STARTER), str(its.fileno())]
        return ours, subprocess.Popen(command, pass_fds=[its.fileno()])


def _write(descriptor: int, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb", buffering=0) as pipe:
        view = memoryview(content)
        while view:
            view = view[pipe.write(view) :]


def _read(descriptor: int) -> bytes:
    with open(descriptor, "rb") as pipe:
        return pipe.read()
