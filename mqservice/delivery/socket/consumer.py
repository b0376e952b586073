"""The WebSocket of the API as a Channels consumer: refuses or accepts, then runs one session.

    websocket.connect ──▶ key or ticket, namespace ──▶ accept, or an HTTP problem instead
    websocket.receive ──▶ Session.take_frame
    end (bad frame, stall, shutdown, client gone) ──▶ session kept or given back ──▶ close code

``dispatch`` and the loop around it are our own: Channels hops through its database thread before
each event and makes two tasks for it, which would be the larger part of the work for a frame of
acks. No channel layer is used; bodies come from the engine under credit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs

from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer

from mqservice.accounts.access import Principal, unauthenticated
from mqservice.accounts.tickets import TICKET_SUBPROTOCOL
from mqservice.delivery.connections.connections import AGENT_CHARS_MAX
from mqservice.delivery.context import DeliveryContext, counted
from mqservice.delivery.http import (
    UPGRADE_REFUSAL_EXTENSION,
    Message,
    Receive,
    Scope,
    Send,
    reject_upgrade,
    request_id_of,
)
from mqservice.delivery.limits import RECONNECT_MS
from mqservice.delivery.socket.codec import CODECS, Codec
from mqservice.delivery.socket.commands import Commands
from mqservice.delivery.socket.session import Session, SessionEnded
from mqservice.lib.problem import Problem
from mqservice.protocol.frames import Subprotocol
from mqservice.quotas.meter import TenantMeter

log = logging.getLogger(__name__)

AUTH_CODE: Final = 4401
NOT_FOUND_CODE: Final = 4404
TRY_LATER_CODE: Final = 1013
# RFC 6455, 7.4.1. The connection was lost without a close frame,
CUT_OFF_CODE: Final = 1006
NO_STATUS_CODE: Final = 1005
# or one side could not go on: broken frames, data it cannot accept, a message too big, an error.
_FAILED_CODES: Final = frozenset({CUT_OFF_CODE, 1002, 1003, 1007, 1009, 1011})
_CLOSE_CODES: Final = {
    401: AUTH_CODE,
    403: 4403,
    404: NOT_FOUND_CODE,
    429: 4429,
    503: TRY_LATER_CODE,
}
_BAD_FRAME_CODE: Final = 4400


class DeliveryConsumer(AsyncConsumer):
    """One socket."""

    # No layer of this name is configured, so none is opened.
    channel_layer_alias: ClassVar[str] = "none"

    def __init__(self, context: Callable[[], DeliveryContext]) -> None:
        super().__init__()
        self._context = context()
        self._scope: Scope = {}
        self._receive: Receive
        self._send: Send
        self._session: Session | None = None
        self._commands: Commands | None = None
        self._has_vanished = False
        self._tenant_id: int | None = None
        self._meter: TenantMeter | None = None
        self._reader: asyncio.Task[Any] | None = None  # Any: the server's task, result unused

    async def __call__(
        self,
        scope: Any,  # Any: Channels types these three more narrowly than servers keep to
        receive: Any,
        send: Any,
    ) -> None:
        """The road of one connection, from its handshake to its close."""
        self.scope = scope
        self.base_send = send
        self._scope = scope
        self._receive = receive
        self._send = send
        self._reader = asyncio.current_task()
        ending: SessionEnded | None = None
        try:
            while True:
                await self.dispatch(await receive())
        except StopConsumer:
            return
        except SessionEnded as exc:
            ending = exc
        except OSError:
            self._has_vanished = True
            log.debug("The client disconnected", extra={"action": "socket_gone"})
        except asyncio.CancelledError:
            ending = self._session.ending if self._session is not None else None
            if ending is None or self._reader is None:
                raise
            self._reader.uncancel()
        finally:
            try:
                if self._session is not None:
                    is_excessive = bool(self._session.budget.excess)
                    has_vanished = self._has_vanished or is_excessive
                    await self._session.close(
                        is_kept=ending.is_resumable if ending else not is_excessive,
                        has_vanished=not ending.is_orderly if ending else has_vanished,
                    )
            finally:
                if self._meter is not None:
                    self._meter.dismiss_socket()
                if self._tenant_id is not None:
                    self._context.sessions.dismiss(self._tenant_id)
        if ending is not None:
            await self._send_close(ending)

    async def dispatch(self, message: Any) -> None:  # Any: as above
        """Straight to the method for ``message``, without a detour by another thread."""
        kind = message["type"]
        if kind == "websocket.receive":
            await self.websocket_receive(message)
        elif kind == "websocket.connect":
            await self.websocket_connect(message)
        elif kind == "websocket.disconnect":
            self._has_vanished = is_failure(message)
            raise StopConsumer
        else:
            raise ValueError(f"no method for message type {kind}")

    async def websocket_connect(self, message: Message) -> None:
        """Accept, or refuse and end."""
        headers: dict[bytes, bytes] = dict(self._scope["headers"])
        request_id = request_id_of(headers)
        try:
            self._context.origins.check(self._scope["headers"])
            if self._context.drain.has_begun:
                raise Problem.of(
                    "DRAINING",
                    "this process is shutting down; connect again",
                    retry_after_ms=RECONNECT_MS,
                )
            authorization = headers.get(b"authorization", b"")
            keys = self._context.caches.keys
            if not authorization:
                keys = self._context.caches.holders
                authorization = await self._holder(headers)
            principal = keys.cached(authorization)
            if principal is None:
                principal = await counted(self._context, self._scope, keys.load(authorization))
            self._check_debt(principal)
            namespace = self._namespace(principal)
            codec = self._codec()
            meters = self._context.meters
            meter = meters.known.get(principal.tenant_id) or await meters.load(principal.tenant_id)
            meter.admit_socket()
            self._meter = meter
            self._context.sessions.admit(principal.tenant_id)
            self._tenant_id = principal.tenant_id
        except Problem as problem:
            await self._refuse(problem, request_id)
            raise StopConsumer from None
        await self._send(
            {
                "type": "websocket.accept",
                "subprotocol": codec.name if self._scope["subprotocols"] else None,
                "headers": [(b"x-request-id", request_id.encode())],
            }
        )
        self._session = Session(
            self._context,
            codec,
            keys=keys,
            authorization=authorization,
            principal=principal,
            meter=meter,
            namespace=namespace,
            client=self._client(),
            send=self._send,
            interrupt=self._interrupt,
            user_agent=headers.get(b"user-agent", b"").decode("latin-1")[:AGENT_CHARS_MAX],
        )
        self._commands = Commands(self._session)

    async def websocket_receive(self, message: Message) -> None:
        assert self._session is not None, "a frame arrived before the handshake"
        assert self._commands is not None, "it comes with the session"
        await self._session.take_frame(
            message.get("text"), message.get("bytes"), self._commands.run
        )

    def _interrupt(self) -> None:
        """Wake the reader, which may wait for a frame that never comes."""
        assert self._reader is not None
        self._reader.cancel()

    async def _holder(self, headers: dict[bytes, bytes]) -> bytes:
        """Who holds the ticket among the subprotocols, which is worth nothing after this."""
        for name in self._scope["subprotocols"]:
            if name.startswith(TICKET_SUBPROTOCOL):
                origin = headers.get(b"origin", b"").decode("latin-1")
                text = name.removeprefix(TICKET_SUBPROTOCOL)
                redeemed = self._context.tickets.redeem(text, origin)
                return await counted(self._context, self._scope, redeemed)
        raise unauthenticated()

    def _check_debt(self, principal: Principal) -> None:
        """Nothing from one whose refused work is not paid for yet; ``SocketBudget`` says why."""
        seconds = self._context.debts.seconds(principal.actor)
        if seconds:
            raise Problem.of(
                "RATE_LIMITED",
                "sockets of this key sent too much that was refused, without effect or no frame at "
                f"all; connect again in {seconds} s",
                retry_after_ms=seconds * 1_000,
            )

    def _namespace(self, principal: Principal) -> str:
        query = parse_qs(self._scope["query_string"].decode("latin-1"))
        asked = query.get("ns", ["-"])[0]
        namespace = principal.namespace_named(asked)
        if namespace is not None:
            return namespace
        if asked == "-":
            raise Problem.of(
                "BAD_REQUEST", "this key is not bound to a namespace: connect with ?ns=<namespace>"
            )
        raise Problem.of("NAMESPACE_NOT_FOUND", f"{asked} does not exist")

    def _codec(self) -> Codec:
        offered: list[str] = self._scope["subprotocols"]
        if not offered:
            return CODECS[Subprotocol.JSON]
        for name in offered:
            if name in CODECS:
                return CODECS[name]
        raise Problem.of(
            "BAD_REQUEST",
            f"the client offered none of the subprotocols supported here: {', '.join(CODECS)}",
        )

    def _client(self) -> tuple[str, int]:
        client = self._scope["client"]
        return ("0.0.0.0", 0) if client is None else (client[0], client[1] or 0)

    async def _refuse(self, problem: Problem, request_id: str) -> None:
        """With an HTTP status where the server can, else with a close code."""
        if UPGRADE_REFUSAL_EXTENSION in (self._scope.get("extensions") or {}):
            await reject_upgrade(
                self._receive,
                self._send,
                problem,
                path=self._scope["path"],
                request_id=request_id,
            )
            return
        code = _CLOSE_CODES.get(problem.status, _BAD_FRAME_CODE)
        await self._send({"type": "websocket.accept"})
        await self._send({"type": "websocket.close", "code": code, "reason": problem.code})

    async def _send_close(self, ending: SessionEnded) -> None:
        """Say why, unless the client takes nothing any more; the server cuts it off after that."""
        try:
            async with asyncio.timeout(self._context.times.stall_ms / 1_000):
                await self._send(
                    {"type": "websocket.close", "code": ending.code, "reason": ending.reason}
                )
        except (TimeoutError, OSError):
            log.info(
                "The client did not take the close frame in time",
                extra={"action": "close_frame_unsent"},
            )


def is_failure(disconnect: Message) -> bool:
    """Whether the client went without leaving in order, by ASGI's ``websocket.disconnect``."""
    code = disconnect.get("code", CUT_OFF_CODE)
    if code == NO_STATUS_CODE and "reason" not in disconnect:
        code = CUT_OFF_CODE  # so uvicorn says that the connection was lost
    return code in _FAILED_CODES
