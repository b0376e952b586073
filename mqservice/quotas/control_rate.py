"""The rate of control plane requests per tenant, counted in Valkey over all processes.

    request ──▶ [ControlRate.take] ── one script, one round trip ──▶ Valkey: a bucket of the tenant
                                        └─ away ──▶ nothing is counted, everything goes through

A control request reads PostgreSQL anyway, so one more round trip is a small part of it; and the
next one may come to another process. The bucket's clock is Valkey's own. While Valkey is away it is
asked once a second at most, so that nobody waits for it.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from redis.exceptions import RedisError

from mqservice.lib.clock import Clock, SystemClock
from mqservice.lib.valkey import valkey_client
from mqservice.quotas.queries import limit_of

BURST_SECONDS: Final = 2  # a bucket holds what its tenant may use in so long
_KEY: Final = "mq:control:"
_WAIT_SECONDS_MAX: Final = 0.25
_UNAVAILABLE_MS: Final = 1_000
_LIMITS_CACHED_MS: Final = 1_000
_TENANTS_MAX: Final = 10_000
# KEYS: the bucket. ARGV: rate a second, capacity. Answers: whether it was taken, what is left,
# ms until one is left, ms until the bucket is full.
_TAKE: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local rate, capacity = tonumber(ARGV[1]) / 1000, tonumber(ARGV[2])
local known = redis.call('HMGET', KEYS[1], 'left', 'at')
local left = capacity
if known[1] then
  local passed = math.max(0, now - tonumber(known[2]))
  left = math.min(capacity, tonumber(known[1]) + passed * rate)
end
local taken, wait = 0, 0
if left >= 1 then
  left = left - 1
  taken = 1
else
  wait = math.ceil((1 - left) / rate)
end
redis.call('HSET', KEYS[1], 'left', tostring(left), 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(capacity / rate) + 1000)
return {taken, math.floor(left), wait, math.ceil((capacity - left) / rate)}
"""


class RateDecision(NamedTuple):
    """``left`` None: nobody could be asked, and the request goes through."""

    is_taken: bool
    limit: int
    left: int | None = None
    retry_ms: int = 0
    full_ms: int = 0

    @property
    def headers(self) -> dict[str, str]:
        """``RateLimit-Policy``, and ``RateLimit`` where it is known."""
        found = {"RateLimit-Policy": f'"control";q={self.limit * BURST_SECONDS};w={BURST_SECONDS}'}
        if self.left is not None:
            found["RateLimit"] = f'"control";r={self.left};t={-(-self.full_ms // 1_000)}'
        return found


class ControlRate:
    """See the module's docstring. One per process, used by its threads."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self._client = valkey_client(url, _WAIT_SECONDS_MAX)
        self._script = self._client.register_script(_TAKE)
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._limits: dict[int, tuple[int, int]] = {}
        self._unavailable_until_ms = 0

    def take(self, tenant_id: int) -> RateDecision:
        """One request of a tenant. A query each second for its limit; never fails for Valkey."""
        limit = self._limit_of(tenant_id)
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._unavailable_until_ms:
            return RateDecision(True, limit)
        try:
            taken, left, retry_ms, full_ms = self._script(
                keys=[f"{_KEY}{tenant_id}"], args=[limit, limit * BURST_SECONDS]
            )
        except (RedisError, OSError):
            self._unavailable_until_ms = now_ms + _UNAVAILABLE_MS
            return RateDecision(True, limit)
        return RateDecision(bool(taken), limit, int(left), int(retry_ms), int(full_ms))

    def close(self) -> None:
        self._client.close()

    def _limit_of(self, tenant_id: int) -> int:
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            known = self._limits.get(tenant_id)
        if known is not None and now_ms < known[0]:
            return known[1]
        limit = limit_of(tenant_id, "control_requests_per_second")
        with self._lock:
            if len(self._limits) >= _TENANTS_MAX:
                self._limits.clear()
            self._limits[tenant_id] = (now_ms + _LIMITS_CACHED_MS, limit)
        return limit
