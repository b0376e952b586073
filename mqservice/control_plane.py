"""Django for programs: control plane requests with a key, each handled in one hop to a thread.

    asgi ── /v1/…, Authorization, no cookie ──▶ [ControlPlane] ── FairTurns ──▶ a thread that stays:
                          answer ◀───────────────────────────────── MQ_API_MIDDLEWARE, view

Django's own ASGI handler makes a thread and a database connection for each request and crosses
between thread and loop a dozen times, which costs more CPU than most views. What comes from
browsers goes there: sessions, forms and files need its whole middleware, programs need none of it.
Here each thread keeps its connections: the engine's, and for ``CONNECTION_SECONDS_MAX``
PostgreSQL's.

Turns are a tenant's, however many keys it has; those of who has shown no good key yet are of where
the request comes from. Nobody has a turn while its namespace goes to another shard
(``moving_changes``).
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from typing import Any, Final, TypeVar

import psycopg
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.base import BaseHandler
from django.core.handlers.exception import convert_exception_to_response
from django.db import connection
from django.http import HttpResponse, HttpResponseBadRequest
from django.http.response import HttpResponseBase
from django.utils.module_loading import import_string

from mqservice.delivery.http import Receive, Scope, Send, send_problem
from mqservice.lib.fair_turns import FairTurns
from mqservice.lib.lookup_cache import make_room
from mqservice.lib.middleware import API_PREFIX, ASKED_FOR
from mqservice.lib.problem import Problem
from mqservice.lib.throttle import network_of
from mqservice.moving_changes import MOVE, Move
from mqservice.store import keep_clients

T = TypeVar("T")

THREADS: Final = 4  # they wait for PostgreSQL and the engine; one of them computes at a time
EACH_MAX: Final = 3  # threads that one asker keeps
CONNECTION_SECONDS_MAX: Final = 300
KEYS_MAX: Final = 10_000  # whose tenants are remembered; the oldest are forgotten


def is_of_program(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    """Whether ``ControlPlane`` answers it: nothing of a browser's session can be needed."""
    is_api: bool = scope["path"].startswith(API_PREFIX)
    return is_api and b"authorization" in headers and b"cookie" not in headers


def asker_of(scope: Scope, tenant_id: int | None) -> str:
    """Whose request it is: the tenant's, or while that is unknown, of where it was sent from."""
    if tenant_id is not None:
        return f"tenant {tenant_id}"
    client = scope.get("client")
    return network_of(client[0] if client else "")


class ControlPlane(BaseHandler):
    """See the module's docstring. One per process, used on its loop."""

    def __init__(self) -> None:
        super().__init__()
        self._load()
        self._pool: ThreadPoolExecutor | None = None
        self._turns = FairTurns(at_once=THREADS, each_max=EACH_MAX)
        self._tenants: dict[bytes, int] = {}  # by the header of a key that was good last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; nothing when its client is gone before all of it is here."""
        body = await _read(receive)
        if body is None:
            return
        key: bytes = dict(scope["headers"])[b"authorization"]
        try:
            response = await self.run(
                asker_of(scope, self._tenants.get(key)),
                partial(self.answer, scope, body),
                lambda: self._remember(key, scope.get(ASKED_FOR)),
                move=scope.get(MOVE),
            )
        except Problem as problem:
            await send_problem(send, problem, path=scope["path"], request_id=scope["mq.request_id"])
            return
        await _send(response, send)

    async def run(
        self,
        asker: str,
        work: Callable[[], T],
        ended: Callable[[], object] = lambda: None,
        *,
        move: Move | None = None,
    ) -> T:
        """The result of ``work`` on a thread of ours, in the turn of ``asker``; then ``ended``.
        ``move``: of the namespace that is changed, which may have begun while this was in line.

        Raises Problem METADATA_UNAVAILABLE when too many wait already.
        """
        await self._begin(asker)
        if move is not None and await self._is_under_way(move, asker):
            self._turns.end(asker)  # for others meanwhile
            await move.wait()
            await self._begin(asker)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, "control-plane", keep_clients)

        def end(_: object) -> None:
            self._turns.end(asker)
            ended()

        running = asyncio.get_running_loop().run_in_executor(self._pool, with_connection, work)
        # The turn lasts until the thread is done, even if this task is cancelled before that.
        running.add_done_callback(end)
        return await asyncio.shield(running)

    async def _begin(self, asker: str) -> None:
        """A turn. Raises Problem METADATA_UNAVAILABLE."""
        if not await self._turns.begin(asker):
            raise Problem.of(
                "METADATA_UNAVAILABLE",
                "too many requests are waiting for the control plane; try again later",
                retry_after_ms=1_000,
            )

    async def _is_under_way(self, move: Move, asker: str) -> bool:
        """Asked in the turn of ``asker``, which ends if this fails."""
        try:
            return await move.is_under_way()
        except BaseException:
            self._turns.end(asker)
            raise

    def answer(self, scope: Scope, body: bytes) -> HttpResponseBase:
        """What the view answers. Blocks; the thread's connection is used, and kept."""
        try:
            request = ASGIRequest(scope, BytesIO(body))
        except UnicodeDecodeError:
            return HttpResponseBadRequest()
        except RequestDataTooBig:  # unreachable behind the guard of bodies, unless it is taken away
            return HttpResponse(status=413)
        return self.get_response(request)

    def close(self) -> None:
        """End the threads, once they have answered what they are at."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)

    def _remember(self, key: bytes, tenant_id: int | None) -> None:
        """None: the key was not a good one, or nobody has asked."""
        if tenant_id is None:
            self._tenants.pop(key, None)
            return
        make_room(self._tenants, key, KEYS_MAX)
        self._tenants[key] = tenant_id

    def _load(self) -> None:
        """As ``BaseHandler.load_middleware``, of a shorter list."""
        views: list[Any] = []  # Any: as Django keeps them
        exceptions: list[Any] = []  # Any: as above
        get_response: Any = self._get_response  # type: ignore[attr-defined] # stubs lack it
        handler = convert_exception_to_response(get_response)
        for path in reversed(settings.MQ_API_MIDDLEWARE):
            middleware = import_string(path)(handler)
            if hasattr(middleware, "process_view"):
                views.insert(0, middleware.process_view)
            if hasattr(middleware, "process_exception"):
                exceptions.append(middleware.process_exception)
            handler = convert_exception_to_response(middleware)
        self._view_middleware, self._exception_middleware = views, exceptions
        self._template_response_middleware = list[Any]()
        self._middleware_chain = handler


def with_connection(work: Callable[[], T]) -> T:
    """What ``work`` returns; the thread's connection is used, and kept."""
    _drop_bad_connection()
    is_new = connection.connection is None
    try:
        return work()
    finally:
        if is_new and connection.connection is not None and _is_pooled():
            connection.close_at = time.monotonic() + CONNECTION_SECONDS_MAX
        _drop_bad_connection()


def _drop_bad_connection() -> None:
    """Let go of one that is broken or has served its time."""
    if connection.in_atomic_block:  # a test's transaction has to live on
        return
    kept = connection.connection
    if kept is not None and _has_ended(kept):
        kept.close()  # so that the pool does not give it to the next one
        connection.close()
    connection.close_if_unusable_or_obsolete()


def _has_ended(kept: psycopg.Connection[Any]) -> bool:
    """Whether the server has ended a connection that is at rest, as a restart of it does.

    Nobody is told unless one reads, and nothing comes unasked but the end of it. Some microseconds.
    """
    if kept.closed:
        return True
    word = select.poll()
    word.register(kept.fileno(), select.POLLIN)
    return bool(word.poll(0))


def _is_pooled() -> bool:
    """Elsewhere, as in tests, a connection is not kept beyond a request."""
    return "pool" in connection.settings_dict["OPTIONS"]


async def _read(receive: Receive) -> bytes | None:
    """The whole body, which ``BodyGuard`` bounds; None: the client is gone."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _send(response: HttpResponseBase, send: Send) -> None:
    """Views for programs answer with whole bodies and set no cookies."""
    assert isinstance(response, HttpResponse), "nothing of the API is streamed"
    headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})
