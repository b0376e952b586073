"""How web processes exchange the demand of their tenants: one script, one round trip to Valkey.

    mq:quota:processes     {process: time}              who is there
    mq:quota:<tenant id>   {process: time and demand}   what it is asked for there, and holds

The only clock is Valkey's own: who has said nothing for ``DEPARTED_MS`` is gone, and what it left
is deleted. Nothing in Valkey is the truth of anything: lost, it is there again after the next
report.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec
from redis.exceptions import RedisError

from mqservice.lib.valkey import async_valkey_client

DEPARTED_MS: Final = 5_000  # a process reports at least every second
_PREFIX: Final = "mq:quota:"
_SWAP_SECONDS_MAX: Final = 0.5
# KEYS: the hashes to report in. ARGV: the process, DEPARTED_MS, a report for each key. Answers:
# for each key what the others have reported.
_SWAP: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local heard = {}
for index, key in ipairs(KEYS) do
  redis.call('HSET', key, ARGV[1], string.format('%.0f', now) .. ' ' .. ARGV[index + 2])
  redis.call('PEXPIRE', key, ARGV[2])
  local found, others = redis.call('HGETALL', key), {}
  for place = 1, #found, 2 do
    local at, report = string.match(found[place + 1], '^(%d+) (.*)$')
    if not at or now - tonumber(at) >= tonumber(ARGV[2]) then
      redis.call('HDEL', key, found[place])
    elseif found[place] ~= ARGV[1] then
      table.insert(others, report)
    end
  end
  heard[index] = others
end
return heard
"""

Demand = tuple[float, ...]  # of one process for a tenant, as ``meter.SHARED``
_decoder: Final = msgspec.json.Decoder(tuple[float, float, float, float, float, float])


class ExchangeUnavailable(Exception):
    """Nobody could be asked."""


class Exchange(Protocol):
    """See the module's docstring."""

    async def swap(
        self, process: str, demands: Mapping[int, Demand]
    ) -> tuple[int, dict[int, list[Demand]]]:
        """Leave ``demands``, by tenant; how many other processes there are and, for these tenants,
        what each of the others has left.

        Raises ExchangeUnavailable.
        """

    async def aclose(self) -> None: ...


class ValkeyExchange:
    """The real one. Connects when it is first used."""

    def __init__(self, url: str) -> None:
        self._client = async_valkey_client(url, _SWAP_SECONDS_MAX)
        self._script = self._client.register_script(_SWAP)

    async def swap(
        self, process: str, demands: Mapping[int, Demand]
    ) -> tuple[int, dict[int, list[Demand]]]:
        keys = [f"{_PREFIX}processes", *(f"{_PREFIX}{tenant_id}" for tenant_id in demands)]
        reports = [msgspec.json.encode(demand) for demand in demands.values()]
        try:
            async with asyncio.timeout(_SWAP_SECONDS_MAX):
                others, *heard = await self._script(
                    keys=keys, args=[process, DEPARTED_MS, "", *reports]
                )
        except (RedisError, OSError, TimeoutError) as exc:
            raise ExchangeUnavailable(str(exc)) from exc
        return len(others), dict(zip(demands, map(_read, heard), strict=True))

    async def aclose(self) -> None:
        await self._client.aclose()


def _read(reports: list[bytes]) -> list[Demand]:
    """Without those that no process of this version has written."""
    found: list[Demand] = []
    for report in reports:
        with contextlib.suppress(msgspec.DecodeError):
            found.append(_decoder.decode(report))
    return found
