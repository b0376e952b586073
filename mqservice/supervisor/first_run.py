"""Runs the command between the databases and the web: migrations, and the demo tenant.

    Preparation ── "go" ──▶ manage.py prepare ──▶ "tables"
                ── "go", once the engine serves ──▶ one JSON line ──▶ DemoFacts

The process is started beside the databases and waits, so that Django is loaded when they are ready.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec

from mqservice.supervisor.child import die_with_parent
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.errors import StartFailed
from mqservice.supervisor.output import Output
from mqservice.supervisor.secrets_file import Secrets

COMMAND: Final = "prepare"
TABLES_READY: Final = b"tables"
REFUSAL: Final = "CommandError: "  # what Django puts before a reason that is written for the user
TIMEOUT_S: Final = 180  # for the tables, and again for the demo tenant
TAIL_LINES_MAX: Final = 15
LINE_BYTES_MAX: Final = 1 << 20


class DemoFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What ``bootstrap_demo`` made or found."""

    namespace: str
    topic: str
    group: str
    api_key: str
    username: str
    password: str


class Preparation:
    """One run of ``manage.py prepare``: ``start``, ``tables``, ``demo``, ``facts``, in any case
    ``end``.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._process: asyncio.subprocess.Process | None = None
        self._errors: asyncio.Task[None] | None = None
        self._tail: deque[str] = deque(maxlen=TAIL_LINES_MAX)

    async def start(self, env: Mapping[str, str], data_dir: DataDir, secrets: Secrets) -> None:
        """Starts the process, which loads what it needs and waits."""
        parent = os.getpid()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "django", COMMAND,
            env={
                **env,
                "MQ_BOOTSTRAP_PASSWORD": secrets.admin_password,
                "MQ_BOOTSTRAP_API_KEY": secrets.api_key,
            },
            cwd=data_dir.path,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),
        )  # fmt: skip
        self._errors = asyncio.create_task(self._copy_errors(), name=f"output {COMMAND}")

    async def tables(self) -> None:
        """Brings the database to this version's tables. Raises StartFailed."""
        await self._go()
        line = await self._line()
        if line != TABLES_READY:
            raise StartFailed(f"{COMMAND} printed an unexpected line: {line!r}")

    async def demo(self) -> None:
        """Begins with the demo tenant, for which the engine must serve."""
        await self._go()

    async def _go(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"go\n")
            await self._process.stdin.drain()
        except ConnectionError:
            pass  # it has ended; the next line says how

    async def facts(self) -> DemoFacts:
        """The demo tenant, made, or found of an earlier start. Raises StartFailed."""
        line = await self._line()
        try:
            facts = msgspec.json.decode(line, type=DemoFacts)
        except msgspec.DecodeError as error:
            raise StartFailed(f"{COMMAND} printed an unexpected line: {error}") from error
        await self.end()
        return facts

    async def end(self) -> None:
        """Ends the process where it still runs."""
        if self._process is None or self._errors is None:
            return
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._errors

    async def _line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise StartFailed(f"{COMMAND} made no progress for {TIMEOUT_S} s.") from None
        if line.endswith(b"\n"):
            return line.rstrip()
        exit_code = await self._process.wait()
        assert self._errors is not None
        await self._errors
        if self._tail and self._tail[-1].startswith(REFUSAL):
            raise StartFailed(self._tail[-1].removeprefix(REFUSAL))
        tail = "\n".join(f"  {line}" for line in self._tail)
        raise StartFailed(f"{COMMAND} ended with exit code {exit_code}.\n{tail}")

    async def _copy_errors(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            text = line.decode("utf-8", "replace").rstrip()
            self._tail.append(text)
            self._output.write(COMMAND, text)
