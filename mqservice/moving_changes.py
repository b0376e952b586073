"""Changes through the control plane wait here while their namespace goes to another shard.

    asgi, sqs ── a change of /v1/ns/NAME/…, /console/NAME/… ──▶ [Move] ──▶ a thread, its view
                                                                  └── 5 s at most, on the loop

A view would be refused by the engine, with a thread, a connection to PostgreSQL and a lock on the
namespace. So whoever changes something waits before it has any of them, and before its body is
read. What becomes of the wait decides nothing: the view runs afterwards in any case, finds the
shard that the namespace has then, and where that still holds it the engine refuses the change, as
it refuses the few that were on their way when the hold began. Nobody waits for the namespace of
another tenant.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.db import DatabaseError, InterfaceError, close_old_connections, connection
from django.http import parse_cookie

from mqservice.accounts.access import Principal
from mqservice.accounts.models import Member
from mqservice.caches import Caches, NamespaceKey, RouteCache
from mqservice.delivery.http import Scope
from mqservice.lib.problem import Problem
from mqservice.lib.sessions import SessionStore

MOVE: Final = "mq.move"  # in an ASGI scope: the ``Move`` that its change may have to wait for
CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Move:
    """That of one request's namespace. Used on one event loop."""

    def __init__(
        self, routes: RouteCache, find: Callable[[], Awaitable[NamespaceKey | None]]
    ) -> None:
        """``find``: the namespace, if it is the caller's; asked only while some are moving."""
        self._routes = routes
        self._find = find
        self._is_found = False
        self._key: NamespaceKey | None = None
        self._has_ended = False  # waited for long enough

    async def is_under_way(self) -> bool:
        """Whether to ``wait``. Costs a dict hit while nothing moves."""
        if self._has_ended:
            return False
        moving = await self._routes.moving_namespaces()
        if not moving:
            return False
        if not self._is_found:
            self._key, self._is_found = await self._find(), True
        return self._key in moving

    async def wait(self) -> None:
        """Until the namespace is where it goes, or nobody should wait any longer."""
        if not await self.is_under_way():
            return
        assert self._key is not None, "it is among those that move"
        try:
            await self._routes.settle_namespace(self._key)
        except Problem:
            self._has_ended = True


def move_of_key(routes: RouteCache, principal: Principal, ns: str) -> Move:
    """``ns``: as paths name it."""

    async def find() -> NamespaceKey | None:
        return _key(principal, ns)

    return Move(routes, find)


def move_of_request(caches: Caches, scope: Scope, headers: dict[bytes, bytes]) -> Move | None:
    """None where the request changes nothing of a namespace."""
    if scope["method"] not in CHANGING:
        return None
    match scope["path"].split("/"):
        case ["", "v1", "ns", ns, _, *_] if b"authorization" in headers:
            return Move(caches.routes, lambda: _find_by_key(caches, headers[b"authorization"], ns))
        case ["", "console", ns, _, *_] if b"cookie" in headers:
            return Move(caches.routes, lambda: _find_by_session(headers[b"cookie"], ns))
    return None


async def _find_by_key(caches: Caches, authorization: bytes, ns: str) -> NamespaceKey | None:
    try:
        return _key(await caches.keys.load(authorization), ns)
    except Problem:
        return None  # the view says the same, or that nobody can know


def _key(principal: Principal, ns: str) -> NamespaceKey | None:
    name = principal.namespace_named(ns)
    return None if name is None else (principal.tenant_id, name)


async def _find_by_session(cookies: bytes, ns: str) -> NamespaceKey | None:
    """As the view reads them: other cookies of the site may be of any form."""
    session_key = parse_cookie(cookies.decode("latin-1")).get(settings.SESSION_COOKIE_NAME)
    return None if session_key is None else await sync_to_async(_find_of_member)(session_key, ns)


def _find_of_member(session_key: str, ns: str) -> NamespaceKey | None:
    """Whether the session is a good one is for the view to say. Two queries."""
    try:
        user_id = SessionStore(session_key).get(SESSION_KEY)
        of_user = Member.objects.filter(user=user_id, tenant__namespaces__name=ns)
        tenant_id = of_user.values_list("tenant", flat=True).first()
    except (DatabaseError, InterfaceError):
        return None
    finally:
        if not connection.in_atomic_block:  # a test's transaction has to live on
            close_old_connections()
    return None if tenant_id is None else (tenant_id, ns)
