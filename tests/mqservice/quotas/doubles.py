"""A clock that is moved by hand, and an exchange in memory that can be away."""

from __future__ import annotations

from collections.abc import Mapping

from mqservice.quotas.exchange import DEPARTED_MS, Demand, ExchangeUnavailable


class ManualClock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class MemoryExchange:
    """What Valkey does, for meters of one test."""

    def __init__(self, clock: ManualClock) -> None:
        self.is_away = False
        self.swap_count = 0
        self.reports: dict[int, dict[str, tuple[int, Demand]]] = {}
        self._clock = clock
        self._seen: dict[str, int] = {}

    async def swap(
        self, process: str, demands: Mapping[int, Demand]
    ) -> tuple[int, dict[int, list[Demand]]]:
        self.swap_count += 1
        if self.is_away:
            raise ExchangeUnavailable("nobody listens")
        now_ms = self._clock.ms
        self._seen[process] = now_ms
        for tenant_id, demand in demands.items():
            self.reports.setdefault(tenant_id, {})[process] = now_ms, demand
        alive = {name for name, at_ms in self._seen.items() if now_ms - at_ms < DEPARTED_MS} - {
            process
        }
        heard = {
            tenant_id: [
                demand
                for name, (at_ms, demand) in self.reports[tenant_id].items()
                if name != process and now_ms - at_ms < DEPARTED_MS
            ]
            for tenant_id in demands
        }
        return len(alive), heard

    async def aclose(self) -> None:
        """There is nothing to close."""
