"""Two beats, one leader; the other takes over and counts from then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from celery import Celery
from django.db import connection
from psycopg.conninfo import make_conninfo
from pytest_django import Settings

from mqservice.leader_lock import LeaderLock
from mqservice.monitoring.models import Heartbeat
from mqservice.scheduler import STANDBY_SECONDS, LeaderScheduler

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def dsn(settings: Settings) -> str:
    """The lock is asked for in the database of the tests."""
    parameters = connection.get_connection_params()
    kept = ("host", "port", "user", "password", "dbname")
    settings.MQ_DATABASE_URL = make_conninfo("", **{name: parameters[name] for name in kept})
    return str(settings.MQ_DATABASE_URL)


class Beat(LeaderScheduler):
    """Notes what it would send instead of sending it."""

    def __init__(self, app: Celery) -> None:
        self.sent: list[str] = []
        super().__init__(app, lazy=True)
        self.setup_schedule()

    def apply_entry(self, entry: object, producer: object = None) -> None:
        self.sent.append(entry.name)  # type: ignore[attr-defined]  # Celery's ScheduleEntry

    def make_due(self) -> None:
        """As if an hour had passed since the last run."""
        for entry in self.schedule.values():
            entry.last_run_at = self.app.now() - timedelta(hours=1)
        self._heap = None


@pytest.fixture
def beats(dsn: str) -> Iterator[tuple[Beat, Beat]]:
    app = Celery("test", broker="memory://")
    app.conf.update(beat_schedule={"tick": {"task": "tick", "schedule": 60.0}}, result_expires=None)
    pair = Beat(app), Beat(app)
    yield pair
    for beat in pair:
        beat.lock.release()


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
    standby.tick()
    # Then the other leads, and waits a whole interval before it sends
    assert standby.lock.is_held
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
    standby.tick()
    assert standby.lock.is_held


def test_beat_survives_a_database_that_is_away() -> None:
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
