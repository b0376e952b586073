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
from mqservice.quotas.exchange import Exchange, ExchangeUnavailable
from mqservice.quotas.limits import QuotaLimits
from mqservice.quotas.meter import (
    RATES,
    TenantMeter,
    equal_parts,
    equal_rooms,
)
from mqservice.quotas.peers import Peers, Report, read_report, write_report
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
        self._processes = Peers(self._process)
        self._peers: dict[int, Peers] = {}
        self._demands: dict[int, list[float]] = {}
        self._peer_reports: dict[int, list[Report]] = {}
        self._number = 0
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
        heard: dict[int, list[Report]] = {}
        is_silent = self._reported_ms is None or now_ms - self._reported_ms >= _PRESENCE_MS
        if self._exchange is not None and (reporting or is_silent):
            heard = await self._swap(self._exchange, reporting, now_ms)
        self._peer_reports.update(heard)
        for tenant_id, meter in self.known.items():
            if tenant_id not in reporting:
                self._peer_reports.pop(tenant_id, None)
            self._share(tenant_id, meter, heard.get(tenant_id), tenant_id in reporting, now_ms)

    def usage(self, tenant_id: int) -> Report | None:
        """What this process is asked for and holds for a tenant, and what others last told; those
        that have less than a tenth of their part to tell are left out. From any thread.
        """
        meter, demand = self.known.get(tenant_id), self._demands.get(tenant_id)
        if meter is None or demand is None:
            return None
        heard = self._peer_reports.get(tenant_id, [])
        totals = [sum(values) for values in zip(demand, *(r.demand for r in heard), strict=True)]
        return Report(
            (totals[0], totals[1], totals[2], totals[3]),
            meter.socket_count + sum(report.socket_count for report in heard),
            meter.poll_count + sum(report.poll_count for report in heard),
        )

    def _drop_idle(self, now_ms: int) -> None:
        for tenant_id, meter in list(self.known.items()):
            if meter.is_idle and now_ms - meter.used_ms > _IDLE_MS:
                del self.known[tenant_id]
                self._peers.pop(tenant_id, None)
                self._demands.pop(tenant_id, None)
                self._peer_reports.pop(tenant_id, None)

    def _measure(self, now_ms: int) -> None:
        """Demand a second of each tenant: it rises at once and fades over a second."""
        passed_s = max(1, now_ms - self._ticked_ms) / 1_000
        self._ticked_ms = now_ms
        for tenant_id, meter in self.known.items():
            faded = self._demands.get(tenant_id, [0.0] * len(RATES))
            self._demands[tenant_id] = [
                max(asked / passed_s, old * _DEMAND_FADES)
                for asked, old in zip(meter.pop_demand(), faded, strict=True)
            ]

    def _reporting(self) -> list[int]:
        """Of which tenants the others have to hear now; those that waited longest go first."""
        wanted = [
            tenant_id
            for tenant_id, meter in self.known.items()
            if self._is_reporting_due(meter, self._demands[tenant_id])
        ][:_REPORTS_MAX]
        for tenant_id in wanted if len(wanted) == _REPORTS_MAX else ():
            self.known[tenant_id] = self.known.pop(tenant_id)  # to the end of the line
        return wanted

    def _is_reporting_due(self, meter: TenantMeter, demand: list[float]) -> bool:
        """Whether it needs more than a part of which nobody is told."""
        limits, count = meter.limits, self.process_count
        held = (
            (meter.socket_count, limits.connection_count_max),
            (meter.poll_count, limits.parked_poll_count_max),
        )
        return any(
            2 * asked > floor_of(getattr(limits, name), count)
            for asked, (_, name) in zip(demand, RATES, strict=True)
        ) or any(2 * held_count > floor_of(limit, count) for held_count, limit in held)

    async def _swap(
        self, exchange: Exchange, reporting: list[int], now_ms: int
    ) -> dict[int, list[Report]]:
        """What others are asked for, by tenant; nothing while nobody can be asked."""
        self._number += 1
        self._reported_ms = now_ms
        own = {
            tenant_id: write_report(self._number, self._own(tenant_id)) for tenant_id in reporting
        }
        try:
            processes, texts = await exchange.swap(self._process, self._number, own)
            if gone := self._processes.departed(now_ms):
                await exchange.forget(gone, reporting)
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
        self.process_count = 1 + len(self._processes.alive(processes, now_ms))
        heard = {}
        for tenant_id, of_tenant in texts.items():
            peers = self._peers.setdefault(tenant_id, Peers(self._process))
            reports = [read_report(text) for text in peers.alive(of_tenant, now_ms).values()]
            heard[tenant_id] = [report for report in reports if report is not None]
        return heard

    def _own(self, tenant_id: int) -> Report:
        meter, demand = self.known[tenant_id], self._demands[tenant_id]
        return Report(
            (demand[0], demand[1], demand[2], demand[3]), meter.socket_count, meter.poll_count
        )

    def _share(
        self,
        tenant_id: int,
        meter: TenantMeter,
        others: list[Report] | None,
        is_reporting: bool,
        now_ms: int,
    ) -> None:
        limits, count = meter.limits, self.process_count
        if count == 1 or self.is_degraded or self._exchange is None:
            meter.share(equal_parts(limits, count), count, equal_rooms(limits, count), now_ms)
        elif others is not None:
            demand = self._demands[tenant_id]
            rates = [
                fair_share(
                    getattr(limits, name),
                    demand[index],
                    [other.demand[index] for other in others],
                    count,
                )
                for index, (_, name) in enumerate(RATES)
            ]
            sockets = fair_share(
                limits.connection_count_max,
                meter.socket_count,
                [other.socket_count for other in others],
                count,
            )
            polls = fair_share(
                limits.parked_poll_count_max,
                meter.poll_count,
                [other.poll_count for other in others],
                count,
            )
            rooms = max(1, int(sockets)), max(1, int(polls))
            meter.share(rates, count, rooms, now_ms)
        elif not is_reporting:
            rates = [floor_of(getattr(limits, name), count) for _, name in RATES]
            rooms = (
                max(1, int(floor_of(limits.connection_count_max, count))),
                max(1, int(floor_of(limits.parked_poll_count_max, count))),
            )
            meter.share(rates, count, rooms, now_ms)
