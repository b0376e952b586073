"""What a subscription needs of the session that owns it."""

from __future__ import annotations

from typing import Protocol

from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.socket.codec import Codec


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
