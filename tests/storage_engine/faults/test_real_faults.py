"""The unmodified engine process on a kernel that fails: bad and slow disks, kills, power cuts."""

from __future__ import annotations

import os
import signal

import pytest

from storage_engine.records.record import encode_record
from tests.sizes import in_torture
from tests.storage_engine.doubles import message
from tests.storage_engine.engines import engine_with_topic, pull_all
from tests.storage_engine.faults import machine, power
from tests.storage_engine.faults.small_disk import fill_and_free
from tests.storage_engine.faults.traced import run_injured
from tests.storage_engine.kills.outcomes import History, Outcome, Send

SEED = 20_260
CUTS = 1


@pytest.mark.parametrize(
    "injection",
    [
        "msync:error=EIO:when=5+7",
        "fallocate:error=ENOSPC:when=12..16",
        *in_torture(
            "msync:error=ENOSPC:when=4", "fdatasync:error=EIO:when=2", "fsync:error=EIO:when=20"
        ),
    ],
)
def test_a_disk_that_fails_loses_nothing_acknowledged(injection: str) -> None:
    machine.need_strace()
    injured = run_injured(injection, seed=SEED, acked_min=1)
    assert injured.fired_count > 0
    assert injured.anomalies == []
    assert injured.history.count(Outcome.ACKED) > 0


@pytest.mark.torture
def test_after_one_failed_sync_the_engine_continues_on_its_own() -> None:
    machine.need_strace()
    injured = run_injured("msync:error=EIO:when=3", seed=SEED, acked_min=101)
    assert "sync_failed" in injured.log
    assert not injured.has_died
    assert injured.anomalies == []
    assert injured.history.count(Outcome.ACKED) > 100


@pytest.mark.parametrize(
    ("call", "number"),
    [("msync", 2), ("rename", 2), *in_torture(("fsync", 9), ("fdatasync", 1), ("fallocate", 3))],
)
def test_a_kill_at_one_system_call_loses_nothing_acknowledged(call: str, number: int) -> None:
    machine.need_strace()
    injured = run_injured(f"{call}:signal=KILL:when={number}", seed=number, acked_min=1)
    assert injured.has_died
    assert injured.anomalies == []


@pytest.mark.torture
def test_a_slow_disk_costs_time_and_nothing_else() -> None:
    machine.need_strace()
    injured = run_injured("msync:delay_enter=200000:when=1+20", seed=SEED, run_s=1.5, acked_min=1)
    assert injured.fired_count > 0
    assert injured.anomalies == []
    assert not injured.has_died
    assert injured.history.count(Outcome.ACKED) > 0


def test_no_power_cut_takes_a_sync_message() -> None:
    machine.need_mounts()
    cuts = power.run_cuts(CUTS, seed=SEED)
    assert cuts.anomalies == []
    assert cuts.history.count(Outcome.ACKED) > 30


@pytest.mark.parametrize(
    ("ended_ns", "outcome"),
    [(99, Outcome.ACKED), (100, Outcome.UNKNOWN), (200, Outcome.UNKNOWN), (201, Outcome.ACKED)],
)
def test_only_an_ack_from_before_a_cut_is_a_promise(ended_ns: int, outcome: Outcome) -> None:
    send = Send("t/0", 0, ("t", 0), "digest", Outcome.ACKED, 7, 0, ended_ns)
    assert power.unknown_after_cut(send, [(100, 200)]).outcome is outcome


def test_a_power_cut_takes_only_the_youngest_messages_of_an_async_topic() -> None:
    machine.need_mounts()
    cuts = power.run_async_cut(seed=SEED)
    assert cuts.anomalies == []
    assert cuts.history.count(Outcome.ACKED) > 100
    assert any(served.queue == power.ASYNC_QUEUE for served in cuts.history.served)


def test_an_async_message_lost_outside_the_window_is_called_an_anomaly() -> None:
    send = Send("a/0", 0, power.ASYNC_QUEUE, "digest", Outcome.ACKED, 0, 0, 1_000_000)
    window_ns = (power.WINDOW_MS + power.SLACK_MS) * 1_000_000
    early = power.judge_async(History(sends=[send]), cut_ns=1_000_000 + window_ns)
    late = power.judge_async(History(sends=[send]), cut_ns=1_000_001 + window_ns)
    assert early.anomalies == []
    assert early.window_lost_count == 1
    assert [name for name, _ in late.anomalies] == ["lost-outside-window"]


def test_a_full_disk_refuses_puts_and_recovers_on_its_own() -> None:
    machine.need_mounts()
    assert fill_and_free() > 0


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
