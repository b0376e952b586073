"""What the hot path knows without a query to PostgreSQL: keys, topics and groups, in one object.

    row changes ──trigger──▶ NOTIFY mq_invalidate ──▶ listen() ──▶ caches.drop(...)
    request ──▶ caches.keys / caches.routes ──hit──▶ one dict hit
                                            ──miss──▶ one query on Django's thread

While PostgreSQL is away entries stay usable for ``CacheLimits.stale_ms_max`` (five minutes) after
they were read; then the answer is 503. When the listener has lost its connection, it forgets
everything once it is back, because it cannot know what it missed; until then an entry lives at most
30 s. ``hear_own_changes`` waits until a process knows what it has changed itself.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

import psycopg
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import (
    DatabaseError,
    DataError,
    InterfaceError,
    close_old_connections,
    connection,
)

from mqservice.accounts.access import (
    AccessKeyCache,
    HolderCache,
    KeyCache,
    Principal,
    find_access_key,
    find_principal,
    metadata_unavailable,
)
from mqservice.accounts.models import Namespace
from mqservice.accounts.scopes import Kind, Scope
from mqservice.accounts.ticket_holders import find_holder, session_id_of
from mqservice.groups.routes import GroupRoute, find_group_route
from mqservice.lib.clock import Clock, SystemClock
from mqservice.lib.lookup_cache import CacheLimits, LookupCache, LookupUnavailable
from mqservice.lib.names import name_fault
from mqservice.lib.notifications import payloads
from mqservice.lib.problem import Problem
from mqservice.lib.tcp_timeouts import LIBPQ_OPTIONS
from mqservice.moving_waits import MovingWaits
from mqservice.quotas.limits import DEFAULTS, QuotaLimits
from mqservice.quotas.queries import limits_of
from mqservice.store import prepare_store, reconnect, reconnect_lost
from mqservice.topics.routes import (
    TopicRoute,
    TopicRoutes,
    TopicsAfter,
    find_topic_route,
    find_topic_routes,
)

log = logging.getLogger(__name__)

CHANNEL: Final = "mq_invalidate"
RECONNECT_MS_MIN: Final = 100
RECONNECT_MS_MAX: Final = 5_000
CONNECT_TIMEOUT_SECONDS: Final = 3
HEAR_MS_MAX: Final = 1_000
# Each has a connection and a task: a tenth of what the data plane may let wait, whose places these
# are not.
MOVING_CHANGES_MAX: Final = 1_000
_ALL: Final = ""  # the one key of what is looked up as a whole

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R", TopicRoute, GroupRoute)
RouteKey = tuple[int, str, str]
NamespaceKey = tuple[int, str]


class NamespaceRoute(NamedTuple):
    """A namespace and where it lives. ``is_moving``: to another shard, in a moment."""

    name: str
    shard: str
    is_moving: bool = False


class RouteCache:
    """Topics and groups by (tenant, namespace, name), and namespaces. ``ns`` may be ``-``, the
    key's own.

    Only names that can exist are looked up, so absences are remembered of short names only.
    """

    def __init__(
        self,
        find_topic: Callable[[RouteKey], Awaitable[TopicRoute | None]],
        find_group: Callable[[RouteKey], Awaitable[GroupRoute | None]],
        *,
        find_namespace: Callable[[NamespaceKey], Awaitable[NamespaceRoute | None]] | None = None,
        find_topics: Callable[[TopicsAfter], Awaitable[TopicRoutes | None]] | None = None,
        find_moving: Callable[[str], Awaitable[frozenset[NamespaceKey] | None]] | None = None,
        limits: CacheLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._namespaces: LookupCache[NamespaceKey, NamespaceRoute] = LookupCache(
            find_namespace or _query(_find_namespace),
            life_ms=_life_ms,
            # Nobody is told of a new one, so that none is remembered as absent.
            limits=replace(limits or CacheLimits(), absent_ms=0),
            clock=clock,
        )
        self._find_topics = find_topics or _query(find_topic_routes)
        self._topics: LookupCache[RouteKey, TopicRoute] = LookupCache(
            find_topic, life_ms=_life_ms, limits=limits, clock=clock
        )
        self._groups: LookupCache[RouteKey, GroupRoute] = LookupCache(
            find_group, life_ms=_life_ms, limits=limits, clock=clock
        )
        self._moving: LookupCache[str, frozenset[NamespaceKey]] = LookupCache(
            find_moving or _query(_find_moving),
            life_ms=lambda moving: 0 if moving else None,
            limits=limits,
            clock=clock,
        )
        self._waiting = MovingWaits(clock or SystemClock())
        self._waiting_changes = MovingWaits(clock or SystemClock(), MOVING_CHANGES_MAX)

    def topic(self, principal: Principal, ns: str, name: str) -> TopicRoute | None:
        """The topic if it is known and the principal's; None means: ask ``load_topic``."""
        namespace = principal.namespace_named(ns)
        if namespace is None:
            return None
        return self._topics.get((principal.tenant_id, namespace, name))

    async def load_topic(self, principal: Principal, ns: str, name: str) -> TopicRoute:
        """Raises Problem: 404 for absent and foreign alike, 503 when nobody can know."""
        namespace = principal.namespace_named(ns)
        route = None
        if namespace is not None and name_fault(namespace) is None and name_fault(name) is None:
            key = principal.tenant_id, namespace, name
            route = await self._waiting.settled(lambda: _load(self._topics, key))
        if route is None:
            raise Problem.of(
                "TOPIC_NOT_FOUND", f"{name} does not exist in {namespace or ns}", stored=False
            )
        return route

    async def load_topics(
        self, principal: Principal, ns: str, *, after: str, count_max: int
    ) -> TopicRoutes:
        """The topics that the principal may consume, by name, behind ``after``. Two queries; no
        cache knows which topics there are.

        Raises Problem: 503 when nobody can know.
        """
        asked = TopicsAfter(
            principal.tenant_id,
            principal.namespace_named(ns) or "",
            principal.patterns(Scope.CONSUME, Kind.TOPIC),
            after,
            count_max,
        )
        try:
            return await self._find_topics(asked) or TopicRoutes([], 0)
        except LookupUnavailable as exc:
            raise metadata_unavailable() from exc

    async def load_namespace(self, principal: Principal, ns: str) -> NamespaceRoute:
        """A namespace that is there. One query unless it is known; none for a key's own.

        Raises Problem: 404 for absent and foreign alike, 503 when nobody can know.
        """
        name = principal.namespace_named(ns)
        route = None
        if name is not None and name == principal.namespace:
            route = NamespaceRoute(name, principal.shard)
        elif name is not None and name_fault(name) is None:
            key = principal.tenant_id, name
            route = await self._waiting.settled(lambda: _load(self._namespaces, key))
        if route is None:
            raise Problem.of("NAMESPACE_NOT_FOUND", f"{ns} does not exist")
        await prepare_store(route.shard)
        return route

    async def moving_namespaces(self) -> frozenset[NamespaceKey]:
        """Those that are just going to another shard, as far as anybody knows. A query now and then
        while there are none.
        """
        try:
            return await self._moving.load(_ALL) or frozenset()
        except LookupUnavailable:
            return frozenset()

    async def settle_namespace(self, key: NamespaceKey) -> None:
        """Returns once nothing of it moves any more.

        Raises Problem: 503, after 5 s, or at once when too many wait or nobody can know.
        """
        await self._waiting_changes.settled(lambda: _load(self._namespaces, key))

    @property
    def waiting_changes_count(self) -> int:
        """Who waits in ``settle_namespace``."""
        return self._waiting_changes.count

    def group(self, principal: Principal, ns: str, name: str) -> GroupRoute | None:
        """The group if it is known and the principal's; None means: ask ``load_group``."""
        namespace = principal.namespace_named(ns)
        if namespace is None:
            return None
        return self._groups.get((principal.tenant_id, namespace, name))

    async def load_group(self, principal: Principal, ns: str, name: str) -> GroupRoute:
        """Raises Problem: 404 for absent and foreign alike, 503 when nobody can know."""
        namespace = principal.namespace_named(ns)
        route = None
        if namespace is not None and name_fault(namespace) is None and name_fault(name) is None:
            key = principal.tenant_id, namespace, name
            route = await self._waiting.settled(lambda: _load(self._groups, key))
        if route is None:
            raise Problem.of("GROUP_NOT_FOUND", f"{name} does not exist in {namespace or ns}")
        return route

    def drop_topic(self, key: RouteKey) -> None:
        self._topics.drop(key)

    def drop_group(self, key: RouteKey) -> None:
        self._groups.drop(key)

    def clear(self) -> None:
        self._namespaces.clear()
        self._topics.clear()
        self._groups.clear()
        self._moving.clear()
        self._waiting.look_again()
        self._waiting_changes.look_again()


class QuotaCache:
    """Limits by tenant; their defaults while nobody knows better."""

    def __init__(
        self,
        find: Callable[[int], Awaitable[QuotaLimits | None]],
        *,
        limits: CacheLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._cache: LookupCache[int, QuotaLimits] = LookupCache(find, limits=limits, clock=clock)
        self._last: dict[int, QuotaLimits] = {}
        self._last_max = (limits or CacheLimits()).entries_max

    async def load(self, tenant_id: int) -> QuotaLimits:
        """What holds for a tenant. Does not wait for a database that is known to be away."""
        limits = self._cache.get(tenant_id)
        if limits is not None:
            return limits
        try:
            limits = await self._cache.load(tenant_id)
        except LookupUnavailable:
            limits = None
        if limits is None:  # as good as anything: what held last, or holds for most
            return self._last.get(tenant_id, DEFAULTS)
        if len(self._last) >= self._last_max:
            self._last.clear()
        self._last[tenant_id] = limits
        return limits

    def drop(self, tenant_id: int) -> None:
        self._cache.drop(tenant_id)

    def clear(self) -> None:
        self._cache.clear()


class Caches:
    """All caches of a process. Used on one event loop."""

    def __init__(
        self,
        keys: KeyCache | None = None,
        routes: RouteCache | None = None,
        quotas: QuotaCache | None = None,
        holders: KeyCache | None = None,
    ) -> None:
        self.keys = keys or KeyCache(_query(find_principal))
        self.access_keys: KeyCache = AccessKeyCache(_query(find_access_key))
        self.holders = holders or HolderCache(_query(find_holder))
        self.routes = routes or RouteCache(
            _reachable(_query(lambda key: find_topic_route(*key))),
            _reachable(_query(lambda key: find_group_route(*key))),
        )
        self.quotas = quotas or QuotaCache(_query(limits_of))
        self.is_listening = False
        self._awaited: dict[str, asyncio.Future[None]] = {}

    async def hear_own_changes(self) -> None:
        """Returns once everything that was committed until now is applied here, so that a client
        may use at once what it was told that it has made. Other processes may take longer.

        Nothing is waited for while nobody listens, and never for more than a second.
        """
        if not self.is_listening:
            return
        mark = secrets.token_hex(8)
        heard = self._awaited[mark] = asyncio.get_running_loop().create_future()
        try:
            await _query(_announce)(mark)
            async with asyncio.timeout(HEAR_MS_MAX / 1_000):
                await heard
        except (TimeoutError, LookupUnavailable) as exc:
            log.warning(
                "A change is not known to this process yet",
                extra={"action": "change_not_heard", "error": str(exc)},
            )
        finally:
            del self._awaited[mark]

    def clear(self) -> None:
        """Forget everything."""
        self.keys.clear()
        self.access_keys.clear()
        self.holders.clear()
        self.routes.clear()
        self.quotas.clear()

    def drop(self, payload: str) -> None:
        """Forget what a notification names; everything when it is of no known form."""
        match payload.split(" "):
            case ["key", public_id]:
                self.keys.drop_key(public_id)
                self.access_keys.drop_key(public_id)
                self.holders.drop_key(public_id)
            case ["session", digest]:
                self.holders.drop_key(session_id_of(digest))
            case ["people"]:
                self.holders.clear()
            case ["topic", tenant_id, namespace, name] if tenant_id.isdecimal():
                self.routes.drop_topic((int(tenant_id), namespace, name))
            case ["group", tenant_id, namespace, name] if tenant_id.isdecimal():
                self.routes.drop_group((int(tenant_id), namespace, name))
            case ["quota", tenant_id] if tenant_id.isdecimal():
                self.quotas.drop(int(tenant_id))
            case ["quota", "-"]:
                self.quotas.clear()
            case ["shard", name]:
                reconnect(name)
            case ["heard", mark]:
                heard = self._awaited.get(mark)
                if heard is not None and not heard.done():
                    heard.set_result(None)
            case _:
                self.clear()


async def listen(
    caches: Caches, *, dsn: str | None = None, ready: asyncio.Event | None = None
) -> None:
    """Apply notifications until cancelled. Holds one connection and reconnects by itself.

    Args:
        dsn: where to listen; the service's own database by default.
        ready: set each time listening has begun, for those who must not miss a change.
    """
    delay_ms = RECONNECT_MS_MIN
    while True:
        try:
            connection = await psycopg.AsyncConnection.connect(
                dsn or settings.MQ_DATABASE_URL,
                autocommit=True,
                connect_timeout=CONNECT_TIMEOUT_SECONDS,
                application_name="mqservice listen",
                **LIBPQ_OPTIONS,
            )
            async with connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                caches.clear()
                reconnect_lost()
                caches.is_listening = True
                delay_ms = RECONNECT_MS_MIN
                log.info("Listening for configuration changes", extra={"action": "listen_started"})
                if ready is not None:
                    ready.set()
                async for payload in payloads(connection):
                    caches.drop(payload)
        except psycopg.Error as exc:
            log.warning(
                "Lost the database connection that announces configuration changes; reconnecting",
                extra={"action": "listen_lost", "retry_ms": delay_ms, "error": str(exc)},
            )
        finally:
            caches.is_listening = False
        await asyncio.sleep(delay_ms / 1000)
        delay_ms = min(delay_ms * 2, RECONNECT_MS_MAX)


def _announce(mark: str) -> None:
    """Notifications come in the order of their commits, this one after all that it waits for."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, f"heard {mark}"])


def _life_ms(route: TopicRoute | GroupRoute | NamespaceRoute) -> int | None:
    """Where a namespace is just going is asked anew each time."""
    return 0 if route.is_moving else None


def _find_namespace(key: NamespaceKey) -> NamespaceRoute | None:
    tenant_id, name = key
    found = Namespace.objects.filter(tenant_id=tenant_id, name=name)
    row = found.values_list("shard", "moving_to").first()
    return None if row is None else NamespaceRoute(name, row[0], row[1] != "")


def _find_moving(_: str) -> frozenset[NamespaceKey]:
    moving = Namespace.objects.exclude(moving_to="")
    return frozenset(moving.values_list("tenant_id", "name"))


def _reachable(
    find: Callable[[RouteKey], Awaitable[R | None]],
) -> Callable[[RouteKey], Awaitable[R | None]]:
    """``find``, and a connection to the shard of what it finds."""

    async def run(key: RouteKey) -> R | None:
        route = await find(key)
        if route is not None:
            await prepare_store(route.shard)
        return route

    return run


async def _load(cache: LookupCache[K, V], key: K) -> V | None:
    try:
        return await cache.load(key)
    except LookupUnavailable as exc:
        raise metadata_unavailable() from exc


def _query(find: Callable[[K], V | None]) -> Callable[[K], Awaitable[V | None]]:
    """``find``, a query, as an awaitable on Django's database thread."""

    def run(key: K) -> V | None:
        try:
            return find(key)
        except DataError:
            return None  # a text that PostgreSQL does not take, as one with a NUL, is in no row
        except (DatabaseError, InterfaceError) as exc:
            raise LookupUnavailable(str(exc)) from exc
        finally:
            if not connection.in_atomic_block:  # a test's transaction has to live on
                close_old_connections()

    return sync_to_async(run)


caches = Caches()
