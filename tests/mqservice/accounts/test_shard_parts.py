"""The program that makes a new shard's store, as the command that splits a shard runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqservice.accounts.shard_parts import LocalShard, PartProgram, plan_copy, sole_copy_into
from mqservice.lib.problem import Problem
from mqservice.supervisor.engine_program import EngineProgram
from storage_engine.tools.split.protocol_lines import CopyPlan
from tests.services import is_process_running, wait_until
from tests.storage_engine.engines import END_WAIT_S, ROOT, Engine, engine_with_topic

_COMMAND = """
import sys
from pathlib import Path
from mqservice.accounts.shard_parts import LocalShard, PartProgram
store, socket, target = map(Path, sys.argv[1:])
with PartProgram(
    LocalShard("main", store, socket), LocalShard("s2", target, socket), ["acme"], 5,
    last_number=0, say=lambda done, total: None,
) as program:
    program.copy()
    print("copied", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def source() -> Iterator[Engine]:
    with engine_with_topic(queues=1) as engine:
        yield engine


def test_it_dies_with_its_command_whatever_it_is_doing(source: Engine, tmp_path: Path) -> None:
    with subprocess.Popen(
        [
            sys.executable, "-c", _COMMAND, str(source.store_dir), source.socket,
            str(tmp_path / "store"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as command:  # fmt: skip
        assert command.stdout is not None
        try:
            assert command.stdout.readline() == b"copied\n"
            children = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text()
            (program,) = map(int, children.split())
            # It does not read that its command is gone: it is in the middle of something.
            os.kill(program, signal.SIGSTOP)
        finally:
            command.kill()
    try:
        wait_until(lambda: not is_process_running(program), END_WAIT_S, "the program is gone")
    finally:
        if is_process_running(program):
            os.kill(program, signal.SIGKILL)


def test_of_two_commands_only_one_copies_into_a_shard(tmp_path: Path) -> None:
    target = LocalShard("s2", tmp_path, tmp_path / "s")
    for _ in range(2):
        with sole_copy_into(target):
            with pytest.raises(Problem, match="another command"), sole_copy_into(target):
                pass
            with pytest.raises(Problem, match="another command"), sole_copy_into(target):
                pass


def test_its_last_words_are_those_of_the_problem(source: Engine, tmp_path: Path) -> None:
    nobody = tmp_path / "nobody"
    with (
        pytest.raises(Problem) as caught,
        PartProgram(
            LocalShard("main", source.store_dir, nobody),
            LocalShard("s2", tmp_path / "store", nobody), ["acme"], 5,
            last_number=0, say=lambda done, total: None,
        ) as program,
    ):  # fmt: skip
        program.copy()
    assert caught.value.code == "CONFLICT"
    assert caught.value.detail.startswith("could not copy the store: ")
    assert str(nobody) in caught.value.detail


def test_what_does_not_fit_is_refused_with_how_much_is_needed_and_how_much_there_is(
    source: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = Path(source.socket)
    shards = LocalShard("main", source.store_dir, socket), LocalShard("s2", tmp_path, socket)
    found = plan_copy(*shards)
    assert (found.copied_bytes > 0, found.fetched_bytes, found.free_bytes > 0) == (True, 0, True)
    gib = 1 << 30
    plan = CopyPlan(local_bytes=3 * gib, fetched_bytes=9 * gib, free_bytes=12 * gib)
    monkeypatch.setattr(EngineProgram, "expect", lambda *_: plan)
    with pytest.raises(Problem) as refused:
        plan_copy(*shards)
    assert refused.value.code == "CONFLICT"
    assert refused.value.detail == (
        "all of main's store is copied first, with 9 GiB that only the bucket has, which needs "
        "12.2 GiB, but the disk of s2 has only 12 GiB free"
    )
