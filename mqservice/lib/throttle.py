"""Rate limits per time window, counted over all web processes.

    spend(key) ──▶ [Throttle] ──▶ Django's cache (Valkey; without it each process for itself)

Windows are fixed, so that at the border of two of them up to twice the limit passes.
"""

from __future__ import annotations

import hashlib
import ipaddress
from typing import Final

from django.core.cache import cache

from mqservice.lib.clock import Clock, SystemClock
from mqservice.lib.problem import Problem

_SECOND_MS = 1_000
ADDRESS_CHARS_MAX: Final = 64  # an IPv6 address with a zone


class Throttle:
    """``limit`` of ``name`` for each key in ``window_s`` seconds. Thread-safe."""

    def __init__(self, name: str, *, limit: int, window_s: int, clock: Clock | None = None) -> None:
        self._name = name
        self.limit = limit
        self._window_ms = window_s * _SECOND_MS
        self._clock = clock or SystemClock()

    def count(self, key: str) -> int:
        """Count one; how many there are of ``key`` in this window. Two calls to Valkey."""
        window = self._clock.now_ms() // self._window_ms
        digest = hashlib.blake2b(key.encode(errors="replace"), digest_size=16).hexdigest()
        name = f"throttle:{self._name}:{digest}:{window}"
        if cache.add(name, 1, timeout=self._window_ms // _SECOND_MS + 1):
            return 1
        try:
            return int(cache.incr(name))
        except ValueError:  # it has run out, or is counted elsewhere, since ``add``
            cache.add(name, 1, timeout=self._window_ms // _SECOND_MS + 1)
            return 1

    def spend(self, key: str, what: str) -> None:
        """Count one. Raises Problem RATE_LIMITED when that is more than ``limit``."""
        if self.count(key) > self.limit:
            raise too_many(what, self.left_ms())

    def left_ms(self) -> int:
        """Until the next window begins."""
        return self._window_ms - self._clock.now_ms() % self._window_ms


def too_many(what: str, retry_after_ms: int) -> Problem:
    return Problem.of(
        "RATE_LIMITED", f"too many {what}; try again later", retry_after_ms=retry_after_ms
    )


def network_of(address: str) -> str:
    """What is one client as far as limits go: an IPv4 address, or a /64 of IPv6."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:ADDRESS_CHARS_MAX]  # a proxy's word, and perhaps a stranger's
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((parsed, 64), strict=False).network_address)
    return address
