"""A clock that is moved by hand, and an exchange in memory that can be away."""

from __future__ import annotations

from collections.abc import Mapping

from mqservice.quotas.exchange import ExchangeUnavailable, Texts


class ManualClock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class MemoryExchange:
    """What Valkey does, for meters of one test."""

    def __init__(self) -> None:
        self.is_away = False
        self.swap_count = 0
        self.processes: Texts = {}
        self.reports: dict[int, Texts] = {}

    async def swap(
        self, process: str, number: int, reports: Mapping[int, str]
    ) -> tuple[Texts, dict[int, Texts]]:
        self.swap_count += 1
        if self.is_away:
            raise ExchangeUnavailable("nobody listens")
        self.processes[process] = str(number)
        for tenant_id, report in reports.items():
            self.reports.setdefault(tenant_id, {})[process] = report
        return dict(self.processes), {tenant: dict(self.reports[tenant]) for tenant in reports}

    async def forget(self, processes: list[str], tenant_ids: list[int]) -> None:
        for process in processes:
            self.processes.pop(process, None)
            for tenant_id in tenant_ids:
                self.reports.get(tenant_id, {}).pop(process, None)

    async def aclose(self) -> None:
        """There is nothing to close."""
