"""A consumer on a WebSocket that acks every frame and counts what the service confirmed.

msgs ─▶ [consume] ─▶ ack with id ─▶ ok ─▶ confirmed(count)
           └── seen(messages)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from bench.measure import MeasureFailed
from bench.processes import Service
from bench.ws_client import BINARY, TEXT, LeanSocket
from mqservice.protocol import client_codec, frames
from mqservice.protocol.frames import Subprotocol

CREDIT_MSGS: Final = 1_000
CREDIT_BYTES: Final = 8 * 1024 * 1024
SID: Final = 1

Pushed = frames.JsonDelivered | frames.PackDelivered


async def consume(
    service: Service,
    subprotocol: Subprotocol,
    confirmed: Callable[[int], None],
    seen: Callable[[Sequence[Pushed]], None] = lambda messages: None,
    credit_msgs: int = CREDIT_MSGS,
) -> None:
    """Until cancelled. Raises MeasureFailed when the service refuses anything."""
    socket = await LeanSocket.connect(service.ws_url, subprotocol=subprotocol, key=service.api_key)
    try:
        await _consume(socket, subprotocol, service, confirmed, seen, credit_msgs)
    finally:
        socket.close()


async def _consume(
    socket: LeanSocket,
    subprotocol: Subprotocol,
    service: Service,
    confirmed: Callable[[int], None],
    seen: Callable[[Sequence[Pushed]], None],
    credit_msgs: int,
) -> None:
    opcode = BINARY if subprotocol is Subprotocol.MSGPACK else TEXT

    def send(frame: msgspec.Struct) -> None:
        socket.send(client_codec.encode(frame, subprotocol), opcode)

    # A kept session would hold what it has not acked when it ends, and with it the next consumer.
    send(frames.Hello(id=1, client="bench", resume_ttl_ms=0))
    credit = frames.Credit(credit_msgs, CREDIT_BYTES)
    send(frames.Subscribe(id=2, sid=SID, topic=service.topic, group=service.group, credit=credit))
    next_id = 3
    unconfirmed: dict[int, int] = {}
    while True:
        for push in client_codec.decode(await socket.receive(), subprotocol):
            if isinstance(push, frames.JsonMessages | frames.PackMessages):
                seen(push.m)
                assert all(client_codec.body_of(message) for message in push.m)
                unconfirmed[next_id] = len(push.m)
                send(frames.Ack(id=next_id, sid=SID, t=[message.t for message in push.m]))
                next_id += 1
            elif isinstance(push, frames.Ok):
                # Only what the service confirmed counts.
                confirmed(unconfirmed.pop(push.id, 0))
            elif isinstance(push, frames.Err):
                raise MeasureFailed(f"the service refused: {push.code} {push.msg}")
            elif isinstance(push, frames.Ping):
                send(frames.Pong())
