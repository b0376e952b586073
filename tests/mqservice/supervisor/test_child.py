"""One process under supervision: real children, each a few lines of Python."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqservice.supervisor.child import Child, ChildSpec, ChildState
from mqservice.supervisor.errors import StartFailed
from mqservice.supervisor.output import Output
from mqservice.supervisor.readiness import is_running
from tests.services import is_process_running, wait_until

LIVE = "import signal; print('alive', flush=True); signal.pause()"
STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('alive', flush=True); signal.pause()"
)


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Output]:
    """Writes to files in ``tmp_path``, which is also where the children run."""
    output = Output(tmp_path, is_quiet=True)
    yield output
    output.close()


class Watched:
    """A child with everything it reported."""

    def __init__(
        self,
        output: Output,
        code: str,
        *,
        is_fatal: bool = False,
        stop_timeout_ms: int = 60_000,
        start_timeout_ms: int = 60_000,
        marker: str | None = "alive",
    ) -> None:
        tmp_path = output.logs
        self.log = tmp_path / "child.log"
        self.fatal: list[str] = []
        self.changes = 0

        async def gate(pid: int) -> bool:
            if marker is None:
                return False
            return self.log.exists() and marker in self.log.read_text()

        spec = ChildSpec(
            name="child",
            argv=(sys.executable, "-c", code),
            env=dict(os.environ),
            gate=gate,
            cwd=tmp_path,
            is_fatal=is_fatal,
            stop_timeout_ms=stop_timeout_ms,
            start_timeout_ms=start_timeout_ms,
        )
        self.child = Child(
            spec,
            output,
            on_change=self._on_change,
            on_fatal=self.fatal.append,
        )

    def state(self) -> ChildState:
        """Asked anew each time: the type checker takes attributes for unchanged by ``await``."""
        return self.child.state

    def _on_change(self) -> None:
        self.changes += 1


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def test_started_child_leads_its_own_session_and_stops_when_asked(output: Output) -> None:
    watched = Watched(output, LIVE)

    await watched.child.start()

    pid = watched.child.pid
    assert pid is not None
    assert watched.state() is ChildState.READY
    assert os.getsid(pid) == pid
    await watched.child.stop()
    assert watched.state() is ChildState.STOPPED
    assert watched.child.pid is None
    assert not Path(f"/proc/{pid}").exists()  # noqa: ASYNC240


async def test_child_that_ends_early_fails_the_start_with_its_last_words(output: Output) -> None:
    watched = Watched(output, "import sys; sys.exit('no disk left')")

    with pytest.raises(StartFailed, match=r"exit code 1(.|\n)*no disk left"):
        await watched.child.start()

    await watched.child.stop()


async def test_child_that_never_gets_ready_is_ended(output: Output) -> None:
    watched = Watched(output, LIVE, marker=None, start_timeout_ms=300)

    with pytest.raises(StartFailed, match="not ready within 300 ms"):
        await watched.child.start()

    assert watched.child.pid is None


async def test_missing_program_fails_the_start(output: Output, tmp_path: Path) -> None:
    spec = ChildSpec(name="child", argv=("/nonexistent",), env={}, gate=is_running, cwd=tmp_path)
    child = Child(spec, output, on_change=lambda: None, on_fatal=lambda _: None)

    with pytest.raises(StartFailed, match="cannot start"):
        await child.start()


async def test_killed_child_is_started_again_under_a_new_pid(output: Output) -> None:
    watched = Watched(output, LIVE)
    await watched.child.start()
    first = watched.child.pid
    assert first is not None
    changes = watched.changes

    os.kill(first, signal.SIGKILL)

    await until(lambda: watched.child.pid not in (None, first))
    await until(lambda: watched.state() is ChildState.READY)
    assert watched.changes > changes
    await watched.child.stop()


async def test_child_that_keeps_failing_is_tried_again_later_each_time(
    output: Output, tmp_path: Path
) -> None:
    code = (
        "import pathlib, signal; path = pathlib.Path('once')\n"
        "if path.exists(): raise SystemExit('broken')\n"
        "path.touch(); print('alive', flush=True); signal.pause()"
    )
    watched = Watched(output, code)
    await watched.child.start()
    pid = watched.child.pid
    assert pid is not None
    os.truncate(watched.log, 0)  # the gate looks for "alive" in it

    os.kill(pid, signal.SIGKILL)

    log = tmp_path / "supervisor.log"
    await until(lambda: log.exists() and "trying again in 1000 ms" in log.read_text())
    assert "trying again in 500 ms" in log.read_text()
    await watched.child.stop()
    assert watched.state() is ChildState.STOPPED


async def test_fatal_child_is_reported_and_not_restarted(output: Output) -> None:
    watched = Watched(output, LIVE, is_fatal=True)
    await watched.child.start()
    pid = watched.child.pid
    assert pid is not None

    os.kill(pid, signal.SIGKILL)

    await until(lambda: bool(watched.fatal))
    assert watched.fatal == ["child ended with signal SIGKILL"]
    assert watched.child.pid is None
    await watched.child.stop()


async def test_child_that_ignores_the_signal_is_killed_at_its_limit(
    output: Output, tmp_path: Path
) -> None:
    watched = Watched(output, STUBBORN, stop_timeout_ms=200)
    await watched.child.start()
    pid = watched.child.pid

    await watched.child.stop()

    assert not Path(f"/proc/{pid}").exists()  # noqa: ASYNC240
    assert "did not stop within 200 ms" in (tmp_path / "supervisor.log").read_text()


async def test_processes_a_child_leaves_behind_end_with_it(output: Output, tmp_path: Path) -> None:
    code = (
        "import signal, subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "open('grandchild', 'w').write(str(p.pid)); print('alive', flush=True); signal.pause()"
    )
    watched = Watched(output, code, stop_timeout_ms=500)  # how long they are waited for
    await watched.child.start()
    grandchild = int((tmp_path / "grandchild").read_text())

    await watched.child.stop()

    await until(lambda: not is_process_running(grandchild))


async def test_endless_line_is_cut_instead_of_kept(output: Output) -> None:
    code = "import signal, sys; sys.stdout.write('x' * 300_000 + '\\nalive\\n'); sys.stdout.flush()"
    watched = Watched(output, code + "; signal.pause()")

    await watched.child.start()

    lines = watched.log.read_text().splitlines()
    assert sum(line.count("x") for line in lines) == 300_000
    assert max(len(line) for line in lines) <= 2 * 64 * 1024
    await watched.child.stop()


def test_children_die_with_a_supervisor_that_is_killed(output: Output, tmp_path: Path) -> None:
    code = f"""
import asyncio, os, sys, pathlib
from mqservice.supervisor.child import Child, ChildSpec
from mqservice.supervisor.readiness import is_running
from mqservice.supervisor.output import Output

async def main():
    spec = ChildSpec(name="child", argv=(sys.executable, "-c", {STUBBORN!r}),
                     env=dict(os.environ), gate=is_running, cwd=pathlib.Path("."))
    child = Child(spec, Output(pathlib.Path("."), is_quiet=True),
                  on_change=lambda: None, on_fatal=print)
    await child.start()
    print(child.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as supervisor:
        assert supervisor.stdout is not None
        pid = int(supervisor.stdout.readline())
        assert is_process_running(pid)

        supervisor.kill()

    wait_until(lambda: not is_process_running(pid), 10, "the child is gone")
