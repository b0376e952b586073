"""The transport of ``async_client``: moves bytes, decides nothing.

socket ── chunks ──▶ [ClientConnection] ── replied(frame) ──▶ AsyncStoreClient
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol, cast

from storage_engine.errors import BadFrame
from storage_engine.wire.frames import FrameDecoder
from storage_engine.wire.silence import SilenceWatch

log = logging.getLogger(__name__)


class Owner(Protocol):
    """Who gets what arrives."""

    def replied(self, op: int, status: int, request_id: int, payload: bytes) -> None:
        """A reply frame came."""

    def connection_failed(self, reason: str) -> None:
        """Nothing more will come, or what came was no frame."""


class ClientConnection(asyncio.BufferedProtocol):
    """Moves bytes; every decision is the client's."""

    def __init__(self, client: Owner, frame_bytes_max: int, watch: SilenceWatch) -> None:
        self._client = client
        self._watch = watch
        self._decoder = FrameDecoder(frame_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._is_left = False
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._watch.has_received = True
        try:
            for frame in self._decoder.filled(nbytes):
                self._client.replied(*frame)
        except BadFrame as exc:
            log.error(
                "The storage engine sent a malformed frame",
                extra={"action": "bad_frame", "reason": str(exc)},
            )
            self._client.connection_failed(str(exc))
            assert self._transport is not None
            self._transport.abort()

    def leave(self) -> None:
        """End it; the client wants to hear no more of it."""
        self._is_left = True
        assert self._transport is not None
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        if self._is_left:
            return
        self._client.connection_failed(
            str(exc) if exc else "the storage engine closed the connection"
        )
