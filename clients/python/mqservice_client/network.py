"""The two doors to the network, and the only importers of httpx and websockets.

    Request ─▶ [Network.exchange] ─▶ Response, or NotSent, or NoResponse
    Target ──▶ [Network.open_socket] ─▶ Socket: send, receive, close

``mqservice_client.testing`` has another implementation, which needs no network. httpx is loaded
with the first request: a consumer on a socket never needs it.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Final, Protocol

from .errors import ConnectionLost, ResponseMalformed, Unreachable
from .http_calls import Request, Response, problem_of, rejection_of
from .protocol.frames import Subprotocol
from .values import Target

if TYPE_CHECKING:
    import httpx
    from websockets.asyncio.client import ClientConnection

USER_AGENT: Final = "mqservice-client-python/1"
CONNECT_TIMEOUT_S: Final = 5.0
OPEN_TIMEOUT_S: Final = 10.0
CLOSE_TIMEOUT_S: Final = 2.0
CONNECTIONS_MAX: Final = 32
# A frame of messages has at most the service's own limit, and room for what is around bodies.
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
BROKEN: Final = 1006


class NotSent(Exception):
    """No connection; no byte of the request was written."""


class NoResponse(Exception):
    """The request was sent, at least in part, and no whole response came."""


class UpgradeRefused(Exception):
    """Something between here and the service does not let WebSockets through."""


class Socket(Protocol):
    """An open WebSocket."""

    async def send(self, content: bytes) -> None:
        """Raises ConnectionLost."""

    async def receive(self) -> bytes:
        """The next message. Raises ConnectionLost. Safe to cancel."""

    async def close(self, code: int = 1000) -> None:
        """Never raises."""


class Network(Protocol):
    """How a client reaches one service."""

    async def exchange(self, request: Request, timeout_ms: int) -> Response:
        """One request. Raises NotSent, NoResponse."""

    async def open_socket(self) -> Socket:
        """Raises Unreachable, RequestRejected, UpgradeRefused, ConnectionLost."""

    async def close(self) -> None: ...


class RealNetwork:
    """HTTP by httpx, WebSockets by websockets, proxies as the environment says."""

    def __init__(
        self,
        target: Target,
        verify: bool | str | ssl.SSLContext = True,
        subprotocol: Subprotocol = Subprotocol.MSGPACK,
    ) -> None:
        self._target = target
        self._subprotocol = subprotocol
        self._verify = verify
        self._http: httpx.AsyncClient | None = None

    async def exchange(self, request: Request, timeout_ms: int) -> Response:
        import httpx

        timeout_s = (timeout_ms + request.wait_ms) / 1000
        headers = {"authorization": f"Bearer {self._target.api_key}", **request.headers}
        try:
            response = await self._client().request(
                request.method,
                self._target.base_url + request.path,
                content=request.content,
                headers=headers,
                timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s)),
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as exc:
            raise NotSent(cause_of(exc)) from exc
        except httpx.HTTPError as exc:
            raise NoResponse(cause_of(exc)) from exc
        return Response(
            status=response.status_code, content=response.content, headers=response.headers
        )

    async def open_socket(self) -> Socket:
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus
        from websockets.typing import Subprotocol as SubprotocolName

        target = self._target
        try:
            opening = connect(
                target.ws_url,
                subprotocols=[SubprotocolName(self._subprotocol)],
                additional_headers={"authorization": f"Bearer {target.api_key}"},
                user_agent_header=USER_AGENT,
                compression=None,  # deflate costs more than it saves on a fast line
                proxy=None if target.is_loopback else True,
                open_timeout=OPEN_TIMEOUT_S,
                close_timeout=CLOSE_TIMEOUT_S,
                ping_interval=None,  # the service pings in frames of its own
                max_size=FRAME_BYTES_MAX,
                ssl=self._ssl() if target.ws_url.startswith("wss:") else None,
            )
            # A key is not carried to where somebody else sends the client, over REST neither.
            opening.process_redirect = lambda exc: exc  # type: ignore[method-assign]
            connection = await opening
        except InvalidStatus as exc:
            raise _refusal(exc.response.status_code, bytes(exc.response.body or b"")) from exc
        except InvalidMessage as exc:
            # The peer hung up during the handshake, as a service that restarts does.
            raise Unreachable(target.base_url, cause_of(exc)) from exc
        except InvalidHandshake as exc:
            raise UpgradeRefused(f"{target.ws_url} does not speak WebSocket: {exc}") from exc
        except (OSError, TimeoutError, asyncio.TimeoutError) as exc:
            raise Unreachable(target.base_url, cause_of(exc)) from exc
        if connection.subprotocol != SubprotocolName(self._subprotocol):
            await connection.close()
            raise ResponseMalformed(f"{target.ws_url} speaks {connection.subprotocol}")
        return _RealSocket(connection, is_text=self._subprotocol is Subprotocol.JSON)

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            import httpx

            self._http = httpx.AsyncClient(
                headers={"user-agent": USER_AGENT, "accept-encoding": "identity"},
                limits=httpx.Limits(
                    max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX
                ),
                # Redirects are not followed, so that plain http never comes to need certificates.
                verify=self._ssl() if self._target.base_url.startswith("https:") else False,
                # A proxy of the environment never knows this machine's own loopback.
                trust_env=not self._target.is_loopback,
            )
        return self._http

    def _ssl(self) -> ssl.SSLContext:
        if isinstance(self._verify, ssl.SSLContext):
            return self._verify
        context = ssl.create_default_context(
            cafile=self._verify if isinstance(self._verify, str) else None
        )
        if self._verify is False:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self._verify = context
        return context


class _RealSocket:
    def __init__(self, connection: ClientConnection, *, is_text: bool) -> None:
        from websockets.exceptions import ConnectionClosed

        self._connection = connection
        self._is_text = is_text
        self._closed = ConnectionClosed

    async def send(self, content: bytes) -> None:
        try:
            await self._connection.send(content, text=self._is_text)
        except self._closed as exc:
            raise _lost(exc.rcvd) from exc

    async def receive(self) -> bytes:
        try:
            return await self._connection.recv(decode=False)
        except self._closed as exc:
            raise _lost(exc.rcvd) from exc

    async def close(self, code: int = 1000) -> None:
        await self._connection.close(code)


def _lost(close: object) -> ConnectionLost:
    if close is None:
        return ConnectionLost(BROKEN, "the connection broke")
    return ConnectionLost(getattr(close, "code", BROKEN), getattr(close, "reason", ""))


def _refusal(status: int, content: bytes) -> Exception:
    """What a status instead of an upgrade means.

    The service refuses with its own problem document, and has a socket at this path: a 404 of its
    own means that the request came without its ``Upgrade``. Any other document is a proxy's.
    """
    problem = problem_of(content)
    if problem is None:
        if status in (408, 429, 500, 502, 503, 504):
            return rejection_of(status, content)  # a proxy whose service is not there
        return UpgradeRefused(f"a proxy answered the WebSocket handshake with {status}")
    if problem.code in ("NOT_FOUND", "METHOD_NOT_ALLOWED"):
        return UpgradeRefused("the service got the WebSocket handshake without its Upgrade header")
    return rejection_of(status, content)


def cause_of(exc: BaseException) -> str:
    """What the operating system said, where a library wrapped it."""
    inner: BaseException | None = exc
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror.lower()
        inner = inner.__cause__ or inner.__context__
    return str(exc) or type(exc).__name__
