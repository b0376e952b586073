"""Reports what tenants hold in the engine to the meters of this process: bytes stored, leases.

    every second ──▶ [EngineUsage] ─ USE, all namespaces of a request ──▶ engine
                          └──▶ TenantMeter.hold(stored_bytes, inflight_count)

No message waits for this: between two looks a meter counts what its own process adds. So a limit is
passed by what the other processes add within a second, and no more. Who is far from its limits is
looked at every five seconds. While the engine is away nothing can be added.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from asgiref.sync import sync_to_async
from django.db import DatabaseError, InterfaceError, close_old_connections

from mqservice.accounts.models import Namespace
from mqservice.lib.clock import Clock
from mqservice.quotas.meters import Meters
from mqservice.store import StoreError, UsageReply, UsageRequest

log = logging.getLogger(__name__)

UPDATE_MS: Final = 1_000
_FAR_UPDATE_MS: Final = 5_000
_NAMES_CACHED_MS: Final = 10_000  # what a tenant stores in a new namespace counts that late
REQUEST_NAMES_MAX: Final = 1_000  # the engine's own limit
_NEAR: Final = 0.5  # of a limit

Names = dict[int, list[tuple[str, str]]]  # shard and name of the namespaces of each tenant


class EngineUsage:
    """See the module's docstring. One per process; used on the event loop of its meters."""

    def __init__(
        self,
        meters: Meters,
        use: Callable[[str, UsageRequest], Awaitable[UsageReply]],
        clock: Clock,
        *,
        find_names: Callable[[list[int]], Awaitable[Names]] | None = None,
    ) -> None:
        self._meters = meters
        self._use = use
        self._clock = clock
        self._find_names = find_names or sync_to_async(namespace_names)
        self._names: Names = {}
        self._named_ms: int | None = None
        self._looked_ms: dict[int, int] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(UPDATE_MS / 1_000)
            try:
                await self.update()
            except (StoreError, DatabaseError, InterfaceError) as exc:
                log.debug(
                    "Could not count what tenants hold; trying again",
                    extra={"action": "holdings_count_failed", "error": str(exc)},
                )
            except Exception:
                log.exception(
                    "Counting what tenants hold failed with an unexpected error",
                    extra={"action": "holdings_count_failed"},
                )

    async def update(self) -> None:
        """One round. ``use`` asks the engine of a shard. Raises ``StoreError``, ``DatabaseError``;
        the meters of tenants with namespaces in a shard that does not answer go on counting then.
        """
        now_ms = self._clock.monotonic_ms()
        tenant_ids = list(self._meters.known)
        self._looked_ms = {one: self._looked_ms.get(one, -_FAR_UPDATE_MS) for one in tenant_ids}
        due = [one for one in tenant_ids if self._is_due(one, now_ms)]
        if not due:
            return
        await self._load_names(tenant_ids, now_ms)
        held = {tenant_id: [0, 0] for tenant_id in due}
        is_complete = True
        failure: StoreError | None = None
        for shard, part in _parts(
            (one, *place) for one in due for place in self._names.get(one, ())
        ):
            try:
                reply = await self._use(shard, UsageRequest(namespaces=[name for _, name in part]))
            except StoreError as exc:
                failure = exc
                for tenant_id, _ in part:
                    held.pop(tenant_id, None)
                continue
            is_complete = is_complete and reply.is_complete
            for (tenant_id, _), used in zip(part, reply.namespaces, strict=True):
                if tenant_id in held:
                    held[tenant_id][0] += used.stored_bytes
                    held[tenant_id][1] += used.inflight_count
        for tenant_id, (stored_bytes, inflight_count) in held.items():
            meter = self._meters.known.get(tenant_id)
            if meter is not None:
                meter.set_engine_usage(stored_bytes, inflight_count)
                if is_complete:
                    self._looked_ms[tenant_id] = now_ms
        if failure is not None:
            raise failure

    def _is_due(self, tenant_id: int, now_ms: int) -> bool:
        meter = self._meters.known[tenant_id]
        limits = meter.limits
        return (
            now_ms - self._looked_ms[tenant_id] >= _FAR_UPDATE_MS
            or meter.stored_bytes > limits.storage_bytes_max * _NEAR
            or meter.inflight_count > limits.inflight_count_max * _NEAR
        )

    async def _load_names(self, tenant_ids: list[int], now_ms: int) -> None:
        is_old = self._named_ms is None or now_ms - self._named_ms >= _NAMES_CACHED_MS
        if is_old or any(tenant_id not in self._names for tenant_id in tenant_ids):
            found = await self._find_names(tenant_ids)
            self._names = {tenant_id: found.get(tenant_id, []) for tenant_id in tenant_ids}
            self._named_ms = now_ms


def namespace_names(tenant_ids: list[int]) -> Names:
    """One query."""
    try:
        names: Names = {}
        rows = Namespace.objects.filter(tenant__in=tenant_ids)
        for tenant_id, shard, name in rows.values_list("tenant_id", "shard", "name"):
            names.setdefault(tenant_id, []).append((shard, name))
        return names
    finally:
        close_old_connections()


def _parts(
    places: Iterable[tuple[int, str, str]],
) -> Iterable[tuple[str, list[tuple[int, str]]]]:
    """By shard, as many names as one request may have, each with its tenant."""
    by_shard: dict[str, list[tuple[int, str]]] = {}
    for tenant_id, shard, name in places:
        by_shard.setdefault(shard, []).append((tenant_id, name))
    for shard, names in by_shard.items():
        for first in range(0, len(names), REQUEST_NAMES_MAX):
            yield shard, names[first : first + REQUEST_NAMES_MAX]
