"""Beats as real processes: killed, stopped and cut off, there is always one soon, and never two."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from math import ceil
from pathlib import Path

import psycopg
import pytest

from mqservice.leader_lock import APPLICATION_NAME, IDLE_MS_MAX
from mqservice.scheduler import STANDBY_SECONDS
from tests.mqservice.delivery.wait_until import wait_until

# A beat asks for the lock each half second, and leads within two: counted, and not measured, for a
# machine that stands still asks no questions.
ASKED_MAX = 4
PATIENT_MS = 120_000  # so long the session of a leader may be silent when only its end counts
WAIT_S = 60


class Beat:
    """One process and what it notes."""

    def __init__(self, path: Path, dsn: str, idle_ms: int = PATIENT_MS) -> None:
        self._path = path
        path.touch()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.mqservice.beat_process", str(path), str(idle_ms)],
            env={**os.environ, "DATABASE_URL": dsn},
            stderr=subprocess.DEVNULL,
        )

    def sent_ms(self) -> list[int]:
        return self._noted_ms("sent")

    def asked_count(self, since_ms: int) -> int:
        """How often it asked for the lock in vain from then until it led."""
        led_ms = min(at_ms for at_ms in self.sent_ms() if at_ms > since_ms)
        return sum(since_ms < at_ms < led_ms for at_ms in self._noted_ms("asked"))

    def _noted_ms(self, what: str) -> list[int]:
        lines = self._path.read_text().split("\n")[:-1]
        return [int(line.split()[0]) for line in lines if line.endswith(f" {what}")]

    def is_ready(self) -> bool:
        return self._path.stat().st_size > 0

    def is_stopped(self) -> bool:
        """Whether it stands still, as after SIGSTOP."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        return stat.rpartition(") ")[2][0] == "T"

    def leads(self, since_ms: int) -> bool:
        """Whether it asked after that if it may send, and sent."""
        return any(at_ms > since_ms for at_ms in self.sent_ms())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_S)


@pytest.fixture
def dsn(test_dsn: str) -> str:
    parts = dict(part.split("=", 1) for part in test_dsn.split())
    account = f"{parts['user']}:{parts['password']}"
    return f"postgresql://{account}@{parts['host']}:{parts['port']}/{parts['dbname']}"


@pytest.fixture
def beats(dsn: str, tmp_path: Path) -> Iterator[list[Beat]]:
    found = [Beat(tmp_path / f"beat{number}", dsn) for number in range(2)]
    wait_until(lambda: all(beat.is_ready() for beat in found), WAIT_S)
    yield found
    for beat in found:
        if beat.process.poll() is None:
            beat.kill()


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def leader_of(beats: list[Beat], since_ms: int) -> Beat:
    wait_until(lambda: any(beat.leads(since_ms) for beat in beats), WAIT_S)
    return next(beat for beat in beats if beat.leads(since_ms))


def terms_of(beats: list[Beat]) -> list[int]:
    """Whose turn it was, in the order of what was sent, repetitions left out."""
    sent = sorted((at_ms, number) for number, beat in enumerate(beats) for at_ms in beat.sent_ms())
    terms: list[int] = []
    for _, number in sent:
        if not terms or terms[-1] != number:
            terms.append(number)
    return terms


@pytest.mark.torture
def test_a_killed_leader_is_followed_within_two_seconds_time_and_again(
    beats: list[Beat], dsn: str, tmp_path: Path
) -> None:
    everybody = list(beats)
    for round_number in range(4):
        leader = leader_of(beats, now_ms())
        [other] = [beat for beat in beats if beat is not leader]
        killed_ms = now_ms()
        leader.kill()
        wait_until(partial(other.leads, killed_ms), WAIT_S)
        assert other.asked_count(killed_ms) <= ASKED_MAX
        another = Beat(tmp_path / f"more{round_number}", dsn)
        wait_until(another.is_ready, WAIT_S)
        everybody.append(another)
        beats[beats.index(leader)] = another
    terms = terms_of(everybody)
    assert len(terms) == 5, "each led once, and never beside another"
    assert len(set(terms)) == 5


@pytest.mark.torture
def test_a_leader_that_stood_still_sends_nothing_new_when_it_wakes_up(
    dsn: str, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        leader = Beat(tmp_path / "leader", dsn, IDLE_MS_MAX)
        stack.callback(leader.kill)
        wait_until(lambda: leader.leads(0), WAIT_S)
        other = Beat(tmp_path / "other", dsn)
        stack.callback(other.kill)
        wait_until(other.is_ready, WAIT_S)
        leader.process.send_signal(signal.SIGSTOP)
        wait_until(leader.is_stopped, WAIT_S)
        stopped_ms = now_ms()
        wait_until(lambda: other.leads(stopped_ms), WAIT_S)
        patience = ceil(IDLE_MS_MAX / 1_000 / STANDBY_SECONDS)  # of the server
        assert other.asked_count(stopped_ms) <= ASKED_MAX + patience
        leader.process.send_signal(signal.SIGCONT)
        woken_ms = now_ms()
        wait_until(lambda: other.leads(woken_ms + 2_000), WAIT_S)
        assert not leader.leads(stopped_ms)


def test_a_leader_whose_session_is_ended_stops_and_one_of_them_continues(
    beats: list[Beat], dsn: str
) -> None:
    for _ in range(5):
        leader_of(beats, now_ms())
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = %s",
                (APPLICATION_NAME,),
            )
        ended_ms = now_ms()
        leader_of(beats, ended_ms)
    # Whoever got it kept it: a term begins only when a session was ended.
    assert len(terms_of(beats)) <= 6
