"""Detects that the client of an HTTP request has disconnected, without a task that waits for it.

connection lost ──▶ CorkedTransport.lost ──▶ whoever asked by [on_disconnect]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from mqservice.web.corked_transport import CorkedTransport


def on_disconnect(
    send: Callable[..., Any], call: Callable[[], None]
) -> Callable[[], object] | None:  # Any: what an awaited ASGI send gives
    """Have ``call`` called once the client has left, at once if it has; what undoes that.

    None: ``send`` is not uvicorn's own, and the caller has to wait for ASGI's message.
    """
    cycle = getattr(send, "__self__", None)
    if type(cycle) is not RequestResponseCycle:
        return None
    transport: Any = cycle.transport  # Any: uvicorn says asyncio's, and it may be given ours
    if type(transport) is not CorkedTransport:
        return None
    if is_disconnected(send):
        call()
    return transport.when_lost(call)


def is_disconnected(send: Callable[..., Any]) -> bool:  # Any: as above
    """Whether the client is known to have left. uvicorn marks the last request of a connection
    only, and others may wait before it.
    """
    cycle = getattr(send, "__self__", None)
    return type(cycle) is RequestResponseCycle and (
        cycle.disconnected or cycle.transport.is_closing()
    )
