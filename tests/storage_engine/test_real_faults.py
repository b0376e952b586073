"""The unmodified engine process on a kernel that fails: bad and slow disks, kills, power cuts."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage_engine.client import DiskFull, StoreError, TopicConfig
from storage_engine.records.record import encode_record
from tests.storage_engine.doubles import message
from tests.storage_engine.engines import Engine, engine_with_topic, pull_all
from tests.storage_engine.faults import machine
from tests.storage_engine.faults.traced import run_injured
from tests.storage_engine.kills.history_checker import anomalies
from tests.storage_engine.kills.kill_loop import LIMITS, drain, prepare, working
from tests.storage_engine.kills.outcomes import History, Outcome

SEED = 20_260
CUTS = 3


@pytest.mark.parametrize(
    "injection",
    [
        "msync:error=EIO:when=3",
        "msync:error=EIO:when=5+7",
        "msync:error=ENOSPC:when=4",
        "fdatasync:error=EIO:when=2",
        "fsync:error=EIO:when=20",
        "fallocate:error=ENOSPC:when=12..16",
        "fallocate:error=EIO:when=14",
    ],
)
def test_a_disk_that_fails_loses_nothing_acknowledged(injection: str) -> None:
    machine.need_strace()
    injured = run_injured(injection, seed=SEED)
    assert injured.anomalies == []
    assert injured.history.count(Outcome.ACKED) > 0


def test_after_one_failed_sync_the_engine_goes_on_by_itself() -> None:
    machine.need_strace()
    injured = run_injured("msync:error=EIO:when=3", seed=SEED)
    assert "sync_failed" in injured.log
    assert not injured.has_died
    assert injured.anomalies == []
    assert injured.history.count(Outcome.ACKED) > 100


@pytest.mark.parametrize(
    ("call", "number"),
    [
        *[("msync", number) for number in (1, 2, 3, 8)],
        *[("fsync", number) for number in (4, 9, 17)],
        *[("fdatasync", number) for number in (1, 2)],
        *[("fallocate", number) for number in (1, 3)],
        *[("rename", number) for number in (2, 5)],
    ],
)
def test_a_kill_at_one_system_call_loses_nothing_acknowledged(call: str, number: int) -> None:
    machine.need_strace()
    injured = run_injured(f"{call}:signal=KILL:when={number}", seed=number)
    assert injured.has_died
    assert injured.anomalies == []


def test_a_slow_disk_costs_time_and_nothing_else() -> None:
    machine.need_strace()
    injured = run_injured("msync:delay_enter=200000:when=1+20", seed=SEED, run_s=1.5)
    assert injured.anomalies == []
    assert not injured.has_died
    assert injured.history.count(Outcome.ACKED) > 0


def test_no_power_cut_takes_a_sync_message() -> None:
    machine.need_mounts()
    history = History()
    draw = random.Random(SEED)
    with machine.ext4() as disk:
        store_dir = str(disk.path / "store")
        with Engine(MQ_ENGINE_STORE_DIR=store_dir, **LIMITS) as engine:
            prepare(engine)
            for _ in range(CUTS):
                with working(engine, history, draw, (("t", 0), ("t", 1))):
                    threading.Event().wait(0.1 + draw.random() / 3)
                    disk.cut()
                    engine.kill()
                disk.umount()
                disk.mount()
                engine.start()
            drain(engine, history)
            engine.kill()
    # A power cut may take the last settles, which shows as messages that come again.
    found = [anomaly for anomaly in anomalies(history) if anomaly[0] != "duplicate-after-ack"]
    assert found == []
    assert history.count(Outcome.ACKED) > 100


@pytest.fixture
def small_disk() -> Iterator[tuple[Path, Engine]]:
    machine.need_mounts()
    with (
        machine.tmpfs(3 * machine.MIB) as path,
        Engine(
            MQ_ENGINE_STORE_DIR=str(path / "store"),
            MQ_ENGINE_RESERVE_BYTES="262144",
        ) as engine,
    ):
        yield path, engine
        engine.kill()


def test_a_full_disk_refuses_puts_and_heals_by_itself(small_disk: tuple[Path, Engine]) -> None:
    path, engine = small_disk
    ballast = path / "ballast"
    with engine.client() as client:
        client.topic_put(TopicConfig(topic="t", queue_count=1))
        record = [encode_record(message(bytes(20_000)))]
        client.put(record)
        with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
            while True:
                file.write(bytes(4_096))
        stored = 1
        with pytest.raises(DiskFull) as refused:
            while True:
                client.put(record)
                stored += 1
        assert refused.value.stored is False
        assert len(pull_all(client, 0)) == stored
        client.checkpoint()
        ballast.unlink()
        _put_until_stored(engine, record[0])
        assert len(pull_all(client, 0)) == stored + 1
        assert client.stats().pid == engine.pid


def _put_until_stored(engine: Engine, record: bytes) -> None:
    """Puts are taken again within ten seconds of there being room, without a restart."""
    refusals: list[StoreError] = []
    with engine.client() as client:
        while len(refusals) < 100:
            try:
                client.put([record])
                return
            except StoreError as exc:
                refusals.append(exc)
                threading.Event().wait(0.1)
    pytest.fail(f"there is room again, and puts are refused for ten seconds: {refusals[-1]}")


def test_a_second_engine_is_refused_while_the_first_is_paused() -> None:
    with engine_with_topic(queues=1) as engine, engine.client() as client:
        client.put([encode_record(message(b"before"))])
        os.kill(engine.pid, signal.SIGSTOP)
        try:
            code, said = engine.run_to_end()
        finally:
            os.kill(engine.pid, signal.SIGCONT)
        assert code == 3
        assert any("in use by process" in line for line in said)
        client.put([encode_record(message(b"after"))])
        assert pull_all(client, 0) == [b"before", b"after"]
