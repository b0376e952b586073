"""``/healthz`` and ``/readyz``: what is up, what is down, and which of it matters."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import NoReturn

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from mqservice.monitoring.models import Heartbeat
from mqservice.monitoring.sampling import record_heartbeat


def test_healthz_asks_nobody(client: Client) -> None:
    response = client.get("/healthz")  # without a database: a query would fail the test
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_ready_when_database_and_engine_answer(db: None, engine: str, client: Client) -> None:
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {
        "status": "ready",
        "parts": {"database": "up", "engine": "up", "worker": "unknown", "beat": "unknown"},
    }


def test_engine_that_is_away_is_named(db: None, client: Client) -> None:
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["status"] == "not_ready"
    assert response.json()["parts"]["engine"] == "down"
    assert response.json()["parts"]["database"] == "up"


def test_database_that_is_away_is_named(db: None, engine: str, client: Client) -> None:
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
    Heartbeat.objects.update(beaten_at=timezone.now() - timedelta(seconds=age_s))
    response = client.get("/readyz")
    assert response.status_code == 200  # messages flow without a worker
    assert response.json()["parts"]["worker"] == state


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_other_methods_are_refused(client: Client, path: str) -> None:
    assert client.post(path).status_code == 405
