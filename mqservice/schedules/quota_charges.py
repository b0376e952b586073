"""Charges what schedules send to their tenant's quota, like produced messages.

    record ──▶ [Charges.take] ── limits, what the engine holds (looked at each second) ──▶ meter
                                                                  Problem 429, 403 ◀──┘

The meters of web processes know nothing of these and these know nothing of them: a schedule fires
once a minute at most and a namespace has a hundred, so that much may come on top of a rate. Nothing
is stored beyond the storage that a tenant may have.
"""

from __future__ import annotations

import threading
from typing import Final

from mqservice.accounts.models import Namespace
from mqservice.lib.clock import Clock, SystemClock
from mqservice.quotas.meter import TenantMeter, equal_parts
from mqservice.quotas.queries import limits_of
from mqservice.quotas.usage import engine_usage

_LOOK_MS: Final = 1_000
_TENANTS_MAX: Final = 10_000


class Charges:
    """See the module's docstring. One per process; thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._meters: dict[int, tuple[TenantMeter, int]] = {}  # and when it was looked at

    def charge(self, namespace: Namespace, byte_count: int) -> None:
        """Take one message of so many bytes from what the tenant of ``namespace`` may store.

        Two queries and a call to the engine, once a second for each tenant. Raises Problem 429 or
        403 with nothing taken, ``StoreError``.
        """
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            meter = self._meter(namespace.tenant_id, now_ms)
            meter.charge_in(1, byte_count, now_ms)

    def _meter(self, tenant_id: int, now_ms: int) -> TenantMeter:
        known = self._meters.get(tenant_id)
        if known is not None and now_ms - known[1] < _LOOK_MS:
            return known[0]
        limits = limits_of(tenant_id)
        meter = TenantMeter(limits, 1, now_ms) if known is None else known[0]
        if meter.limits != limits:
            meter.set_limits(limits)
            meter.share(equal_parts(limits, 1), 1, now_ms)
        meter.set_engine_usage(engine_usage(tenant_id).stored_bytes, 0)
        if len(self._meters) >= _TENANTS_MAX:
            self._meters.clear()
        self._meters[tenant_id] = meter, now_ms
        return meter


charges: Final = Charges(SystemClock())
