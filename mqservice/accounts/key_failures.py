"""Counts invalid keys by address; after many of them, further attempts are rate limited.

    wrong key ── check(address) ──▶ 429 while the address has to wait
              └─ note(address) ──▶ count in Valkey ── too many ──▶ [KeyFailures] knows until when

A key that verifies is served whatever others at its address have sent: behind one address there may
be an office. A secret has 190 bits, so nobody guesses one; what this saves is Valkey's counting and
the attacker's hope. Without Valkey each process counts for itself. Behind a proxy that is not named
(``FORWARDED_ALLOW_IPS``) all clients have one address, the proxy's.
"""

from __future__ import annotations

import threading
from typing import Final

from django.conf import settings

from mqservice.lib.clock import Clock, SystemClock
from mqservice.lib.throttle import Throttle, network_of, too_many

WINDOW_S: Final = 60
ADDRESSES_MAX: Final = 10_000  # remembered at once; the oldest are let in again
_WHAT: Final = "requests with an invalid key from this address"


class KeyFailures:
    """See the module's docstring. One per process. Thread-safe."""

    def __init__(self, *, limit: int, clock: Clock | None = None) -> None:
        """``limit`` 0: as many as come."""
        self._clock = clock or SystemClock()
        self._throttle = Throttle("wrong-key", limit=limit, window_s=WINDOW_S, clock=clock)
        self._until_ms: dict[str, int] = {}
        self._lock = threading.Lock()

    def check(self, address: str) -> None:
        """Raises Problem RATE_LIMITED while wrong keys of ``address`` have to wait."""
        if not self._until_ms:
            return
        network = network_of(address)
        until_ms = self._until_ms.get(network)
        if until_ms is None:
            return
        left_ms = until_ms - self._clock.now_ms()
        if left_ms > 0:
            raise too_many(_WHAT, left_ms)
        with self._lock:
            self._until_ms.pop(network, None)

    def note(self, address: str) -> None:
        """Count a wrong key. Two calls to Valkey, which a coroutine has to make on a thread."""
        if self._throttle.limit == 0:
            return
        network = network_of(address)
        if self._throttle.count(network) < self._throttle.limit:
            return
        with self._lock:
            if len(self._until_ms) >= ADDRESSES_MAX:
                del self._until_ms[next(iter(self._until_ms))]
            self._until_ms[network] = self._clock.now_ms() + self._throttle.left_ms()


failures: Final = KeyFailures(limit=settings.MQ_FAILED_KEYS_MAX)  # of this process
