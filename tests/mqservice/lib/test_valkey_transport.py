"""Celery's channels make one client of redis-py, and a new one after a lost connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection

from mqservice.lib.valkey_transport import Transport, use_shared_clients
from tests.servers import TestServers


@pytest.fixture(scope="module")
def valkey_url() -> Iterator[str]:
    servers = TestServers()
    try:
        servers.start_valkey()
        yield servers.environment()["VALKEY_URL"]
    finally:
        servers.close()


@pytest.fixture
def channel(valkey_url: str) -> Iterator[Any]:  # Any: the stubs know no channel of Redis
    use_shared_clients()
    with Connection(valkey_url) as connection:
        assert isinstance(connection.transport, Transport)
        yield connection.default_channel


def test_commands_share_a_client(channel: Any) -> None:
    with channel.conn_or_acquire() as first, channel.conn_or_acquire() as second:
        assert first is second
        assert first.ping()


def test_a_lost_connection_gets_a_new_client(channel: Any) -> None:
    with channel.conn_or_acquire() as first:
        first.ping()
    channel._disconnect_pools()  # what kombu calls when one is lost
    with channel.conn_or_acquire() as second:
        assert second is not first
        assert second.ping()


def test_an_encrypted_address_stays_encrypted() -> None:
    use_shared_clients()
    with Connection("rediss://valkey.invalid/0") as connection:
        assert connection.ssl
        assert isinstance(connection.transport, Transport)
