"""Commands as users run them: own processes, real pipes, exit codes, one line for an error.

mqservice("topic", "list") ──▶ Starter ── fork ──▶ the command

A command spends most of its time on imports, which the starter has done for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import msgspec

from tests.forked import Starter
from tests.mqservice.cli.service_double import KEY, ServiceDouble

WAIT_S = 60


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
    ends = (stdin_end, stdout_end, stderr_end)
    command = _starter().start(
        "tests.mqservice.cli.warm_app:app",
        "mqservice",
        *arguments,
        environ=environ,
        directory=Path.cwd(),
        standard=ends,
    )
    for end in ends:
        os.close(end)
    with ThreadPoolExecutor(3) as threads:
        threads.submit(_write, to_stdin, stdin)
        out, err = threads.submit(_read, from_stdout), threads.submit(_read, from_stderr)
        try:
            code = command.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            command.kill()
            raise
        return Ended(code, out.result(), err.result().decode())


@cache
def _starter() -> Starter:
    return Starter("tests.mqservice.cli.warm_app")


def _write(descriptor: int, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb", buffering=0) as pipe:
        view = memoryview(content)
        while view:
            view = view[pipe.write(view) :]


def _read(descriptor: int) -> bytes:
    with open(descriptor, "rb") as pipe:
        return pipe.read()
