"""Celery's road to Valkey, with one client for each channel where kombu makes one for each command.

Making a client of redis-py costs more than most of what is sent by it, and an idle worker sends
some twenty commands a second. Clients are stateless and safe for threads: what has a state is a
connection, and those stay in kombu's pool.
"""

from __future__ import annotations

from typing import Any, Final

from kombu.transport import TRANSPORT_ALIASES, redis

_NAME: Final = f"{__name__}:Transport"


class Channel(redis.Channel):
    """kombu's, which asks itself for a client before each command."""

    _shared_client: Any = None  # Any: redis-py's, whose class depends on the settings

    def _create_client(self, asynchronous: bool = False) -> Any:  # Any: as above
        if asynchronous:
            return super()._create_client(asynchronous=True)  # type: ignore[misc]  # not in stubs
        # kombu begins a new pool after a lost connection.
        if self._shared_client is None or self._shared_client.connection_pool is not self.pool:
            self._shared_client = super()._create_client()  # type: ignore[misc]  # not in stubs
        return self._shared_client


class Transport(redis.Transport):
    """kombu's with our channels."""

    Channel = Channel


def use_shared_clients() -> None:
    """From now on redis:// and rediss:// of kombu mean this."""
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = _NAME
