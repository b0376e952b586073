"""What a receive may ask for; a pure function of the request and the configuration."""

from __future__ import annotations

from storage_engine.config import StoreConfig
from storage_engine.errors import BadRequest
from storage_engine.wire.deliveries import ReceiveRequest


def check_receive(request: ReceiveRequest, config: StoreConfig) -> None:
    """Raises ``BadRequest`` that names the limit which is out of range."""
    if not 1 <= request.messages_max <= config.receive_messages_max:
        raise BadRequest(
            f"messages_max is {request.messages_max}, 1 to {config.receive_messages_max} is allowed"
        )
    if not config.lease_ms_min <= request.lease_ms <= config.lease_ms_max:
        raise BadRequest(
            f"lease_ms is {request.lease_ms}, "
            f"{config.lease_ms_min} to {config.lease_ms_max} is allowed"
        )
    if not 0 <= request.wait_ms <= config.poll_wait_ms_max:
        raise BadRequest(f"wait_ms is {request.wait_ms}, 0 to {config.poll_wait_ms_max} is allowed")
