"""CPU and memory of a process with its descendants, and a child that leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers.child import child
from bench.peers.usage import UsageMeter, is_alive, memory_mib, process_tree
from bench.processes import ProcessFailed

WITH_GRANDCHILD = (
    "import signal, subprocess, sys;"
    "subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'],"
    " start_new_session=True);"
    "print('up', flush=True); signal.pause()"
)


def test_a_tree_has_the_process_and_what_it_started() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True
    ) as started:
        assert {os.getpid(), started.pid} <= set(process_tree([os.getpid()]))
        assert process_tree([started.pid]) == [started.pid]
        assert is_alive(started.pid)
        started.communicate("\n")

    assert not is_alive(started.pid)


def test_memory_of_a_process_is_not_nothing_and_of_none_is() -> None:
    anonymous, resident = memory_mib([os.getpid()])

    assert 1 < anonymous <= resident
    assert memory_mib([]) == (0, 0)


def test_work_of_the_server_is_counted_as_the_server_s() -> None:
    meter = UsageMeter([os.getpid()])
    sum(index * index for index in range(3_000_000))
    usage = meter.stop()

    assert usage.server_cores > 0
    assert usage.generator_cores > 0  # the same process here


async def test_a_child_leaves_nothing_behind(tmp_path: Path) -> None:
    with child([sys.executable, "-c", WITH_GRANDCHILD], dict(os.environ), tmp_path) as server:

        async def is_up() -> bool:
            return len(process_tree([server.pid])) == 2

        await server.wait_for(is_up)
        pids = process_tree([server.pid])

    assert not any(is_alive(pid) for pid in pids)


async def test_a_child_that_ends_says_what_it_wrote(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('port in use')"]

    async def is_up() -> bool:
        return False

    with (
        child(command, dict(os.environ), tmp_path) as server,
        pytest.raises(ProcessFailed, match="port in use"),
    ):
        await server.wait_for(is_up)
