"""Which service a command talks to, and with whose key."""

from __future__ import annotations

from pathlib import Path

import pytest
from mqservice_client.values import target_of

from mqservice.cli.errors import UsageError
from mqservice.cli.target import Target, find_target

QUICKSTART = b'{"base_url":"http://127.0.0.1:8123","api_key":"mqk_local","namespace":"demo","x":1}'


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MQ_DATA_DIR", str(tmp_path))
    return tmp_path


def ws_url_of(target: Target) -> str:
    """Where the library opens its socket."""
    return target_of(target.base_url, target.key, target.namespace).ws_url


def test_quickstart_gives_address_key_and_namespace(data_dir: Path) -> None:
    (data_dir / "quickstart.json").write_bytes(QUICKSTART)
    target = find_target()
    assert (target.base_url, target.key, target.namespace) == (
        "http://127.0.0.1:8123",
        "mqk_local",
        "demo",
    )
    assert ws_url_of(target) == "ws://127.0.0.1:8123/v1/ws?ns=demo"


def test_options_win_over_quickstart(data_dir: Path) -> None:
    (data_dir / "quickstart.json").write_bytes(QUICKSTART)
    target = find_target("https://mq.example/", "mqk_mine", "acme")
    assert (target.base_url, target.key, target.namespace) == (
        "https://mq.example",
        "mqk_mine",
        "acme",
    )
    assert ws_url_of(target) == "wss://mq.example/v1/ws?ns=acme"


def test_local_key_is_not_sent_to_another_address(data_dir: Path) -> None:
    (data_dir / "quickstart.json").write_bytes(QUICKSTART)
    for elsewhere in ("http://mq.example:8123", "http://127.0.0.1:9", "https://127.0.0.1:8123"):
        with pytest.raises(UsageError, match="no API key for"):
            find_target(elsewhere, None, None)


def test_other_names_of_the_loopback_are_the_same_address(data_dir: Path) -> None:
    (data_dir / "quickstart.json").write_bytes(QUICKSTART)
    assert find_target("http://localhost:8123", None, None).key == "mqk_local"


def test_key_without_namespace_means_the_keys_own_namespace(data_dir: Path) -> None:
    target = find_target(None, "mqk_mine", None)
    assert (target.namespace, ws_url_of(target)) == ("-", "ws://127.0.0.1:8000/v1/ws")


def test_no_key_anywhere_says_how_to_get_one(data_dir: Path) -> None:
    with pytest.raises(UsageError, match="--api-key"):
        find_target()


def test_broken_quickstart_is_named(data_dir: Path) -> None:
    (data_dir / "quickstart.json").write_bytes(b"{")
    with pytest.raises(UsageError, match=r"cannot read .*quickstart\.json"):
        find_target()


@pytest.mark.parametrize("url", ["8000", "ftp://x", "http://", "localhost:8000"])
def test_base_url_that_is_no_address_is_refused(data_dir: Path, url: str) -> None:
    with pytest.raises(UsageError, match="must be an address"):
        find_target(url, "mqk_mine", None)


@pytest.mark.parametrize("key", ["mqk a", "mqk\r\nx: y", "mqké"])
def test_key_that_cannot_be_a_header_is_refused(data_dir: Path, key: str) -> None:
    with pytest.raises(UsageError, match="characters"):
        find_target(None, key, None)
