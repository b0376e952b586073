"""Runs a program beside a worker: time limit, what it says, and a clean end.

    [run_program] ──▶ python -m … ──▶ lines ──▶ on_line        stderr ──▶ the end of it
         └── every second: still_wanted()? no, or out of time: SIGTERM, then SIGKILL, to all of it

The process dies with its worker, and what it started when nobody holds the other end of its
standard input. It gets none of the service's secrets, and less of a busy CPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mqservice.lib.clock import Clock
from mqservice.lib.durations import SECOND_MS
from mqservice.reports.limits import LINE_BYTES_MAX, STOP_WAIT_S, TAIL_CHARS_MAX

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_SECRET: Final = ("MQ_", "DATABASE_URL", "VALKEY_URL", "DJANGO_")
_POLL_S: Final = 1.0
NICENESS: Final = 10
_READ_BYTES: Final = 64 * 1024


class Failure(enum.StrEnum):
    """Why a run failed. NO_SPARK and ARGUMENTS stay so until somebody changes something.

    LOG_REFUSED: the bucket of the replicated log, its credentials or its URL. SHARDS_LEFT_OUT: the
    run is done, without all of these.
    """

    JOB_FAILED = "job_failed"
    ARGUMENTS = "arguments"
    STORE_UNREADABLE = "store_unreadable"
    NO_SPARK = "no_spark"
    TIME_LIMIT = "time_limit"
    KILLED = "killed"
    SNAPSHOT_LOST = "snapshot_lost"
    ENGINE_AWAY = "engine_away"
    LOG_REFUSED = "log_refused"
    SHARDS_LEFT_OUT = "shards_left_out"

    @property
    def is_worth_a_retry(self) -> bool:
        return self not in (Failure.NO_SPARK, Failure.ARGUMENTS)


class RunFailed(Exception):
    """``tail`` is the end of what the process said: for the log, since it may name any tenant."""

    def __init__(self, failure: Failure, said: str, tail: str = "") -> None:
        super().__init__(said)
        self.failure = failure
        self.tail = tail


class RunSuperseded(Exception):
    """The run was taken from this worker."""


def run_program(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    limit_s: int,
    clock: Clock,
    on_line: Callable[[bytes], None],
    still_wanted: Callable[[], bool],
) -> tuple[int, str]:
    """Its exit code, and the end of what it said on standard error.

    Raises ``RunFailed`` TIME_LIMIT, or ``RunSuperseded`` once ``still_wanted`` says no.
    """
    parent = os.getpid()
    until_ms = clock.monotonic_ms() + limit_s * SECOND_MS
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        start_new_session=True,
        preexec_fn=lambda: _die_with(parent),
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
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
                                on_line(line)
                    if not still_wanted():
                        raise RunSuperseded
                    if clock.monotonic_ms() >= until_ms:
                        said = f"it took longer than {limit_s} s"
                        raise RunFailed(Failure.TIME_LIMIT, said, _text(tail))
            return process.wait(), _text(tail)
        finally:
            _stop(process)


def child_env(env: Mapping[str, str]) -> dict[str, str]:
    """The user's environment without what is the service's own; clouds' credentials stay."""
    return {name: value for name, value in env.items() if not name.startswith(_SECRET)}


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
    """Runs between fork and exec. Whatever a report takes, messages go first."""
    os.nice(NICENESS)
    if _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0 or os.getppid() != parent:
        os._exit(126)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace").strip()
