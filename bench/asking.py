"""``python -m bench.asking ROUNDS``: microseconds of CPU for authorisation and quota of a request.

header ─▶ principal ─▶ scope, topic of the tenant ─▶ meter: checked, charged ─▶ two headers
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Final

from mqservice.lib.names import MAIN_SHARD

BYTES_EACH: Final = 1_300


async def measure(rounds: int) -> float:
    """The same steps as ``delivery.plane`` and ``delivery.produce``, less all others."""
    os.environ.setdefault("MQ_SECRET_KEY", "only-for-measuring-0123456789-0123456789")
    os.environ.setdefault("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqservice.settings")
    import django

    django.setup()
    from mqservice.accounts.access import KeyCache, Principal
    from mqservice.accounts.scopes import Scope
    from mqservice.caches import RouteCache, RouteKey
    from mqservice.groups.routes import GroupRoute
    from mqservice.lib.api_keys import generate_api_key
    from mqservice.lib.clock import SystemClock
    from mqservice.quotas.limits import DEFAULTS, QuotaLimits
    from mqservice.quotas.meters import Meters
    from mqservice.topics.routes import TopicRoute

    principal = Principal(
        key_id="k",
        tenant_id=1,
        tenant="t",
        namespace_id=1,
        namespace="n",
        scopes=frozenset(Scope),
    )
    route = TopicRoute(
        namespace="n",
        name="orders",
        shard=MAIN_SHARD,
        engine_name="n%orders",
        queue_count=4,
        body_bytes_max=1 << 20,
        durability="sync",
        message_type="mixed",
    )

    async def find_key(_: bytes) -> Principal | None:
        return principal

    async def find_topic(_: RouteKey) -> TopicRoute | None:
        return route

    async def find_group(_: RouteKey) -> GroupRoute | None:
        return None

    async def limits_of(_: int) -> QuotaLimits:
        return DEFAULTS

    header = f"Bearer {generate_api_key()}".encode()
    clock = SystemClock()
    keys, routes = KeyCache(find_key), RouteCache(find_topic, find_group)
    meters = Meters(limits_of, clock)
    await keys.load(header)
    await routes.load_topic(principal, "n", "orders")
    await meters.load(principal.tenant_id)
    best = float("inf")
    for _ in range(10):
        begun = time.thread_time()
        for _ in range(rounds // 10):
            who = keys.cached(header)
            assert who is not None
            meter = meters.known.get(who.tenant_id)
            assert meter is not None
            meter.check_in(clock.monotonic_ms())
            who.require(Scope.PRODUCE)
            routes.topic(who, "n", "orders")
            meter.charge_in(1, BYTES_EACH, clock.monotonic_ms())
            meter.header_lines(is_reading=False)
        best = min(best, time.thread_time() - begun)
        meters.known.clear()
        await meters.load(principal.tenant_id)  # a full bucket again
    return best / (rounds // 10) * 1e6


if __name__ == "__main__":
    print(f"{asyncio.run(measure(int(sys.argv[1]))):.2f}")
