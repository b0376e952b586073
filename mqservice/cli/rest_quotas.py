"""REST calls of the commands on quotas.

mqservice quota … ─▶ [QuotaCalls] ─▶ RestClient ─▶ service
"""

from __future__ import annotations

import msgspec

from mqservice.cli.client import RestClient


class Quotas(msgspec.Struct, kw_only=True):
    """As the service shows them; None where it knows nothing, or nothing is said."""

    tenant: str
    limits: dict[str, int]
    own: dict[str, int | None]
    usage: dict[str, int | None]


class QuotaCalls:
    """See the module's docstring."""

    def __init__(self, client: RestClient) -> None:
        self._client = client

    async def read(self) -> Quotas:
        return await self._client.call("GET", "/v1/quotas", Quotas)

    async def write(self, values: dict[str, int | None]) -> Quotas:
        content = msgspec.json.encode(values)
        return await self._client.call("PUT", "/v1/quotas", Quotas, content=content)
