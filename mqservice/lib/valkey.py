"""Clients of Valkey that give up soon: whoever asks has something to do without the answer."""

from __future__ import annotations

import redis
import redis.asyncio


def valkey_client(url: str, seconds_max: float) -> redis.Redis:
    """``seconds_max``: to connect, and for each answer. Connects when it is first used."""
    return redis.Redis.from_url(
        url, socket_timeout=seconds_max, socket_connect_timeout=seconds_max, retry=None
    )


def async_valkey_client(url: str, seconds_max: float) -> redis.asyncio.Redis:
    """As ``valkey_client``, with one connection."""
    return redis.asyncio.Redis.from_url(
        url, socket_timeout=seconds_max, socket_connect_timeout=seconds_max, retry=None,
        max_connections=1,
    )  # fmt: skip
