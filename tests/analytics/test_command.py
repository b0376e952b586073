"""What ``python -m analytics`` says when it cannot do what it is told."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analytics import java
from analytics.__main__ import EXIT_ARGUMENTS, EXIT_FAILED, EXIT_NO_SPARK, main
from analytics.session import spark_problem
from tests.analytics.stores import at, make_topics, open_store, put_orders

RUN = ["run", "--store", "s", "--lake", "l", "--out", "o", "--from", "2026-01-05"]


def fake_java(directory: Path, version: str) -> None:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [("17.0.15", True), ("21", True), ("25-ea", True), ("11.0.2", False), ("1.8.0_392", False)],
)
def test_java_is_taken_from_17_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_enough: bool
) -> None:
    fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    reason = spark_problem()
    assert (reason == "") is is_enough
    if not is_enough:
        assert "Java 17 or newer is needed" in reason
        assert "apt-get install" in reason


def test_without_java_nothing_is_started_and_the_reason_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([*RUN, "--to", "2026-01-06"]) == EXIT_NO_SPARK
    assert "there is no java" in capsys.readouterr().err


def fake_apt(directory: Path, exit_code: int) -> Path:
    """It notes what it was asked for, and installs a Java of its own."""
    directory.mkdir()
    program = directory / "apt-get"
    program.write_text(
        f"#!/bin/sh\necho $* >> {directory}/asked\n"
        f"printf '#!/bin/sh\\necho version \\\"17.0.1\\\" >&2\\n' > {directory}/java\n"
        f"/bin/chmod +x {directory}/java\necho no room >&2\nexit {exit_code}\n"
    )
    program.chmod(0o755)
    return directory / "asked"


def test_a_system_without_that_version_gets_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = fake_apt(tmp_path / "bin", 0)
    program = tmp_path / "bin" / "apt-get"
    first, rest = program.read_text().split("\n", 1)
    there_is_none = f'case "$*" in *{java.PACKAGES[0]}) echo none of it >&2; exit 100;; esac'
    program.write_text(f"{first}\n{there_is_none}\n{rest}")
    without_java(monkeypatch, tmp_path / "bin", user_id=0)
    assert java.main() == 0
    assert asked.read_text().splitlines()[-1].endswith(java.PACKAGES[1])
    assert "Java for reports" in capsys.readouterr().out


def test_whoever_starts_the_service_does_not_wait_for_an_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_apt(tmp_path / "bin", 0)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    program = tmp_path / "bin" / "apt-get"
    first, rest = program.read_text().split("\n", 1)
    program.write_text(f'{first}\ncase "$*" in *update) read line < {gate};; esac\n{rest}')
    without_java(monkeypatch, tmp_path / "bin", user_id=0)
    log = tmp_path / "java.log"
    started = []
    real = subprocess.Popen

    def popen(*arguments: Any, **more: Any) -> Any:  # Any: whatever Popen takes
        started.append(real(*arguments, **more))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    # The process asks who it is by itself: only where that is root does it install.
    assert java.main(["--background", str(log)]) == 0
    assert "installing it for reports" in capsys.readouterr().out
    assert started[-1].poll() is None or os.getuid() != 0
    if os.getuid() == 0:
        gate.write_text("go\n")
    assert started[-1].wait(60) == 0
    assert ("Java for reports" in log.read_text()) is (os.getuid() == 0)


def without_java(monkeypatch: pytest.MonkeyPatch, path: Path, *, user_id: int) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setattr(os, "geteuid", lambda: user_id)


def test_root_gets_java_from_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = fake_apt(tmp_path / "bin", 0)
    without_java(monkeypatch, tmp_path / "bin", user_id=0)
    assert java.main() == 0
    first, second = asked.read_text().splitlines()
    assert first.endswith(" update")
    assert second.endswith(f" install --yes --no-install-recommends {java.PACKAGES[0]}")
    told = capsys.readouterr()
    assert "Installing" in told.out
    assert "Java for reports" in told.out
    assert told.err == ""


def test_who_is_not_root_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = fake_apt(tmp_path / "bin", 0)
    without_java(monkeypatch, tmp_path / "bin", user_id=1_000)
    assert java.main() == 0
    assert not asked.exists()
    assert f"apt-get install {java.PACKAGES[0]}" in capsys.readouterr().err


def test_an_installation_that_fails_says_why_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_apt(tmp_path / "bin", 100)
    without_java(monkeypatch, tmp_path / "bin", user_id=0)
    assert java.main() == 0
    assert "apt-get update failed: no room" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--to", "2026-01-05"], "no days"),
        (["--to", "2026-01-06", "--zone", "Mars/Olympus"], "not a time zone"),
        (["--to", "2026-01-06", "--zone", "../etc/passwd"], "not a time zone"),
        (["--to", "2026-01-06", "--jobs", "usage_daily,nonsense"], "nonsense"),
        (["--to", "2026-01-06", "--conf", "spark.x"], "NAME=VALUE"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_before_spark_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    reason: str,
) -> None:
    fake_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # it could start nothing
    assert main([*RUN, *arguments]) == EXIT_ARGUMENTS
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[]", '{"shards": [{"name": "s2"}]}', '{"shards": []}'])
def test_a_file_that_names_no_shards_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    fake_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "shards.json").write_text(text)
    places = ["run", "--shards", str(tmp_path / "shards.json"), *RUN[3:]]
    assert main([*places, "--to", "2026-01-06"]) == EXIT_ARGUMENTS
    assert "--shards" in capsys.readouterr().err


async def make_store(store_dir: Path) -> None:
    async with open_store(store_dir, at("2026-01-05T22:30+00:00")) as store:
        make_topics(store)
        await put_orders(store, 3)
        await store.close()


@pytest.mark.torture
def test_a_jvm_that_dies_is_reported_with_what_helps(tmp_path: Path) -> None:
    asyncio.run(make_store(tmp_path / "s"))
    places = ["--store", tmp_path / "s", "--lake", tmp_path / "lake", "--out", tmp_path / "out"]
    process = subprocess.Popen(
        [sys.executable, "-m", "analytics", "run", *map(str, places), "--progress",
         "--from", "2026-01-05", "--to", "2026-01-06", "--master", "local[1]"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert "ingest" in process.stdout.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == EXIT_FAILED
    assert "Spark's JVM exited" in said
    assert "it has 1g (--driver-memory, MQ_REPORTS_MEMORY)" in said
