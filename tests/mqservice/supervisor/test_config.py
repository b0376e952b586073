"""What the environment may ask of the supervisor."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqservice.supervisor.config import config_from_env
from mqservice.supervisor.errors import ConfigInvalid


def test_empty_environment_gives_the_documented_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    config = config_from_env({})

    assert config.data_dir == tmp_path / "var"
    assert (config.bind, config.port) == ("127.0.0.1", 8000)
    assert config.web_worker_count in (1, 2)
    assert config.database_url is None
    assert config.valkey_url is None
    assert config.base_url == "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MQ_PORT", "0"),
        ("MQ_PORT", "65536"),
        ("MQ_PORT", "80a"),
        ("MQ_PORT", "-1"),
        ("MQ_WEB_WORKERS", "0"),
        ("MQ_WEB_WORKERS", "65"),
        ("DATABASE_URL", "mysql://host/db"),
        ("VALKEY_URL", "valkey://host"),
        ("MQ_BASE_URL", "queue.example"),
    ],
)
def test_unusable_value_is_refused_by_the_variables_name(name: str, value: str) -> None:
    with pytest.raises(ConfigInvalid, match=name):
        config_from_env({name: value})


def test_refused_url_is_not_repeated_because_it_may_hold_a_password() -> None:
    with pytest.raises(ConfigInvalid) as refused:
        config_from_env({"DATABASE_URL": "mysql://user:hidden@host/db"})

    assert "hidden" not in str(refused.value)


def test_all_addresses_are_reached_by_loopback() -> None:
    config = config_from_env({"MQ_BIND": "0.0.0.0", "MQ_PORT": "9000"})

    assert config.base_url == "http://127.0.0.1:9000"


def test_public_base_url_wins_and_loses_its_last_slash() -> None:
    config = config_from_env({"MQ_BASE_URL": "https://queue.example/"})

    assert config.base_url == "https://queue.example"
