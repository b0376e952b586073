"""The service as one ASGI application: the data plane first, Django for everything else.

    http /v1/.../messages…, :receive, :settle ─▶ delivery.plane     no Django on this road
    http /sqs/…, or / with AWS's signature ───▶ sqs.plane          the same for messages
    websocket /v1/ws ─────────────────────────▶ delivery.consumer  (Channels)
    websocket /console/live, /console/tail ───▶ console.live, .tail (Channels, browser's session)
    http /v1/ with a key ─────────────────────▶ control_plane      Django on threads that stay
    http, everything else ────────────────────▶ Django             pages, files
    lifespan ──▶ store client, cache listener ──▶ closed at the end

``Application.drain`` is called by ``mqservice.web`` when the process is told to stop, before the
server closes its connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

from django.conf import settings as django_settings
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqservice.settings")
os.environ.setdefault("MQ_PROCESS", "web")
# Sets Django up; what is imported below has models.
django_application: Any = get_asgi_application()  # Any: Django types scopes more narrowly

from mqservice.accounts.key_uses import write_uses  # noqa: E402 needs Django set up
from mqservice.body_guard import BodyGuard  # noqa: E402 as above
from mqservice.caches import caches, listen  # noqa: E402 needs Django set up
from mqservice.console.live.consumer import live_application  # noqa: E402 as above
from mqservice.console.tail.consumer import tail_application  # noqa: E402 as above
from mqservice.control_plane import ControlPlane, asker_of, is_of_program  # noqa: E402 as above
from mqservice.delivery.connections.connection_calls import serve_calls  # noqa: E402 as above
from mqservice.delivery.context import DeliveryContext, process_context  # noqa: E402 as above
from mqservice.delivery.http import (  # noqa: E402 as above
    UPGRADE_REFUSAL_EXTENSION,
    Message,
    Receive,
    Scope,
    Send,
    reject_upgrade,
    request_id_of,
    send_problem,
)
from mqservice.delivery.plane import DataPlane, find_match  # noqa: E402 as above
from mqservice.delivery.socket.consumer import DeliveryConsumer  # noqa: E402 as above
from mqservice.lib.clock import SystemClock  # noqa: E402 as above
from mqservice.lib.middleware import API_PREFIX, ASKED_FOR, HAS_SESSION  # noqa: E402 as above
from mqservice.lib.problem import Problem  # noqa: E402 as above
from mqservice.moving_changes import CHANGING, MOVE, move_of_request  # noqa: E402 as above
from mqservice.quotas.engine_usage import EngineUsage  # noqa: E402 as above
from mqservice.quotas.meters import set_process_meters  # noqa: E402 as above
from mqservice.quotas.rejection_pacing import RejectionPacer, body_bytes_of  # noqa: E402 as above
from mqservice.sqs.plane import SqsPlane, is_sqs_request  # noqa: E402 as above
from mqservice.store import UsageReply, UsageRequest, close_store  # noqa: E402 as above
from mqservice.usage.writing import run as write_usage  # noqa: E402 as above
from mqservice.web.cycle import Cycle, Serve, Take, recognised  # noqa: E402 as above
from mqservice.web.unauthenticated import UnauthenticatedConnections  # noqa: E402 as above

log = logging.getLogger(__name__)

SOCKET_PATH: Final = "/v1/ws"
LIVE_PATH: Final = "/console/live"
# Answers of the control plane that a client can have as many of as it sends requests.
_PACED_STATUSES: Final = frozenset({401, 403, 429})
TAIL_PATH: Final = "/console/tail"
_DRAIN_MARGIN_MS: Final = 2_000  # for the engine to keep the sessions


class Application:
    """See the module's docstring. One per process."""

    def __init__(
        self,
        open_context: Callable[[], DeliveryContext] | None = None,
        refusals: RejectionPacer | None = None,
        control_plane: ControlPlane | None = None,
    ) -> None:
        """``open_context`` takes the place of the process's own store and caches."""
        self._open_context = open_context
        self._context: DeliveryContext | None = None
        self._plane: DataPlane | None = None
        self._sqs: SqsPlane
        self.strangers = (
            UnauthenticatedConnections()
        )  # among the connections of the server that runs this
        self._chores: list[asyncio.Task[None]] = []
        self._refusals = refusals or RejectionPacer(SystemClock())
        self._control_plane = control_plane or ControlPlane()
        # Any: Channels types scopes more narrowly than servers keep to.
        self._socket: Any = DeliveryConsumer.as_asgi(context=self._open)
        self._live_socket: Any = live_application(self._open)  # Any: as above
        self._tail_socket: Any = tail_application(self._open)  # Any: as above

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            path: str = scope["path"]
            if path.startswith("/v1/"):
                match = find_match(path)
                if match is not None:
                    plane = self._plane or self._open_plane()
                    await plane(scope, receive, send, match)
                    return
            elif is_sqs_request(path, scope["query_string"], dict(scope["headers"])):
                self._open_plane()
                await self._sqs(scope, receive, send)
                return
            await self._serve_django(scope, receive, send)
        elif kind == "websocket":
            if scope["path"] == SOCKET_PATH:
                await self._socket(scope, receive, send)
            elif scope["path"] == LIVE_PATH:
                await self._live_socket(scope, receive, send)
            elif scope["path"] == TAIL_PATH:
                await self._tail_socket(scope, receive, send)
            else:
                await _refuse_socket(scope, receive, send)
        elif kind == "lifespan":
            await self._live(receive, send)
        else:
            raise ValueError(f"cannot serve a scope of type {kind}")

    @property
    def take(self) -> Take | None:
        """Serves requests without a task, where the application is open; see ``web.transport``."""
        return None if self._plane is None else self._take

    def _take(self, cycle: Cycle, headers: dict[bytes, bytes]) -> Serve | None:
        is_rest = cycle.scope["path"].startswith(API_PREFIX)
        plane = self._plane if is_rest else self._sqs
        return None if plane is None else plane.take(cycle, headers)

    async def drain(self) -> None:
        """Answer parked polls and end sessions; returns when they are gone, or after the grace."""
        context = self._context
        if context is None:
            return
        context.drain.start()
        if not await context.drain.wait_until_idle(context.times.grace_ms + _DRAIN_MARGIN_MS):
            log.warning(
                "Some clients did not disconnect before the shutdown deadline; "
                "closed their connections",
                extra={"action": "drain_timed_out", "count": context.drain.listener_count},
            )

    def _open(self) -> DeliveryContext:
        """The context, made at the first use for servers that know no lifespan."""
        if self._context is None:
            if self._open_context is None:
                self._context = process_context()
                loop = asyncio.get_running_loop()
                holdings = _holdings_of(self._context)
                sessions = self._context.sessions
                work = (
                    listen(caches), write_uses(), write_usage(), self._context.meters.run(),
                    holdings.run(),
                    serve_calls(django_settings.MQ_VALKEY_URL, lambda: sessions.open_sessions),
                )  # fmt: skip
                self._chores = [loop.create_task(each) for each in work]
                set_process_meters(self._context.meters)
            else:
                self._context = self._open_context()
        return self._context

    def _open_plane(self) -> DataPlane:
        if self._plane is None:
            self._plane = DataPlane(self._open())
            self._sqs = SqsPlane(self._open(), self._control_plane)
        return self._plane

    async def _close(self) -> None:
        set_process_meters(None)
        for chore in self._chores:
            chore.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await chore
        self._control_plane.close()
        await close_store()
        if self._context is not None and self._context.spans is not None:
            await asyncio.to_thread(self._context.spans.tracing.close_soon)
        self._context = self._plane = None
        self._chores = []

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._open_plane()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self._close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _serve_django(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Django, with the request id that its logs and problems use in the answer as well."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        request_id = request_id_of(headers)
        scope["mq.request_id"] = request_id
        guard = BodyGuard(scope, receive, bytes_max=django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        # For pages that send or show messages: the plane knows how, and what it costs.
        scope["mq.plane"] = self._plane or self._open_plane()
        move = scope[MOVE] = move_of_request(self._open().caches, scope, headers)
        if move is not None:
            await move.wait()
        is_api = scope["path"].startswith(API_PREFIX)
        body_bytes = body_bytes_of(headers)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                if scope["method"] in CHANGING and message["status"] < 400:
                    await self._open().caches.hear_own_changes()
                headers = list(message.get("headers", []))
                if not any(name.lower() == b"x-request-id" for name, _ in headers):
                    headers.append((b"x-request-id", request_id.encode()))
                is_paced = is_api and message["status"] in _PACED_STATUSES
                if is_paced:
                    who = asker_of(scope, scope.get(ASKED_FOR))
                    if not await self._refusals.turn(who, body_bytes):
                        headers.append((b"connection", b"close"))
                message = {**message, "headers": headers}
            await send(message)

        answer = self._control_plane if is_of_program(scope, headers) else django_application
        await answer(scope, guard.receive, send_with_id)
        if scope.get(ASKED_FOR) is not None or scope.get(HAS_SESSION):
            recognised(send)
        if guard.refusal is not None:  # Django has read no body, and answered nothing
            await send_problem(
                send,
                guard.refusal,
                path=scope["path"],
                request_id=request_id,
                # What is still on its way of a body has no end we know of.
                close=guard.refusal.status in (408, 413),
            )


def _holdings_of(context: DeliveryContext) -> EngineUsage:
    def use(shard: str, request: UsageRequest) -> Awaitable[UsageReply]:
        return context.stores[shard].use(request)

    return EngineUsage(context.meters, use, context.clock)


async def _refuse_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """404 before the upgrade where the server can, else close code 4404."""
    await receive()
    if UPGRADE_REFUSAL_EXTENSION in (scope.get("extensions") or {}):
        problem = Problem.of("NOT_FOUND", f"the socket of the API is at {SOCKET_PATH}")
        request_id = request_id_of(dict(scope["headers"]))
        await reject_upgrade(receive, send, problem, path=scope["path"], request_id=request_id)
        return
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": 4404, "reason": "NOT_FOUND"})


application = Application()
