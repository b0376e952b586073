"""Two beats, one leader; the other takes over and counts from then."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from celery import Celery
from celery.beat import SchedulingError, event_t
from django.db import OperationalError, connection
from pytest_django import Settings

from mqservice import leader_lock
from mqservice.celery import ASKED_BEFORE
from mqservice.leader_lock import LeaderLock
from mqservice.monitoring.models import Heartbeat
from mqservice.scheduler import (
    ANSWERS_MS,
    BACKLOG_MAX,
    CLOCK_JUMP_MS_MAX,
    LOOK_SECONDS_MIN,
    STANDBY_SECONDS,
    LeaderScheduler,
)
from mqservice.schedules.models import Schedule
from tests.clock import ManualClock
from tests.mqservice.delivery.wait_until import wait_until
from tests.people import People

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def dsn(settings: Settings, test_dsn: str) -> str:
    """The lock is asked for in the database of the tests."""
    settings.MQ_DATABASE_URL = test_dsn
    return test_dsn


class Beat(LeaderScheduler):
    """Notes what it would send instead of sending it."""

    def __init__(self, app: Celery) -> None:
        self.sent: list[str] = []
        self.own_clock = ManualClock()
        super().__init__(app, lazy=True, clock=self.own_clock)
        self.setup_schedule()

    def apply_async(self, entry: Any, *args: Any, **kwargs: Any) -> None:  # Any: Celery's own
        self.sent.append(entry.name)

    def make_due(self) -> None:
        """As if an hour had passed since the last run."""
        for entry in self.schedule.values():
            entry.last_run_at = self.app.now() - timedelta(hours=1)
        self._heap = None


@pytest.fixture
def pair(dsn: str) -> Iterator[tuple[Beat, Beat]]:
    app = Celery("test", broker="memory://")
    app.conf.update(beat_schedule={"tick": {"task": "tick", "schedule": 60.0}}, result_expires=None)
    made = Beat(app), Beat(app)
    yield made
    for beat in made:
        beat.lock.release()


@pytest.fixture
def beats(pair: tuple[Beat, Beat], monkeypatch: pytest.MonkeyPatch) -> tuple[Beat, Beat]:
    """The server does not end the session of one that stands still with its machine."""
    patient = leader_lock._SESSION_OPTIONS.replace(f"={leader_lock.IDLE_MS_MAX}", "=120000")
    monkeypatch.setattr(leader_lock, "_SESSION_OPTIONS", patient)
    return pair


def take_over(beat: Beat) -> None:
    """Tick until it leads: the server frees a lock some moments after its holder has gone."""

    def leads() -> bool:
        beat.tick()
        return beat.lock.is_held

    wait_until(leads)


def test_only_the_leader_sends(beats: tuple[Beat, Beat]) -> None:
    leader, standby = beats
    leader.tick()
    leader.make_due()
    standby.make_due()
    assert standby.tick() == STANDBY_SECONDS
    leader.tick()
    assert leader.sent == ["tick"]
    assert standby.sent == []


def test_standby_takes_over_and_sends_nothing_twice(beats: tuple[Beat, Beat]) -> None:
    # Given a leader that has just sent
    leader, standby = beats
    leader.tick()
    leader.make_due()
    leader.tick()
    standby.make_due()
    standby.tick()
    # When it goes away
    leader.lock.release()
    take_over(standby)
    # Then the other leads, and waits a whole interval before it sends
    assert standby.sent == []
    standby.make_due()
    standby.tick()
    assert standby.sent == ["tick"]


def test_leader_whose_session_ended_stops_sending(beats: tuple[Beat, Beat], dsn: str) -> None:
    leader, standby = beats
    leader.tick()
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'mqservice beat leader'"
        )
    leader.make_due()
    assert leader.tick() == STANDBY_SECONDS
    assert leader.sent == []
    take_over(standby)


def test_beat_survives_a_database_that_is_unavailable() -> None:
    lock = LeaderLock("postgresql://nobody@127.0.0.1:1/nothing")
    assert not lock.check()
    assert not lock.is_held


def test_leader_shows_that_it_lives(beats: tuple[Beat, Beat]) -> None:
    leader, standby = beats
    standby.lock.release()
    leader.tick()
    assert Heartbeat.objects.get(process="beat").pid == os.getpid()


def test_nothing_is_written_to_the_working_directory(
    beats: tuple[Beat, Beat], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    leader, _ = beats
    leader.tick()
    leader.sync()
    leader.close()
    assert list(tmp_path.iterdir()) == []


def test_a_leader_asks_before_each_thing_that_it_sends(
    beats: tuple[Beat, Beat], dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood still between its look at the schedule and the sending, and another leads by now."""
    leader, standby = beats
    leader.tick()
    leader.make_due()
    [entry] = leader.schedule.values()
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'mqservice beat leader'"
        )
    standby.lock.check()
    standby.tick()
    assert standby.lock.is_held
    leader.apply_entry(entry)
    assert leader.sent == []


def test_a_session_that_is_silent_loses_the_lock(pair: tuple[Beat, Beat]) -> None:
    leader, standby = pair
    leader.tick()
    wait_until(standby.lock.check)
    assert not leader.lock.check()


@pytest.mark.parametrize("by_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_is_set_neither_silences_beat_nor_makes_it_send_at_once(
    beats: tuple[Beat, Beat], by_ms: int
) -> None:
    leader, _ = beats
    leader.tick()
    [entry] = leader.schedule.values()
    entry.last_run_at = leader.app.now() - timedelta(milliseconds=by_ms)
    leader._heap = None
    leader.own_clock._now_ms += by_ms
    leader.tick()
    assert leader.sent == []
    [entry] = leader.schedule.values()
    assert entry.last_run_at is not None
    assert abs(entry.last_run_at - leader.app.now()) < timedelta(seconds=30)
    before = leader._heap
    leader.own_clock._now_ms += CLOCK_JUMP_MS_MAX  # clocks drift apart, that is no jump
    leader.tick()
    assert leader._heap is before


def test_a_queue_that_nobody_empties_gets_no_more_ticks(
    beats: tuple[Beat, Beat], monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, _ = beats
    leader.tick()
    for waiting, sent_count in [(BACKLOG_MAX - 1, 1), (BACKLOG_MAX, 1), (3, 2)]:
        monkeypatch.setattr(leader, "_waiting_count", lambda queue, count=waiting: count)
        leader.make_due()
        leader.tick()
        assert len(leader.sent) == sent_count


def test_a_broker_that_is_unavailable_is_told_of_once(
    beats: tuple[Beat, Beat], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise SchedulingError("no broker")

    leader, _ = beats
    leader.tick()
    with monkeypatch.context() as away:
        away.setattr(leader, "apply_async", refuse)
        for _ in range(3):
            leader.make_due()
            leader.tick()
    assert caplog.text.count("Valkey is unavailable") == 1
    leader.make_due()
    leader.tick()
    assert leader.sent == ["tick"]


def test_entries_that_are_not_due_yet_are_not_looked_at_over_and_over(
    beats: tuple[Beat, Beat],
) -> None:
    """Two whose time was thought to have come: Celery asks for the next look at once."""
    leader, _ = beats
    leader.tick()
    [entry] = leader.schedule.values()
    heap: Any = [event_t(0, 5, entry), event_t(0, 5, copy.copy(entry))]  # Any: the stubs know None
    leader._heap = heap
    assert leader.tick() >= LOOK_SECONDS_MIN
    assert leader.sent == []
    leader.make_due()
    assert leader.tick() == 0, "more may be due"
    assert leader.sent == ["tick"]


@pytest.fixture
def sweeping(beats: tuple[Beat, Beat]) -> Beat:
    """A leader whose schedule has the three sweeps besides."""
    leader, _ = beats
    leader.app.conf.beat_schedule = {
        name: {"task": name, "schedule": 60.0} for name in ("tick", *ASKED_BEFORE)
    }
    leader.setup_schedule()
    leader.tick()
    return leader


def send_all(leader: Beat) -> list[str]:
    """What it sends when all is due."""
    leader.own_clock.advance(ANSWERS_MS)
    leader.make_due()
    leader.sent.clear()
    while leader.tick() == 0:
        pass
    return sorted(leader.sent)


def test_sweeps_that_would_find_nothing_are_not_sent(sweeping: Beat, people: People) -> None:
    assert send_all(sweeping) == ["tick"]
    Schedule.objects.create(
        namespace=people.acme, name="nightly", topic="t", cron="0 * * * *", body=b"",
        due_ms=sweeping.own_clock.now_ms() + 2 * ANSWERS_MS,
    )  # fmt: skip
    assert send_all(sweeping) == ["tick"]
    assert send_all(sweeping) == ["schedules.sweep", "tick"]


def test_sweeps_are_sent_where_nobody_can_tell_whether_they_find_anything(
    sweeping: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise OperationalError("the database is away")

    with monkeypatch.context() as away:
        away.setattr(connection, "cursor", refuse)
        assert send_all(sweeping) == sorted(["tick", *ASKED_BEFORE])
    assert send_all(sweeping) == ["tick"]
