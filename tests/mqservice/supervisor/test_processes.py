"""How the engine is started: what it is told, where it answers Prometheus, why it cannot start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqservice.lib.replicated_log import REPLICATED_LOG_VARIABLE, SNAPSHOT_VARIABLE
from mqservice.supervisor.child import Child
from mqservice.supervisor.config import SupervisorConfig
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.errors import ConfigInvalid, StartFailed
from mqservice.supervisor.output import Output
from mqservice.supervisor.processes import engine_metrics_ports, engine_spec, web_specs
from storage_engine.disk.files import Files
from storage_engine.log import checkpoint
from tests.storage_engine.faults import machine

CHOSEN = {"s3": 7_002, "main": 7_000, "s2": 7_001}


@pytest.mark.parametrize(
    ("given", "ports"),
    [
        ("", CHOSEN),
        ("0", {"main": 0, "s2": 0, "s3": 0}),
        ("9100", {"main": 9_100, "s2": 9_101, "s3": 9_102}),
        ("65533", {"main": 65_533, "s2": 65_534, "s3": 65_535}),
    ],
)
def test_users_port_goes_before_the_chosen_ones(given: str, ports: dict[str, int]) -> None:
    assert engine_metrics_ports({"MQ_ENGINE_METRICS_PORT": given}, CHOSEN) == ports


@pytest.mark.parametrize("given", ["-1", "65534", "x", "٣"])
def test_port_that_is_none_is_refused_by_its_variable(given: str) -> None:
    with pytest.raises(ConfigInvalid, match="MQ_ENGINE_METRICS_PORT"):
        engine_metrics_ports({"MQ_ENGINE_METRICS_PORT": given}, CHOSEN)


def test_web_processes_are_told_where_the_engines_answer(tmp_path: Path) -> None:
    config = SupervisorConfig(data_dir=tmp_path)
    (alone, *_) = web_specs({}, config, metrics_ports={"main": 7_000})
    assert alone.env["MQ_ENGINE_METRICS_PORT"] == "7000"
    assert "MQ_SHARD_METRICS_PORTS" not in alone.env
    (several, *_) = web_specs({}, config, metrics_ports={"s2": 7_001, "main": 7_000, "s3": 0})
    assert several.env["MQ_ENGINE_METRICS_PORT"] == "7000"
    assert several.env["MQ_SHARD_METRICS_PORTS"] == "s2=7001"


def test_engine_is_told_its_own_settings_and_no_secrets(tmp_path: Path) -> None:
    given = {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "MQ_ENGINE_SOCKET": "/s",
        "DATABASE_URL": "postgresql://a:secret@db/x",
        "VALKEY_URL": "redis://:secret@cache",
        "MQ_SECRET_KEY": "secret",
        "MQ_EMAIL_URL": "smtp://a:secret@mail",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    spec = engine_spec(given, DataDir(tmp_path), metrics_port=7_000)
    assert spec.env == {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "MQ_ENGINE_SOCKET": "/s",
        "MQ_ENGINE_METRICS_PORT": "7000",
    }


def test_engine_is_told_the_replicated_log_and_how_to_reach_it(tmp_path: Path) -> None:
    given = {
        REPLICATED_LOG_VARIABLE: "kafka://host:9092",
        SNAPSHOT_VARIABLE: "s3://bucket/snapshots",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "DATABASE_URL": "postgresql://a:secret@db/x",
    }
    spec = engine_spec(given, DataDir(tmp_path), metrics_port=0)
    assert spec.env == {
        "MQ_ENGINE_REPLICATED_LOG": "kafka://host:9092",
        "MQ_ENGINE_SNAPSHOT_URL": "s3://bucket/snapshots",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "MQ_ENGINE_METRICS_PORT": "0",
    }


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Output]:
    output = Output(tmp_path, is_quiet=True)
    yield output
    output.close()


def engine_of(data_dir: DataDir, output: Output) -> Child:
    env = {
        **os.environ,
        "MQ_ENGINE_STORE_DIR": str(data_dir.store),
        "MQ_ENGINE_SOCKET": str(data_dir.engine_socket),
    }
    spec = engine_spec(env, data_dir, metrics_port=0)
    return Child(spec, output, on_change=lambda: None, on_fatal=lambda _: None)


async def test_a_store_of_a_newer_engine_is_refused_in_one_line(
    tmp_path: Path, output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = DataDir(tmp_path / "data")
    data_dir.create()
    for name in ("commitlog", "config"):
        (data_dir.store / name).mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "_VERSION_ALL_HERE", 9)
        checkpoint.write_checkpoint(Files(), data_dir.store / "checkpoint", checkpoint.Checkpoint())

    with pytest.raises(StartFailed) as refused:
        await engine_of(data_dir, output).start()
    assert str(refused.value) == (
        f"cannot open the store: {data_dir.store}/checkpoint has format version 9, but this engine "
        "knows none above 4: start the newer engine that wrote it. Nothing was changed"
    )
    assert not list((data_dir.store / "commitlog").iterdir())


async def test_a_full_disk_stops_a_first_start_in_one_line_and_no_later_one(
    tmp_path: Path, output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.need_mounts()
    monkeypatch.setenv("MQ_ENGINE_RESERVE_BYTES", "65536")
    data_dir = DataDir(tmp_path / "data")
    data_dir.create()
    data_dir.store.rmdir()
    with machine.tmpfs(4 * machine.MIB) as disk:
        (disk / "store").mkdir()
        data_dir.store.symlink_to(disk / "store")
        fill(disk / "ballast")
        with pytest.raises(StartFailed) as refused:
            await engine_of(data_dir, output).start()
        assert str(refused.value) == (
            f"cannot open the store: {data_dir.store}: No space left on device"
        )

        (disk / "ballast").unlink()
        await started_and_stopped(data_dir, output)
        fill(disk / "ballast")
        await started_and_stopped(data_dir, output)


async def started_and_stopped(data_dir: DataDir, output: Output) -> None:
    engine = engine_of(data_dir, output)
    await engine.start()
    await engine.stop()


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, pytest.raises(OSError, match="28"):
        while True:
            file.write(bytes(4_096))
