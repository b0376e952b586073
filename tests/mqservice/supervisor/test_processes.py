"""Where the engine answers Prometheus, as the user or the supervisor decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.errors import ConfigInvalid
from mqservice.supervisor.processes import engine_metrics_port, engine_spec


@pytest.mark.parametrize(("given", "port"), [("", 7_000), ("0", 0), ("9100", 9_100)])
def test_users_port_goes_before_the_chosen_one(given: str, port: int) -> None:
    assert engine_metrics_port({"MQ_ENGINE_METRICS_PORT": given}, 7_000) == port


@pytest.mark.parametrize("given", ["-1", "65536", "x", "٣"])
def test_port_that_is_none_is_refused_by_its_variable(given: str) -> None:
    with pytest.raises(ConfigInvalid, match="MQ_ENGINE_METRICS_PORT"):
        engine_metrics_port({"MQ_ENGINE_METRICS_PORT": given}, 7_000)


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
