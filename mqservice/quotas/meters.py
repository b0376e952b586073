"""The meters of all tenants in this process, and their shares of limits that processes split.

    request ──▶ known[tenant] ──hit──▶ TenantMeter            one dict hit, no await
                     └─ miss ──▶ load ──▶ the tenant's limits
    every 100 ms ──▶ tick: limits that changed, demand ──▶ exchange ──▶ parts ──▶ TenantMeter.share

A single process has all of a limit, and exchanges nothing about tenants. Of several, those that are
asked for a tenant tell each other how much and split the limit fairly (``shares.py``). While Valkey
is away each keeps to an equal part, and health says ``degraded: quotas``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from mqservice.lib.clock import Clock
from mqservice.quotas.exchange import Demand, Exchange, ExchangeUnavailable
from mqservice.quotas.limits import QuotaLimits
from mqservice.quotas.meter import SHARED, TenantMeter, equal_parts
from mqservice.quotas.shares import fair_share, floor_of

log = logging.getLogger(__name__)

TICK_MS: Final = 100
_PRESENCE_MS: Final = 1_000  # between reports when there is nothing to tell but being there
_REPORTS_MAX: Final = 100  # of one tick; the others have their turn in the next ones
_IDLE_MS: Final = 60_000
_DEMAND_FADES: Final = 0.8  # what remains a tick later of a demand that has ended


class Meters:
    """See the module's docstring. One per process; used on one event loop."""

    def __init__(
        self,
        load_limits: Callable[[int], Awaitable[QuotaLimits]],
        clock: Clock,
        *,
        exchange: Exchange | None = None,
        process_count: int = 1,
    ) -> None:
        """``load_limits`` answers from memory when it can. ``process_count``: how many there are
        as far as the configuration knows.
        """
        self.known: dict[int, TenantMeter] = {}
        self.is_degraded = False
        self.process_count = process_count
        self._configured_count = process_count
        self._load_limits = load_limits
        self._clock = clock
        self._exchange = exchange
        self._process = secrets.token_hex(8)
        self._rates: dict[int, list[float]] = {}
        self._heard: dict[int, list[Demand]] = {}
        self._ticked_ms = clock.monotonic_ms()
        self._reported_ms: int | None = None

    async def load(self, tenant_id: int) -> TenantMeter:
        """The meter of a tenant that may not be known yet. Never fails."""
        limits = await self._load_limits(tenant_id)
        meter = self.known.get(tenant_id)
        if meter is None:
            meter = TenantMeter(limits, self.process_count, self._clock.monotonic_ms())
            self.known[tenant_id] = meter
        return meter

    async def run(self) -> None:
        """Tick until cancelled."""
        try:
            while True:
                await asyncio.sleep(TICK_MS / 1_000)
                try:
                    await self.tick()
                except Exception:
                    log.exception(
                        "Updating quotas failed with an unexpected error",
                        extra={"action": "quota_failed"},
                    )
        finally:
            if self._exchange is not None:
                with contextlib.suppress(Exception):
                    await self._exchange.aclose()

    async def tick(self) -> None:
        """One round: see the module's docstring."""
        now_ms = self._clock.monotonic_ms()
        self._drop_idle(now_ms)
        for tenant_id, meter in list(self.known.items()):
            limits = await self._load_limits(tenant_id)
            if limits != meter.limits:
                meter.set_limits(limits)
        self._measure(now_ms)
        reporting = self._reporting() if self.process_count > 1 else []
        heard: dict[int, list[Demand]] = {}
        is_silent = self._reported_ms is None or now_ms - self._reported_ms >= _PRESENCE_MS
        if self._exchange is not None and (reporting or is_silent):
            self._reported_ms = now_ms
            heard = await self._swap(self._exchange, reporting)
        self._heard = {one: heard.get(one, self._heard.get(one, [])) for one in reporting}
        for tenant_id, meter in self.known.items():
            limits, count = meter.limits, self.process_count
            if count == 1 or self.is_degraded or self._exchange is None:
                meter.share(equal_parts(limits, count), count, now_ms)
            elif tenant_id in heard:
                meter.share(self._fair_parts(tenant_id, heard[tenant_id]), count, now_ms)
            elif tenant_id not in reporting:
                meter.share(_floors(limits, count), count, now_ms)

    def usage(self, tenant_id: int) -> Demand | None:
        """What this process is asked for and holds for a tenant, and what others last told; those
        that have less than a tenth of their part to tell are left out. From any thread.
        """
        if tenant_id not in self.known or tenant_id not in self._rates:
            return None
        heard = self._heard.get(tenant_id, [])
        return tuple(map(sum, zip(self._demand(tenant_id), *heard, strict=True)))

    def _drop_idle(self, now_ms: int) -> None:
        for tenant_id, meter in list(self.known.items()):
            if meter.is_idle and now_ms - meter.used_ms > _IDLE_MS:
                del self.known[tenant_id]
                self._rates.pop(tenant_id, None)

    def _measure(self, now_ms: int) -> None:
        """Demand a second of each tenant: it rises at once and fades over a second."""
        passed_s = max(1, now_ms - self._ticked_ms) / 1_000
        self._ticked_ms = now_ms
        for tenant_id, meter in self.known.items():
            asked = meter.pop_demand()
            faded = self._rates.get(tenant_id, [0.0] * len(asked))
            self._rates[tenant_id] = [
                max(new / passed_s, old * _DEMAND_FADES)
                for new, old in zip(asked, faded, strict=True)
            ]

    def _demand(self, tenant_id: int) -> Demand:
        meter = self.known[tenant_id]
        return (*self._rates[tenant_id], meter.socket_count, meter.poll_count)

    def _reporting(self) -> list[int]:
        """Of which tenants the others have to hear now, because more is asked for than a part of
        which nobody is told; those that waited longest go first.
        """
        wanted = [
            tenant_id
            for tenant_id, meter in self.known.items()
            if any(
                2 * asked > floor
                for asked, floor in zip(
                    self._demand(tenant_id), _floors(meter.limits, self.process_count), strict=True
                )
            )
        ][:_REPORTS_MAX]
        for tenant_id in wanted if len(wanted) == _REPORTS_MAX else ():
            self.known[tenant_id] = self.known.pop(tenant_id)  # to the end of the line
        return wanted

    async def _swap(self, exchange: Exchange, reporting: list[int]) -> dict[int, list[Demand]]:
        """What others are asked for, by tenant; nothing while nobody can be asked."""
        own = {tenant_id: self._demand(tenant_id) for tenant_id in reporting}
        try:
            other_count, heard = await exchange.swap(self._process, own)
        except ExchangeUnavailable as exc:
            if not self.is_degraded:
                log.warning(
                    "Valkey is unavailable; each process enforces an equal share of the quotas",
                    extra={"action": "quotas_degraded", "error": str(exc)},
                )
            self.is_degraded = True
            self.process_count = max(self.process_count, self._configured_count)
            return {}
        if self.is_degraded:
            log.info(
                "Valkey is available again; quotas are shared between processes",
                extra={"action": "quotas_shared"},
            )
        self.is_degraded = False
        self.process_count = 1 + other_count
        return heard

    def _fair_parts(self, tenant_id: int, others: list[Demand]) -> list[float]:
        limits = self.known[tenant_id].limits
        return [
            fair_share(getattr(limits, name), own, theirs, self.process_count)
            for name, own, *theirs in zip(SHARED, self._demand(tenant_id), *others, strict=True)
        ]


def _floors(limits: QuotaLimits, process_count: int) -> list[float]:
    return [floor_of(getattr(limits, name), process_count) for name in SHARED]


# The meters of this process, for those who are not on its event loop: health and usage.
_of_process: list[Meters] = []


def set_process_meters(meters: Meters | None) -> None:
    """Called once when the data plane begins, and with None when it ends."""
    _of_process[:] = [] if meters is None else [meters]


def are_quotas_degraded() -> bool:
    """Whether this process keeps to an equal part of each limit, because Valkey is away."""
    return any(meters.is_degraded for meters in _of_process)


def process_meters() -> Meters | None:
    """None in processes without a data plane."""
    return _of_process[0] if _of_process else None
