"""Runs Spark as its own process: time limit, progress, and a clean end.

    [run_spark] ── python -m analytics run … ──▶ Java ──▶ lines of JSON ──▶ tell(step, done, total)
         └── every second: still_wanted()? no, or out of time: SIGTERM, then SIGKILL, to all of it

Java never lives inside a worker. The process dies with its worker, and Java when nobody holds the
other end of its standard input. It gets none of the service's secrets, and less of a busy CPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from mqservice.lib.clock import Clock
from mqservice.lib.durations import SECOND_MS
from mqservice.reports.limits import LINE_BYTES_MAX, STOP_WAIT_S, TAIL_CHARS_MAX

PROGRAM: Final = (sys.executable, "-P", "-m", "analytics", "run")
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_SECRET: Final = ("MQ_", "DATABASE_URL", "VALKEY_URL", "DJANGO_")
_POLL_S: Final = 1.0
NICENESS: Final = 10
_READ_BYTES: Final = 64 * 1024


class Failure(enum.StrEnum):
    """Why a run failed. NO_SPARK and ARGUMENTS stay so until somebody changes something."""

    JOB_FAILED = "job_failed"
    ARGUMENTS = "arguments"
    STORE_UNREADABLE = "store_unreadable"
    NO_SPARK = "no_spark"
    TIME_LIMIT = "time_limit"
    KILLED = "killed"
    SNAPSHOT_LOST = "snapshot_lost"
    ENGINE_AWAY = "engine_away"

    @property
    def is_worth_a_retry(self) -> bool:
        return self not in (Failure.NO_SPARK, Failure.ARGUMENTS)


_BY_EXIT_CODE: Final = {
    1: Failure.JOB_FAILED,
    2: Failure.ARGUMENTS,
    3: Failure.STORE_UNREADABLE,
    4: Failure.NO_SPARK,
}


class RunFailed(Exception):
    """``tail`` is the end of what the process said: for the log, since it may name any tenant."""

    def __init__(self, failure: Failure, said: str, tail: str = "") -> None:
        super().__init__(said)
        self.failure = failure
        self.tail = tail


class RunSuperseded(Exception):
    """The run was taken from this worker."""


class Progress(msgspec.Struct, frozen=True):
    """A line before each step."""

    step: str
    done: int
    total: int


class Outcome(msgspec.Struct, frozen=True):
    """The last line: records of each day of UTC, days that were not over, rows of each report."""

    records: dict[str, int]
    incomplete_days: list[str]
    report_rows: dict[str, int]


def run_spark(
    arguments: Sequence[str],
    *,
    limit_s: int,
    clock: Clock,
    tell: Callable[[Progress], None],
    still_wanted: Callable[[], bool],
    program: Sequence[str] = PROGRAM,
) -> Outcome:
    """Run it to its end. Raises ``RunFailed``, or ``RunSuperseded`` once ``still_wanted`` says
    no.
    """
    parent = os.getpid()
    with subprocess.Popen(
        [*program, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_env(os.environ),
        start_new_session=True,
        preexec_fn=lambda: _die_with(parent),
    ) as process:
        try:
            return _follow(process, limit_s, clock, tell, still_wanted)
        finally:
            _stop(process)


def child_env(env: Mapping[str, str]) -> dict[str, str]:
    """The user's environment without what is the service's own; clouds' credentials stay."""
    return {name: value for name, value in env.items() if not name.startswith(_SECRET)}


def _follow(
    process: subprocess.Popen[bytes],
    limit_s: int,
    clock: Clock,
    tell: Callable[[Progress], None],
    still_wanted: Callable[[], bool],
) -> Outcome:
    assert process.stdout is not None
    assert process.stderr is not None
    until_ms = clock.monotonic_ms() + limit_s * SECOND_MS
    outcome: Outcome | None = None
    rest, tail = b"", b""
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(_POLL_S):
                block = os.read(key.fd, _READ_BYTES)
                if not block:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    tail = (tail + block)[-TAIL_CHARS_MAX:]
                else:
                    *lines, rest = (rest + block)[-LINE_BYTES_MAX:].split(b"\n")
                    for line in lines:
                        outcome = _read_progress(line, tell) or outcome
            if not still_wanted():
                raise RunSuperseded
            if clock.monotonic_ms() >= until_ms:
                raise RunFailed(Failure.TIME_LIMIT, f"it took longer than {limit_s} s", _text(tail))
    code = process.wait()
    said = _text(tail)
    if code == 0 and outcome is not None:
        return outcome
    if code in _BY_EXIT_CODE:
        failure = _BY_EXIT_CODE[code]
        shown = said.splitlines()[-1] if said and failure is Failure.NO_SPARK else failure.value
        raise RunFailed(failure, shown, said)
    raise RunFailed(Failure.KILLED, f"the process exited with {code}", said)


def _read_progress(line: bytes, tell: Callable[[Progress], None]) -> Outcome | None:
    """Lines of others on standard output are passed over: Java may print what it likes."""
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(line, type=Outcome)
    with contextlib.suppress(msgspec.DecodeError):
        tell(msgspec.json.decode(line, type=Progress))
    return None


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the whole session of the process; also what it may have left when it ended by itself."""
    if process.poll() is None:
        _signal(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_WAIT_S)
    _signal(process.pid, signal.SIGKILL)


def _signal(session: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, number)


def _die_with(parent: int) -> None:
    """Runs between fork and exec. Whatever Spark takes, messages go first."""
    os.nice(NICENESS)
    if _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0 or os.getppid() != parent:
        os._exit(126)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace").strip()
