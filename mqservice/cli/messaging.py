"""The client library as ``produce`` and ``consume`` use it.

    Target ─▶ [connected] ─▶ mqservice_client.AsyncClient ─▶ CommandNetwork ─▶ service
                                 MQError ─▶ [client_error, explain] ─▶ what a person reads

Two things differ from a program's client. Requests go over ``http``, for httpx takes longer to
load than all that a command does. And when nobody answers the first time, the command says so at
once instead of trying until its time is over.
"""

from __future__ import annotations

from typing import Final

from mqservice_client import (
    AsyncClient,
    MQError,
    OutcomeUnknown,
    RequestRejected,
    Unreachable,
    UsageError,
)
from mqservice_client import network as library
from mqservice_client.http_calls import Request, Response, rejection_of
from mqservice_client.protocol.frames import Subprotocol
from mqservice_client.values import Target as LibraryTarget

from mqservice.cli import errors
from mqservice.cli.client import CONNECT_TIMEOUT_MS, CONNECTIONS_MAX, USER_AGENT
from mqservice.cli.errors import ClientError, os_cause
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


def client_error(exc: MQError) -> ClientError:
    """The same in the words of the command line, with its hints and exit codes."""
    if isinstance(exc, RequestRejected):
        return errors.RequestRejected(
            status=exc.status,
            code=exc.code,
            detail=exc.detail,
            retriable=exc.retryable,
            stored=exc.stored,
            retry_after_ms=exc.retry_after_ms,
            request_id=exc.request_id,
        )
    if isinstance(exc, Unreachable):
        return errors.Unreachable(exc.base_url, exc.cause)
    return errors.UsageError(str(exc)) if isinstance(exc, UsageError) else ClientError(str(exc))


def rejection_from(status: int, content: bytes) -> ClientError:
    """The error of a response that is no success."""
    return client_error(rejection_of(status, content))


def explain(exc: MQError) -> tuple[str, str]:
    """(code, detail) of what became of a message that was not confirmed."""
    answer = exc if isinstance(exc, RequestRejected) else exc.__cause__
    if isinstance(answer, RequestRejected):
        return answer.code, answer.detail
    if isinstance(exc, OutcomeUnknown):
        if exc.__cause__ is None:  # the service said so of one message of a batch
            return "OUTCOME_UNKNOWN", exc.cause
        return "NO_ANSWER", f"no response ({exc.cause}); the outcome is unknown"
    if isinstance(exc, UsageError):
        return "BAD_REQUEST", str(exc)
    return ("UNREACHABLE" if isinstance(exc, Unreachable) else "NO_ANSWER"), str(client_error(exc))
