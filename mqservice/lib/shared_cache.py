"""Django's cache in Valkey, and in the process itself while Valkey is unavailable.

    allauth's rate limits, used codes, throttles ──▶ [SharedCache] ──▶ Valkey
                                                          └─ away ──▶ memory of this process

What is kept are counts of attempts: without Valkey each process counts for itself, which is neither
no limit nor a service nobody can sign in to. Values are JSON: nothing from Valkey is unpickled.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Final

import msgspec
from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 0.5
UNAVAILABLE_SECONDS: Final = 2.0  # for which nobody asks again
LOCAL_ENTRIES_MAX: Final = 20_000


class JsonSerializer:
    """Whole numbers stay numbers, so that Valkey can count them."""

    def dumps(self, value: object) -> object:
        return value if type(value) is int else msgspec.json.encode(value)

    def loads(self, data: bytes) -> object:
        return msgspec.json.decode(data)


class SharedCache(BaseCache):
    """See the module's docstring. Thread-safe."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:  # Any: Django's own signature
        super().__init__(params)
        options = {
            "serializer": JsonSerializer(),
            "socket_timeout": TIMEOUT_SECONDS,
            "socket_connect_timeout": TIMEOUT_SECONDS,
            "retry": None,
            "max_connections": 50,
        }
        self._remote = RedisCache(server, {**params, "OPTIONS": options})
        local = {"OPTIONS": {"MAX_ENTRIES": LOCAL_ENTRIES_MAX}}
        self._local = LocMemCache(f"shared {server}", {**params, **local})
        self._unavailable_until = 0.0

    def add(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        return bool(self._call("add", key, value, timeout=timeout, version=version))

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return self._call("get", key, default=default, version=version)

    def set(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        self._call("set", key, value, timeout=timeout, version=version)

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return bool(self._call("touch", key, timeout=timeout, version=version))

    def delete(self, key: Any, version: int | None = None) -> bool:
        return bool(self._call("delete", key, version=version))

    def incr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        """Raises ValueError for a key that is not there."""
        return int(self._call("incr", key, delta=delta, version=version))

    def clear(self) -> None:
        """What this process has counted. Valkey holds more than this cache, and is left alone."""
        self._local.clear()

    def _call(self, name: str, *args: Any, **more: Any) -> Any:  # Any: of many methods
        if time.monotonic() >= self._unavailable_until:
            try:
                return getattr(self._remote, name)(*args, **more)
            except (RedisError, OSError) as exc:
                self._unavailable_until = time.monotonic() + UNAVAILABLE_SECONDS
                log.warning(
                    "Valkey is unavailable; each process counts attempts on its own",
                    extra={"action": "cache_unavailable", "error": str(exc)},
                )
        return getattr(self._local, name)(*args, **more)
