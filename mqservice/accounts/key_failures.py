"""Who brings one wrong key after another is not looked up for a while: each costs a query.

    wrong key ── note(address) ──▶ count in Valkey ── too many ──▶ [KeyFailures] knows until when
    key that is not cached ── check(address) ──▶ a dict look; 429 until then

A secret has 190 bits, so this guards PostgreSQL, not the secrets. Keys in use are cached and never
come here; nothing is counted for them. Without Valkey each process counts for itself: neither no
limit nor a closed door. Behind a proxy that is not named (``FORWARDED_ALLOW_IPS``) all clients have
one address, the proxy's.
"""

from __future__ import annotations

import threading
from typing import Final

from django.conf import settings

from mqservice.lib.clock import Clock, SystemClock
from mqservice.lib.throttle import Throttle, network_of, too_many

WINDOW_S: Final = 60
ADDRESSES_MAX: Final = 10_000  # remembered at once; the oldest are let in again
_WHAT: Final = "wrong keys came from this address"


class KeyFailures:
    """See the module's docstring. One per process. Thread-safe."""

    def __init__(self, *, limit: int, clock: Clock | None = None) -> None:
        """``limit`` 0: as many as come."""
        self._clock = clock or SystemClock()
        self._throttle = Throttle("wrong-key", limit=limit, window_s=WINDOW_S, clock=clock)
        self._until_ms: dict[str, int] = {}
        self._lock = threading.Lock()

    def check(self, address: str) -> None:
        """Raises Problem RATE_LIMITED while ``address`` has to wait."""
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
