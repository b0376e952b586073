"""Checks that a receive is within the store's limits; pure.

server ── ReceiveRequest ──▶ [check_limits] ──▶ delivery
"""

from __future__ import annotations

from typing import Final

from storage_engine.config import StoreConfig
from storage_engine.errors import BadRequest
from storage_engine.wire.deliveries import ReceiveRequest

_ATTEMPT_ID_CHARS_MAX: Final = 128


def check_limits(config: StoreConfig, request: ReceiveRequest) -> None:
    """Raises ``BadRequest`` if a limit in the request is out of range, or the member is empty."""
    if not request.member_id:
        raise BadRequest("member_id is empty: name the member that receives the messages")
    for name, value, low, high in (
        ("messages_max", request.messages_max, 1, config.receive_messages_max),
        ("lease_ms", request.lease_ms, config.lease_ms_min, config.lease_ms_max),
        ("wait_ms", request.wait_ms, 0, config.poll_wait_ms_max),
        ("auto_extend_ms", request.auto_extend_ms, 0, config.auto_extend_ms_max),
    ):
        if not low <= value <= high:
            raise BadRequest(f"{name} is {value}, it must be {low} to {high}")
    if len(request.attempt_id) > _ATTEMPT_ID_CHARS_MAX:
        raise BadRequest(
            f"attempt_id has {len(request.attempt_id)} characters, "
            f"at most {_ATTEMPT_ID_CHARS_MAX} are allowed"
        )
