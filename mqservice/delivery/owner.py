"""What a subscription needs of the session that owns it."""

from __future__ import annotations

from typing import Protocol

from mqservice.delivery.codec import Codec
from mqservice.delivery.context import DeliveryContext


class Session(Protocol):
    """See the module's docstring."""

    context: DeliveryContext
    codec: Codec
    member_id: str
    frame_bytes_max: int

    async def send_frame(self, frame: bytes) -> None:
        """Raises OSError once the client is gone."""

    def end(self, code: int, reason: str) -> None:
        """Close the session soon."""
