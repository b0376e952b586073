"""Settles and receives that complete by a callback, so that no future or task has to wait for them.

    caller ── settle_for, receive_for ──▶ AsyncStoreClient ── one frame each ──▶ engine
    caller ◀── settled, received ──────── [here] ◀── reply, or what became of the connection

Who is told must not raise: on the same turn of the loop others are told what they wait for. The
engine answers a settle before a receive that was sent after it. One event loop uses these.
"""

from __future__ import annotations

import logging
from typing import Protocol

from storage_engine.errors import BadFrame, StoreError
from storage_engine.wire.client_types import Received
from storage_engine.wire.deliveries import Nack, ReceiveRequest, SettleReply, SettleRequest
from storage_engine.wire.operations import Op

log = logging.getLogger(__name__)


class SettleReplyHandler(Protocol):
    """Who has settled something; one of the two is called, once."""

    def settled(self, reply: SettleReply) -> None: ...

    def settle_failed(self, error: StoreError) -> None: ...


class ReceiveReplyHandler(Protocol):
    """Who receives; one of the two is called, once, unless the receive is cancelled before."""

    def received(self, received: Received) -> None: ...

    def receive_failed(self, error: StoreError) -> None: ...


class PendingReceive(Protocol):
    """A caller's hold on a receive that is under way."""

    def cancel(self) -> None:
        """Give the place in the engine back, and what was leased; also after it was told."""


class Receiver(Protocol):
    """The client, as far as a receive under way asks something of it."""

    def cancel(self, request_id: int) -> None:
        """The reply still comes, and what it leased is given back."""

    def release(self, origin: ReceiveRequest, payload: bytes) -> None:
        """What a reply leased was not seen by anybody."""


class SettleCall:
    """In the place of a future of a SETTLE reply."""

    __slots__ = ("_handler",)

    def __init__(self, told: SettleReplyHandler) -> None:
        self._handler = told

    def done(self) -> bool:
        return False

    def set_result(self, payload: bytes) -> None:
        try:
            reply = Op.SETTLE.decode_reply(payload)
        except BadFrame as error:
            self._handler.settle_failed(error)
            return
        self._handler.settled(reply)

    def set_exception(self, error: StoreError) -> None:
        self._handler.settle_failed(error)


class ReceiveCall:
    """In the place of a future of a RECEIVE reply; a ``PendingReceive``."""

    __slots__ = ("_client", "_handler", "_is_cancelled", "_payload", "_request", "request_id")

    def __init__(
        self, client: Receiver, request: ReceiveRequest, told: ReceiveReplyHandler
    ) -> None:
        self._client = client
        self._request = request
        self._handler: ReceiveReplyHandler | None = told  # until it is, since it holds this in turn
        self._payload: bytes | None = None
        self._is_cancelled = False
        self.request_id = 0

    def done(self) -> bool:
        return self._is_cancelled

    def set_result(self, payload: bytes) -> None:
        told, self._handler = self._handler, None
        assert told is not None, "a request has one reply"
        try:
            received = decode_received(payload)
            columns = received.columns  # decodes them here, as ``records`` does
            found = len(received.records if columns is None else columns.bodies)
            if found != received.count:
                raise BadFrame(f"the reply has {found} records but {received.count} attempts")
        except Exception as exc:  # the connection, which others share, is as good as before
            told.receive_failed(BadFrame(f"RECEIVE reply: {exc}"))
            return
        self._payload = payload
        told.received(received)

    def set_exception(self, error: StoreError) -> None:
        told, self._handler = self._handler, None
        assert told is not None, "a request has one reply"
        told.receive_failed(error)

    def cancel(self) -> None:
        """See ``PendingReceive``."""
        if self._is_cancelled:
            return
        self._is_cancelled, self._handler = True, None
        if self._payload is None:
            self._client.cancel(self.request_id)
        else:
            self._client.release(self._request, self._payload)


def decode_received(payload: bytes) -> Received:
    """What a RECEIVE reply says."""
    head, at = Op.RECEIVE.decode_head(payload)
    return Received(head, content=payload, at=at)


def release_of(origin: ReceiveRequest, payload: bytes) -> SettleRequest | None:
    """What gives back all that a RECEIVE reply leased; None if that was nothing, or nobody can read
    what it was.
    """
    try:
        received = decode_received(payload)
        records = received.records
    except Exception as exc:  # as above
        log.error(
            "Could not read a reply to RECEIVE; its messages stay leased until their leases expire",
            extra={"action": "bad_reply", "reason": f"RECEIVE reply: {exc}"},
        )
        return None
    if not records:
        return None
    nacks = [
        Nack(
            topic=record.topic,
            queue_id=record.queue_id,
            lease_generation=received.head.lease_generation,
            queue_offset=record.queue_offset,
            reason="receiver gone",
            is_release=True,
        )
        for record in records
    ]
    return SettleRequest(group=origin.group, nacks=nacks, client_id=origin.client_id)
