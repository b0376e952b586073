"""Replacing processes of a running service; the whole of it is in the acceptance tests."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from mqservice.supervisor import restarting
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.errors import ConfigInvalid
from mqservice.supervisor.quickstart import Quickstart, write_quickstart
from mqservice.supervisor.restarting import KINDS, restart

STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); input()"
)
FACTS = Quickstart(
    base_url="http://127.0.0.1:1", own_url="http://127.0.0.1:1", ws_url="", console_url="",
    namespace="n", topic="t", group="g", api_key="k", username="u", password="p", pids={},
)  # fmt: skip


def ignored(line: str) -> None:
    """Nobody reads it."""


def started() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


async def test_where_nothing_runs_nothing_is_restarted(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="no service runs"):
        await restart(DataDir(tmp_path), "web", say=ignored)
    facts = msgspec.structs.replace(FACTS, pids={"supervisor": 1, "postgres": 1})
    write_quickstart(tmp_path / "quickstart.json", facts)
    for kind in (*KINDS, "all"):
        with pytest.raises(ConfigInvalid, match="no '"):
            await restart(DataDir(tmp_path), kind, say=ignored)


async def test_a_service_of_a_version_before_is_left_alone(tmp_path: Path) -> None:
    process = started()
    facts = msgspec.structs.replace(FACTS, own_url="", pids={"beat": process.pid})
    write_quickstart(tmp_path / "quickstart.json", facts)
    try:
        with pytest.raises(ConfigInvalid, match="start it again"):
            await restart(DataDir(tmp_path), "beat", say=ignored)
        assert process.poll() is None
    finally:
        process.communicate(b"\n")


async def test_one_that_does_not_end_on_its_own_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_ready(url: str) -> bool:
        return True

    monkeypatch.setattr(restarting, "WORKER_STOP_MS", 50)
    monkeypatch.setattr(restarting, "is_url_ok", is_ready)
    old, new = started(), started()
    path = tmp_path / "quickstart.json"
    try:
        write_quickstart(path, msgspec.structs.replace(FACTS, pids={"beat": old.pid}))

        def supervise() -> None:
            old.wait()
            write_quickstart(path, msgspec.structs.replace(FACTS, pids={"beat": new.pid}))

        watching = threading.Thread(target=supervise)
        watching.start()
        said: list[str] = []
        await restart(DataDir(tmp_path), "beat", say=said.append)
        watching.join(60)
        assert old.returncode == -9
        assert said[0].startswith(f"beat is ready again as process {new.pid}")
    finally:
        for process in (old, new):
            process.communicate(b"\n")
