"""``/healthz`` and ``/readyz``: what is up, what is down, and which of it matters."""

from __future__ import annotations

import socket
import threading
from datetime import timedelta
from typing import Any, NoReturn

import msgspec
import pytest
from django.db import OperationalError, connection
from django.db.models import F, Value
from django.test import Client
from pytest_django import Settings

from mqservice.lib.names import MAIN_SHARD
from mqservice.monitoring.degraded_watch import (
    FRESH_MS,
    KNOWN_MS_MAX,
    DegradedWatch,
    ask_postgres,
)
from mqservice.monitoring.heartbeats import TICK, record_heartbeat
from mqservice.monitoring.models import Heartbeat
from mqservice.monitoring.sampling import engine_stats
from mqservice.monitoring.ticks import LATE_MS
from mqservice.monitoring.views import degraded_watch
from mqservice.store import StatsReply, blocking_client
from tests.mqservice.delivery.wait_until import wait_until

AHEAD_MS = 60_000  # a tick that stays young, however long this machine takes to ask for it


def make_older(process: str, age_ms: int) -> None:
    age = Value(timedelta(milliseconds=age_ms))
    Heartbeat.objects.filter(process=process).update(beaten_at=F("beaten_at") - age)


def engine_says(
    monkeypatch: pytest.MonkeyPatch, degraded: list[str], quarantined_count: int = 0
) -> None:
    """Let the engine's answers say that of itself."""

    def stats(shard: str) -> StatsReply | None:
        found = engine_stats(shard)
        return found and msgspec.structs.replace(
            found, degraded=degraded, quarantined_count=quarantined_count
        )

    monkeypatch.setattr("mqservice.monitoring.health.engine_stats", stats)
    monkeypatch.setattr("mqservice.monitoring.degraded_watch.engine_stats", stats)


@pytest.fixture
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has just started."""
    monkeypatch.setattr(degraded_watch, "_asked_ms", None)
    monkeypatch.setattr(degraded_watch, "_answer", [])


def test_healthz_asks_nobody(client: Client, nothing_known: None) -> None:
    response = client.get("/healthz")  # without a database: a query would fail the test
    assert (response.status_code, response.json()) == (
        200,
        {"status": "ok", "degraded": []},
    )


def test_ready_when_database_and_engine_answer(db: None, engine: str, client: Client) -> None:
    def is_asked_in_time() -> bool:
        """The engine misses its ticks after three seconds, which a slow machine may take."""
        with blocking_client(MAIN_SHARD) as store:
            store.deliver_due()
        answers.append(client.get("/readyz"))
        return bool(answers[-1].json()["degraded"] == [])

    answers: list[Any] = []  # Any: the test client's, which are more than a response
    wait_until(is_asked_in_time)
    response = answers[-1]
    assert response.status_code == 200
    assert response.json() == {
        "status": "ready",
        "parts": {"database": "up", "engine": "up", "worker": "unknown", "beat": "unknown"},
        "degraded": [],
    }


def test_engine_that_is_unavailable_is_named(db: None, client: Client) -> None:
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["status"] == "not_ready"
    assert response.json()["parts"]["engine"] == "down"
    assert response.json()["parts"]["database"] == "up"


def test_database_that_is_unavailable_is_named(
    db: None, engine: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_says(monkeypatch, [])  # it misses its ticks when this machine is slow

    def refuse(*args: object) -> NoReturn:
        raise OperationalError("the connection is lost")

    with connection.execute_wrapper(refuse):
        response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["parts"] == {
        "engine": "up", "database": "down", "worker": "unknown", "beat": "unknown",
    }  # fmt: skip


def test_database_that_does_not_finish_a_handshake_is_down_in_time(
    db: None, engine: str, client: Client, settings: Settings
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        settings.MQ_DATABASE_URL = f"postgresql://nobody@127.0.0.1:{port}/nothing"
        response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["parts"]["database"] == "down"


@pytest.mark.parametrize(("age_s", "state"), [(1, "up"), (60, "down")])
def test_background_process_is_up_while_its_heartbeat_is_young(
    db: None, engine: str, client: Client, age_s: int, state: str
) -> None:
    record_heartbeat("worker")
    make_older("worker", age_s * 1_000)
    response = client.get("/readyz")
    assert response.status_code == 200  # messages flow without a worker
    assert response.json()["parts"]["worker"] == state


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_other_methods_are_refused(client: Client, path: str) -> None:
    assert client.post(path).status_code == 405


@pytest.mark.parametrize(
    ("degraded", "beat_age_ms", "state"),
    [
        ([], 0, "up"),
        (["beat"], 0, "degraded"),
        (["beat"], 31_000, "down"),
        (["beat"], None, "degraded"),  # it was never started
        ([], None, "unknown"),
    ],
)
def test_beat_is_degraded_when_the_engine_ticks_itself(
    db: None,
    engine: str,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    degraded: list[str],
    beat_age_ms: int | None,
    state: str,
) -> None:
    engine_says(monkeypatch, degraded)
    record_heartbeat(TICK)
    make_older(TICK, LATE_MS + 100)  # nobody could note the ticks: the engine knows better
    if beat_age_ms is not None:
        record_heartbeat("beat")
        make_older("beat", beat_age_ms)
    response = client.get("/readyz")
    assert response.status_code == 200
    answer = response.json()
    assert answer["parts"]["beat"] == state
    assert answer["degraded"] == degraded
    assert answer["status"] == ("degraded: beat" if degraded else "ready")


def test_replication_is_a_part_while_an_engine_takes_no_replicated_puts(
    db: None, engine: str, client: Client, monkeypatch: pytest.MonkeyPatch, nothing_known: None
) -> None:
    assert "replication" not in client.get("/readyz").json()["parts"]
    engine_says(monkeypatch, ["replication"])
    record_heartbeat("beat")
    response = client.get("/readyz")
    answer = response.json()
    assert (response.status_code, answer["parts"]["replication"]) == (200, "degraded")
    assert answer["degraded"] == ["replication"]
    client.get("/healthz")
    degraded_watch.wait(60)
    assert client.get("/healthz").json()["degraded"] == ["replication"]


def test_the_engine_says_so_without_a_database_too(
    db: None, engine: str, client: Client, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    engine_says(monkeypatch, ["beat"])
    settings.MQ_DATABASE_URL = "postgresql://nobody@127.0.0.1:1/nothing"
    answer = client.get("/readyz").json()
    assert (answer["parts"]["database"], answer["parts"]["beat"]) == ("down", "degraded")
    assert answer["degraded"] == ["beat"]


@pytest.mark.parametrize(
    ("tick_age_ms", "state"),
    [(-AHEAD_MS, "up"), (LATE_MS + 100, "degraded"), (None, "up")],
)
def test_without_the_engine_the_last_tick_that_was_noted_counts(
    db: None, client: Client, tick_age_ms: int | None, state: str
) -> None:
    record_heartbeat("beat")
    if tick_age_ms is not None:
        record_heartbeat(TICK)
        make_older(TICK, tick_age_ms)
    assert client.get("/readyz").json()["parts"]["beat"] == state


def test_healthz_says_what_the_engine_said(
    engine: str, client: Client, monkeypatch: pytest.MonkeyPatch, nothing_known: None
) -> None:
    engine_says(monkeypatch, ["beat"])
    client.get("/healthz")
    degraded_watch.wait(60)
    assert client.get("/healthz").json() == {"status": "degraded: beat", "degraded": ["beat"]}
    degraded_watch.wait(60)


def test_damaged_records_are_named_by_both_and_stop_nothing(
    db: None,
    engine: str,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    nothing_known: None,
) -> None:
    engine_says(monkeypatch, [], quarantined_count=2)
    ready = client.get("/readyz")
    assert ready.status_code == 200, "all other records are served"
    assert ready.json()["status"] == "degraded: quarantined_records"
    assert ready.json()["parts"]["quarantined_records"] == "degraded"
    client.get("/healthz")
    degraded_watch.wait(60)
    assert client.get("/healthz").json()["degraded"] == ["quarantined_records"]
    degraded_watch.wait(60)


@pytest.mark.django_db(transaction=True)
def test_healthz_says_the_same_after_a_question_beside_it(
    client: Client, settings: Settings, test_dsn: str, nothing_known: None
) -> None:
    settings.MQ_DATABASE_URL = test_dsn
    record_heartbeat(TICK)
    make_older(TICK, -AHEAD_MS)
    assert ask_postgres(test_dsn) is False
    make_older(TICK, AHEAD_MS + LATE_MS + 100)
    assert ask_postgres(test_dsn) is True
    client.get("/healthz")
    degraded_watch.wait(60)
    response = client.get("/healthz")
    degraded_watch.wait(60)
    assert response.status_code == 200
    assert response.json() == {"status": "degraded: beat", "degraded": ["beat"]}


def test_nobody_knows_of_ticks_without_a_database_or_before_the_first(
    transactional_db: None, test_dsn: str
) -> None:
    assert ask_postgres("postgresql://nobody@127.0.0.1:1/nothing") is None
    assert ask_postgres(test_dsn) is None


def test_a_question_that_hangs_holds_nobody_up_and_is_asked_once() -> None:
    now_ms, asked_count = 0, 0
    may_end = threading.Event()

    def ask() -> list[str]:
        nonlocal asked_count
        asked_count += 1
        assert may_end.wait(60)
        return ["beat"]

    watch = DegradedWatch(ask, lambda: now_ms)
    for _ in range(5):
        now_ms += FRESH_MS
        assert watch.known() == []
    assert asked_count == 1
    may_end.set()
    watch.wait(60)
    assert watch.known() == ["beat"]
    # Fresh enough: not asked again; too old: not known any more.
    assert asked_count == 1
    now_ms += KNOWN_MS_MAX + 1
    assert watch.known() == []
    watch.wait(60)
    assert watch.known() == ["beat"]
