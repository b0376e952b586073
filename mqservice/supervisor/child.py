"""One process that the supervisor keeps alive.

    spawn ──▶ STARTING ──gate──▶ READY ──exit──▶ BACKING_OFF ──▶ STARTING …
                 │                  │
                 └─stop─▶ STOPPING ◀┘ ──▶ STOPPED          a fatal child's exit ──▶ FAILED

The child is made leader of a session of its own and asks the kernel to be signalled when its parent
dies. Both happen between fork and exec, so there is no moment in which a child could be left
behind.
"""

from __future__ import annotations

import asyncio
import ctypes
import enum
import os
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqservice.supervisor.binaries import Account
from mqservice.supervisor.errors import StartFailed
from mqservice.supervisor.output import Output

PR_SET_PDEATHSIG: Final = 1
GATE_POLL_WAIT_MS: Final = 50
BACKOFF_FIRST_MS: Final = 250
BACKOFF_MAX_MS: Final = 15_000
HEALTHY_AFTER_MS: Final = 30_000  # a process that ran this long has earned a quick restart
TAIL_LINES_MAX: Final = 12
READ_BYTES_MAX: Final = 64 * 1024
_LIBC = ctypes.CDLL(None, use_errno=True)


class ChildState(enum.StrEnum):
    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    BACKING_OFF = "backing_off"
    STOPPING = "stopping"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """How to start and stop one process. ``gate(pid)`` tells whether it is ready."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    gate: Callable[[int], Awaitable[bool]]
    cwd: Path
    account: Account | None = None
    stdin: bytes = b""
    is_fatal: bool = False
    ordered_exits: frozenset[int] = frozenset()  # after which it is started again without delay
    refusal: str = ""  # begins a last line that tells the user why the process cannot start
    is_echoed: bool = True  # databases talk at length; their log files are enough
    start_timeout_ms: int = 60_000
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout_ms: int = 10_000
    orphan_signal: signal.Signals = signal.SIGKILL


class Child:
    """Starts, watches, restarts and stops the process of one spec. Used on the event loop only."""

    def __init__(
        self,
        spec: ChildSpec,
        output: Output,
        *,
        on_change: Callable[[], None],
        on_fatal: Callable[[str], None],
    ) -> None:
        self.spec = spec
        self.state = ChildState.STOPPED
        self._output = output
        self._on_change = on_change
        self._on_fatal = on_fatal
        self._process: asyncio.subprocess.Process | None = None
        self._pump: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._tail: deque[str] = deque(maxlen=TAIL_LINES_MAX)

    @property
    def pid(self) -> int | None:
        """Pid while the process is alive."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Returns once the gate is open. Raises StartFailed with the last lines of the output."""
        assert self.state is ChildState.STOPPED, self.state
        await self._spawn()
        await self._wait_for_gate()
        self._watch = asyncio.create_task(self._keep_alive(), name=f"watch {self.spec.name}")

    async def stop(self) -> None:
        """Asks the process to end, waits for its limit, then kills what is left of its session."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
            self._watch = None
        process = self._process
        if process is None:
            self.state = ChildState.STOPPED
            return
        self.state = ChildState.STOPPING
        if process.returncode is None:
            started_ms = _monotonic_ms()
            _signal(process.pid, self.spec.stop_signal)
            try:
                async with asyncio.timeout(self.spec.stop_timeout_ms / 1000):
                    await process.wait()
                self._output.note(
                    f"{self.spec.name} stopped after {_monotonic_ms() - started_ms} ms"
                )
            except TimeoutError:
                self._output.note(
                    f"{self.spec.name} did not stop within "
                    f"{self.spec.stop_timeout_ms} ms; killing it"
                )
        await self._reap()
        self.state = ChildState.STOPPED

    def kill(self) -> None:
        """Ends the process and its whole group at once; ``stop`` still has to be awaited."""
        if self._process is not None:
            _kill_group(self._process.pid)

    async def _spawn(self) -> None:
        spec = self.spec
        self.state = ChildState.STARTING
        self._tail.clear()
        parent = os.getpid()
        switch: dict[str, object] = {}
        if spec.account is not None:
            switch = {"user": spec.account.uid, "group": spec.account.gid, "extra_groups": []}
        try:
            process = await asyncio.create_subprocess_exec(
                *spec.argv,
                env=dict(spec.env),
                cwd=spec.cwd,
                stdin=asyncio.subprocess.PIPE if spec.stdin else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(parent, spec.orphan_signal),
                **switch,  # type: ignore[arg-type]  # the stub wants each keyword spelled out
            )
        except OSError as error:
            self.state = ChildState.FAILED
            raise StartFailed(f"cannot start {spec.name}: {error}") from error
        self._process = process
        self._pump = asyncio.create_task(self._copy_output(process), name=f"output {spec.name}")
        if process.stdin is not None:
            process.stdin.write(spec.stdin)
            process.stdin.close()
        self._on_change()

    async def _wait_for_gate(self) -> None:
        process = self._process
        assert process is not None
        deadline_ms = _monotonic_ms() + self.spec.start_timeout_ms
        while process.returncode is None and _monotonic_ms() < deadline_ms:
            if await self.spec.gate(process.pid):
                self.state = ChildState.READY
                self._on_change()
                return
            await asyncio.sleep(GATE_POLL_WAIT_MS / 1000)
        if process.returncode is None:
            reason = f"was not ready within {self.spec.start_timeout_ms} ms"
        else:
            reason = f"ended with {_describe(process.returncode)} before it was ready"
        await self._reap()
        self.state = ChildState.FAILED
        if self.spec.refusal and self._tail and self._tail[-1].startswith(self.spec.refusal):
            raise StartFailed(self._tail[-1].removeprefix(self.spec.refusal))
        lines = "\n".join(f"  {line}" for line in self._tail)
        raise StartFailed(f"{self.spec.name} {reason}.\n{lines}".rstrip())

    async def _keep_alive(self) -> None:
        """Restarts the process whenever it ends, later each time it ends early."""
        backoff_ms = BACKOFF_FIRST_MS
        while True:
            started_ms = _monotonic_ms()
            process = self._process
            if process is not None and self.state is ChildState.READY:
                returncode = await process.wait()
                await self._reap()
                ending = f"{self.spec.name} ended with {_describe(returncode)}"
                if self.spec.is_fatal:
                    self.state = ChildState.FAILED
                    self._on_fatal(ending)
                    return
                is_ordered = returncode in self.spec.ordered_exits
                if is_ordered or _monotonic_ms() - started_ms >= HEALTHY_AFTER_MS:
                    backoff_ms = BACKOFF_FIRST_MS
                self._output.note(f"{ending}; starting it again in {backoff_ms} ms")
            self.state = ChildState.BACKING_OFF
            self._on_change()
            await asyncio.sleep(backoff_ms / 1000)
            backoff_ms = min(2 * backoff_ms, BACKOFF_MAX_MS)
            try:
                await self._spawn()
                await self._wait_for_gate()
                self._output.note(f"{self.spec.name} is ready again")
            except StartFailed as error:
                self._output.note(f"{error}; trying again in {backoff_ms} ms")

    async def _reap(self) -> None:
        """Ends what is left of the group and waits for the last line of output."""
        process = self._process
        assert process is not None
        _kill_group(process.pid)
        await process.wait()
        if self._pump is not None:
            await asyncio.gather(self._pump, return_exceptions=True)
        self._process = None
        self._on_change()

    async def _copy_output(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        rest = b""
        while block := await process.stdout.read(READ_BYTES_MAX):
            *lines, rest = (rest + block).split(b"\n")
            if len(rest) > READ_BYTES_MAX:  # a line without end must not grow without bound
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._write_line(line)
        if rest:
            self._write_line(rest)

    def _write_line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        self._tail.append(text)
        self._output.write(self.spec.name, text, is_echoed=self.spec.is_echoed)


def die_with_parent(parent: int, orphan_signal: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel end this process with ``parent``. Runs between fork and exec, after the
    change of account, which would undo it.
    """
    if _LIBC.prctl(PR_SET_PDEATHSIG, int(orphan_signal), 0, 0, 0) != 0:
        os._exit(126)
    if os.getppid() != parent:  # the parent died before the kernel was told
        os._exit(126)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _kill_group(pid: int) -> None:
    """The group's id is its leader's pid and stays taken while any member lives."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _describe(returncode: int) -> str:
    if returncode < 0:
        return f"signal {signal.Signals(-returncode).name}"
    return f"exit code {returncode}"


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
