"""The client library as ``produce`` and ``consume`` use it.

    Target ─▶ [connected] ─▶ mqservice_client.AsyncClient ─▶ CommandNetwork ─▶ service

Two things differ from a program's client. Requests go over ``http``, for httpx takes longer to
load than all that a command does. And when nobody answers the first time, the command says so at
once instead of trying until its time is over.
"""

from __future__ import annotations

from typing import Final

from mqservice_client import (
    AsyncClient,
    Unreachable,
    UsageError,
)
from mqservice_client import network as library
from mqservice_client.http_calls import Request, Response
from mqservice_client.protocol.frames import Subprotocol
from mqservice_client.values import Target as LibraryTarget

from mqservice.cli.client import CONNECT_TIMEOUT_MS, CONNECTIONS_MAX, USER_AGENT
from mqservice.cli.errors import os_cause
from mqservice.cli.http import Connections, NoResponse, NotConnected
from mqservice.cli.target import Target

# How long the first connection of ``consume`` may be refused with a promise of better times.
PATIENCE: Final = "1d"


class CommandNetwork(library.RealNetwork):
    """See the module."""

    def __init__(self, target: Target, subprotocol: Subprotocol) -> None:
        super().__init__(
            LibraryTarget(base_url=target.base_url, api_key=target.key, namespace=target.namespace),
            subprotocol=subprotocol,
        )
        self._has_answered = False
        self._connections = Connections(
            target.base_url,
            headers={"authorization": f"Bearer {target.key}", "user-agent": USER_AGENT},
            connections_max=CONNECTIONS_MAX,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            may_use_proxy=not target.is_loopback,
        )

    async def exchange(self, request: Request, timeout_ms: int) -> Response:
        try:
            response = await self._connections.request(
                request.method,
                request.path,
                timeout_ms=timeout_ms + request.wait_ms,
                content=request.content,
                headers=request.headers,
            )
        except ValueError as exc:
            raise UsageError(str(exc)) from exc
        except NotConnected as exc:
            raise self._unreachable(exc) from exc
        except NoResponse as exc:
            raise library.NoResponse(os_cause(exc)) from exc
        self._has_answered = True
        return Response(status=response.status, content=response.content)

    async def open_socket(self) -> library.Socket:
        try:
            socket = await super().open_socket()
        except Unreachable as exc:
            raise self._unreachable(exc) from exc
        self._has_answered = True
        return socket

    async def close(self) -> None:
        await self._connections.aclose()

    def _unreachable(self, exc: Exception) -> Unreachable:
        error = Unreachable(self._target.base_url, os_cause(exc))
        error.retryable = self._has_answered
        return error


def connected(
    target: Target, *, timeout: str, subprotocol: Subprotocol = Subprotocol.MSGPACK
) -> AsyncClient:
    """A client of that service."""
    return AsyncClient(
        target.base_url,
        target.key,
        namespace=target.namespace,
        timeout=timeout,
        client_name=USER_AGENT,
        frames="json" if subprotocol is Subprotocol.JSON else "msgpack",
        network=CommandNetwork(target, subprotocol),
    )
