"""How web processes exchange the demand of their tenants: one round trip to Valkey.

    mq:quota:processes     {process: number}      who is there; the number grows with each report
    mq:quota:<tenant id>   {process: report}      what it is asked for there, and holds

No clock is compared with another machine's: whoever's number has not moved for a while is gone.
Nothing in Valkey is the truth of anything: lost, it is there again after the next report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol, cast

import redis.asyncio
from redis.exceptions import RedisError

_PREFIX: Final = "mq:quota:"
PROCESSES: Final = f"{_PREFIX}processes"
_PROCESSES_KEPT_MS: Final = 60_000
_REPORTS_KEPT_MS: Final = 10_000
_SWAP_SECONDS_MAX: Final = 0.5

Texts = dict[str, str]  # by process


class ExchangeUnavailable(Exception):
    """Nobody could be asked."""


class Exchange(Protocol):
    """See the module's docstring."""

    async def swap(
        self, process: str, number: int, reports: Mapping[int, str]
    ) -> tuple[Texts, dict[int, Texts]]:
        """Leave ``reports``, by tenant; all processes and, for these tenants, what all have left.

        Raises ExchangeUnavailable.
        """

    async def forget(self, processes: list[str], tenant_ids: list[int]) -> None:
        """Take away what processes that are gone have left. Raises ExchangeUnavailable."""

    async def aclose(self) -> None: ...


class ValkeyExchange:
    """The real one. Connects when it is first used."""

    def __init__(self, url: str) -> None:
        self._client = redis.asyncio.Redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=_SWAP_SECONDS_MAX,
            socket_connect_timeout=_SWAP_SECONDS_MAX,
            max_connections=1,
            retry=None,  # the next report comes soon enough
        )

    async def swap(
        self, process: str, number: int, reports: Mapping[int, str]
    ) -> tuple[Texts, dict[int, Texts]]:
        pipe = self._client.pipeline(transaction=False)
        pipe.hset(PROCESSES, process, str(number))
        pipe.pexpire(PROCESSES, _PROCESSES_KEPT_MS)
        pipe.hgetall(PROCESSES)
        for tenant_id, report in reports.items():
            key = f"{_PREFIX}{tenant_id}"
            pipe.hset(key, process, report)
            pipe.pexpire(key, _REPORTS_KEPT_MS)
            pipe.hgetall(key)
        try:
            async with asyncio.timeout(_SWAP_SECONDS_MAX):
                answers = await pipe.execute()
        except (RedisError, OSError, TimeoutError) as exc:
            raise ExchangeUnavailable(str(exc)) from exc
        found = [cast("Texts", answer) for answer in answers[2::3]]
        return found[0], dict(zip(reports, found[1:], strict=True))

    async def forget(self, processes: list[str], tenant_ids: list[int]) -> None:
        pipe = self._client.pipeline(transaction=False)
        pipe.hdel(PROCESSES, *processes)
        for tenant_id in tenant_ids:
            pipe.hdel(f"{_PREFIX}{tenant_id}", *processes)
        try:
            async with asyncio.timeout(_SWAP_SECONDS_MAX):
                await pipe.execute()
        except (RedisError, OSError, TimeoutError) as exc:
            raise ExchangeUnavailable(str(exc)) from exc

    async def aclose(self) -> None:
        await self._client.aclose()
