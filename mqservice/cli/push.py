"""One WebSocket to the service: connect, say hello, send commands, receive pushes.

    Target ─▶ open_session ─▶ [PushSession] ─▶ send(command)
                                            ◀─ receive() pushes, pings already answered

A session lives as long as its connection and knows nothing of reconnecting; ``consumer`` does.
Silence longer than the service's ping interval and grace together means that the line is dead.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
from typing import Final

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
)
from websockets.typing import Subprotocol as SubprotocolName

from mqservice.cli.client import USER_AGENT, rejection_from
from mqservice.cli.errors import (
    ConnectionLost,
    RequestRejected,
    ResponseMalformed,
    Unreachable,
    os_cause,
)
from mqservice.cli.target import Target
from mqservice.protocol import client_codec, frames
from mqservice.protocol.frames import FrameBroken, Subprotocol

OPEN_TIMEOUT_MS: Final = 10_000
CLOSE_TIMEOUT_MS: Final = 2_000
# A `msgs` frame holds at most the service's own limit; JSON's base64 makes a third more of it.
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
HELLO_ID: Final = 1
GOING_AWAY: Final = 1001
SILENT: Final = 1006


class PushSession:
    """An open, welcomed connection."""

    def __init__(
        self, socket: ClientConnection, subprotocol: Subprotocol, welcome: frames.Welcome
    ) -> None:
        self.welcome = welcome
        self._socket = socket
        self._subprotocol = subprotocol
        self._ids = itertools.count(HELLO_ID + 1)
        self._silence_ms_max = welcome.ping_ms + welcome.pong_ms

    def next_id(self) -> int:
        return next(self._ids)

    async def send(self, frame: msgspec.Struct) -> None:
        try:
            await _send(self._socket, frame, self._subprotocol)
        except ConnectionClosed as exc:
            raise _closed_error(exc) from exc

    async def receive(self) -> list[msgspec.Struct]:
        """The pushes of the next WebSocket message; waits for one. Safe to cancel."""
        try:
            async with asyncio.timeout(self._silence_ms_max / 1000):
                content = await self._socket.recv(decode=False)
        except ConnectionClosed as exc:
            raise _closed_error(exc) from exc
        except TimeoutError as exc:
            silence = f"the server has sent nothing for {self._silence_ms_max} ms"
            raise ConnectionLost(SILENT, silence) from exc
        pushes = decode(content, self._subprotocol)
        if any(isinstance(push, frames.Ping) for push in pushes):
            await self.send(frames.Pong())
        return pushes

    async def aclose(self) -> None:
        await self._socket.close(GOING_AWAY)


async def open_session(target: Target, subprotocol: Subprotocol, *, client: str) -> PushSession:
    """Connect and exchange hello and welcome.

    Raises:
        Unreachable: nobody listens there.
        Refused: the service answered with a status instead of a WebSocket, or refused the hello.
        ConnectionLost: closed, or silent for ``OPEN_TIMEOUT_MS``, before the welcome.
    """
    socket = await _connect(target, subprotocol)
    try:
        async with asyncio.timeout(OPEN_TIMEOUT_MS / 1000):
            # It never resumes: what it leaves shall go to others at once.
            hello = frames.Hello(
                id=HELLO_ID, client=client, max_frame=FRAME_BYTES_MAX, resume_ttl_ms=0
            )
            await _send(socket, hello, subprotocol)
            answers = decode(await socket.recv(decode=False), subprotocol)
        first = answers[0] if answers else None
        if isinstance(first, frames.Err):
            raise rejection_of(first)
        if not isinstance(first, frames.Welcome):
            raise ResponseMalformed(f"{target.ws_url} did not reply to hello with welcome")
        return PushSession(socket, subprotocol, first)
    except ConnectionClosed as exc:
        raise _closed_error(exc) from exc
    except TimeoutError as exc:
        await socket.close()
        raise ConnectionLost(SILENT, f"no welcome within {OPEN_TIMEOUT_MS} ms") from exc
    except (RequestRejected, ResponseMalformed):
        await socket.close()
        raise


def decode(content: bytes, subprotocol: Subprotocol) -> list[msgspec.Struct]:
    """All pushes of one WebSocket message. Raises ResponseMalformed."""
    try:
        return client_codec.decode(content, subprotocol)
    except FrameBroken as exc:
        raise ResponseMalformed(str(exc)) from exc


async def _send(socket: ClientConnection, frame: msgspec.Struct, subprotocol: Subprotocol) -> None:
    content = client_codec.encode(frame, subprotocol)
    await socket.send(content, text=subprotocol is Subprotocol.JSON)


def rejection_of(err: frames.Err) -> RequestRejected:
    return RequestRejected(status=0, code=err.code, detail=err.msg, retriable=err.retryable)


async def _connect(target: Target, subprotocol: Subprotocol) -> ClientConnection:
    try:
        socket = await connect(
            target.ws_url,
            subprotocols=[SubprotocolName(subprotocol)],
            additional_headers={"authorization": f"Bearer {target.key}"},
            user_agent_header=USER_AGENT,
            compression=None,  # deflate costs more than it saves on a fast line
            proxy=None if target.is_loopback else True,
            open_timeout=OPEN_TIMEOUT_MS / 1000,
            close_timeout=CLOSE_TIMEOUT_MS / 1000,
            ping_interval=None,  # the service pings in its own frames
            max_size=FRAME_BYTES_MAX,
        )
    except InvalidStatus as exc:
        raise rejection_from(exc.response.status_code, bytes(exc.response.body or b"")) from exc
    except InvalidMessage as exc:
        # The peer hung up in the middle of the handshake, as a restarting service does.
        raise Unreachable(target.base_url, os_cause(exc)) from exc
    except InvalidHandshake as exc:
        raise ResponseMalformed(
            f"{target.ws_url} is not a WebSocket of this service: {exc}"
        ) from exc
    except (ssl.SSLError, OSError, TimeoutError) as exc:
        raise Unreachable(target.base_url, os_cause(exc)) from exc
    if socket.subprotocol != SubprotocolName(subprotocol):
        await socket.close()
        raise ResponseMalformed(f"{target.ws_url} uses {socket.subprotocol}, not {subprotocol}")
    return socket


def _closed_error(exc: ConnectionClosed) -> ConnectionLost:
    if exc.rcvd is None:
        return ConnectionLost(SILENT, "the connection broke")
    return ConnectionLost(exc.rcvd.code, exc.rcvd.reason)
