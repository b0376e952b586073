"""An engine process whose system calls are injured from outside; its own code is untouched.

TracedEngine("msync:error=EIO:when=3") ──▶ strace -f ──▶ python -m storage_engine
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final, NamedTuple

from tests.forked import Process
from tests.storage_engine.engines import END_WAIT_S, Engine
from tests.storage_engine.kills.history_checker import Anomaly, anomalies
from tests.storage_engine.kills.kill_loop import LIMITS, drain, prepare, working
from tests.storage_engine.kills.outcomes import History, Outcome

RUN_S: Final = 0.8
_LOOKS: Final = 20  # in that time
_LOOKS_MAX: Final = 1_500


class TracedEngine(Engine):
    """``injection`` is strace's, and may be changed between starts; empty: no strace."""

    injection = ""

    @property
    def trace(self) -> Path:
        return self.directory / "trace"

    @property
    def fired_count(self) -> int:
        """How many calls were given an error or held up so far."""
        if not self.trace.exists():
            return 0
        lines = self.trace.read_text().splitlines()
        return sum(line.endswith(("(INJECTED)", "(DELAYED)")) for line in lines)

    def launch(self, **environment: str) -> Process:
        if not self.injection:
            return super().launch(**environment)
        call = self.injection.partition(":")[0]
        # Without --seccomp-bpf, which is faster but loses the signals of strace 6.1.
        command = [
            "strace", "-f", "-qq", "-o", str(self.trace), "-e", f"trace={call}",
            "-e", f"inject={self.injection}", sys.executable, "-m", "storage_engine",
        ]  # fmt: skip
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.directory,
                env=self._environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """The engine and its tracer. Both are gone then: the next one starts at once."""
        process = self._process
        traced: list[int] = []
        if process is not None and self.injection:
            traced = _descriptors_of_children(process.pid)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        super().kill()
        for descriptor in traced:
            select.select([descriptor], [], [], END_WAIT_S)
            os.close(descriptor)

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None


def _descriptors_of_children(pid: int) -> list[int]:
    """Each is readable when its process has ended."""
    found = []
    with contextlib.suppress(OSError):  # those that have ended already
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found.append(os.pidfd_open(int(child)))
    return found


class Injured(NamedTuple):
    """What happened to an engine that was injured, killed and started again.

    ``fired_count`` counts injected errors and delays; that a kill fired is seen by ``has_died``.
    """

    history: History
    anomalies: list[Anomaly]
    has_died: bool
    fired_count: int
    log: str


def run_injured(
    injection: str,
    *,
    seed: int,
    run_s: float = RUN_S,
    acked_min: int | None = None,
    **limits: str,
) -> Injured:
    """Work on an engine with that injury; kill it; drain a healthy one and judge.

    With ``acked_min`` the work goes on, for at most a minute, until so many messages were
    acknowledged and a call was injured, or the engine has ended: machines are not equally fast.
    """
    history = History()
    with TracedEngine(**(LIMITS | limits)) as engine:
        prepare(engine)
        engine.kill()
        engine.injection = injection
        has_died = False
        try:
            engine.start()
        except AssertionError:
            has_died = True  # it was injured before it was ready
        if not has_died:
            with working(engine, history, random.Random(seed)):
                pause = threading.Event()
                for look in range(1, _LOOKS_MAX):
                    pause.wait(run_s / _LOOKS)
                    if engine.has_ended:
                        has_died = True
                        break
                    if look >= _LOOKS and _has_enough(engine, history, acked_min):
                        break
        engine.kill()
        engine.injection = ""
        engine.start()
        drain(engine, history)
        fired_count, log = engine.fired_count, engine.log.read_text()
    return Injured(history, anomalies(history), has_died, fired_count, log)


def _has_enough(engine: TracedEngine, history: History, acked_min: int | None) -> bool:
    if acked_min is None:
        return True
    return engine.fired_count > 0 and history.count(Outcome.ACKED) >= acked_min
