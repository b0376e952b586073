"""What a subscription needs from the session that owns it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.socket.codec import Codec
from mqservice.groups.routes import GroupRoute
from mqservice.quotas.meter import TenantMeter
from mqservice.web.socket_budget import SocketBudget


class Session(Protocol):
    """See the module's docstring."""

    context: DeliveryContext
    namespace: str
    meter: TenantMeter
    codec: Codec
    frame_bytes_max: int
    budget: SocketBudget

    @property
    def member_id(self) -> str:
        """The engine's member is this and the sid."""

    @property
    def tenant_id(self) -> int: ...

    async def group_route(self, name: str) -> GroupRoute:
        """Raises Problem."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run ``work`` until the session ends."""

    async def send_frame(self, frame: bytes) -> None:
        """Raises OSError once the client is gone."""

    def end(self, code: int, reason: str, *, is_kept: bool) -> None:
        """Close the session soon."""
