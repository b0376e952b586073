"""A real server for tests: uvicorn on a thread, real sockets, keys and routes without PostgreSQL.

with serving(store) as server: ──▶ server.url, server.ws_url, server.topic(...), server.key(...)
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from fnmatch import fnmatchcase
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar

import httpx
import uvicorn.server

from mqservice.accounts.access import KeyCache, Principal
from mqservice.accounts.scopes import Grant, Scope
from mqservice.asgi import Application
from mqservice.caches import Caches, NamespaceKey, NamespaceRoute, RouteCache, RouteKey
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.drain import Drain
from mqservice.delivery.origins import Origins
from mqservice.delivery.queues import QueueChooser
from mqservice.delivery.sessions import Sessions, SessionTimes, SocketLimits
from mqservice.delivery.spans import DeliverySpans
from mqservice.delivery.tokens.cursors import Cursors
from mqservice.delivery.tokens.recall_handles import RecallHandles
from mqservice.delivery.tokens.receipts import Receipts
from mqservice.delivery.tokens.resume_tokens import ResumeTokens
from mqservice.groups.routes import GroupRoute
from mqservice.lib.api_keys import generate_api_key
from mqservice.lib.clock import Clock, SystemClock
from mqservice.lib.lookup_cache import CacheLimits
from mqservice.lib.names import MAIN_SHARD, engine_name
from mqservice.lib.signing import Signer
from mqservice.quotas.limits import DEFAULTS, QuotaLimits
from mqservice.quotas.meters import Meters
from mqservice.store import AsyncStoreClient, Store
from mqservice.topics.routes import TopicRoute, TopicRoutes, TopicsAfter
from mqservice.web.__main__ import WebServer, bind_socket, server_config
from mqservice.web.loop_turns import turns_of
from mqservice.web.socket_budget import BudgetLimits

T = TypeVar("T")
START_SECONDS_MAX = 60.0
HOUR_MS = 3_600_000
# uvicorn looks ten times a second whether it is to end, and waits as long again when it ends: too
# long for the servers that a single test has.
vars(uvicorn.server)["asyncio"] = SimpleNamespace(
    **(vars(asyncio) | {"sleep": lambda delay_s: asyncio.sleep(delay_s / 10)})
)
# No session ends because the machine that runs the tests stands still.
PATIENT = SessionTimes(ping_ms=HOUR_MS, pong_ms=HOUR_MS, hello_ms=HOUR_MS, stall_ms=HOUR_MS)
ALL_SCOPES = frozenset(Scope)


class Server:
    """One running server and what it knows of keys, topics and groups."""

    def __init__(
        self,
        store: Store,
        times: SessionTimes,
        limits: SocketLimits | None,
        origins: Origins | None = None,
        quotas: QuotaLimits = DEFAULTS,
        clock: Clock | None = None,
        fresh_ms: int = 100,
        socket_limits: BudgetLimits | None = None,
        spans: DeliverySpans | None = None,
    ) -> None:
        self.store = store
        self.keys: dict[bytes, Principal] = {}
        self.topics: dict[RouteKey, TopicRoute] = {}
        self.groups: dict[RouteKey, GroupRoute] = {}
        self.moving: set[NamespaceKey] = set()
        fresh = CacheLimits(fresh_ms=fresh_ms, absent_ms=1)
        caches = Caches(
            KeyCache(self._find_key, limits=fresh),
            RouteCache(
                self._find_topic,
                self._find_group,
                find_namespace=self._find_namespace,
                find_topics=self._find_topics,
                find_moving=self._find_moving,
                limits=fresh,
            ),
        )

        async def limits_of(tenant_id: int) -> QuotaLimits:
            return quotas

        clock = clock or SystemClock()
        self.context = DeliveryContext(
            stores={MAIN_SHARD: store},
            caches=caches,
            receipts=Receipts(Signer("a secret of at least 32 characters", "receipt")),
            cursors=Cursors(Signer("a secret of at least 32 characters", "cursor")),
            recall_handles=RecallHandles(
                Signer("a secret of at least 32 characters", "recall handle")
            ),
            queues=QueueChooser(Random(7)),
            clock=clock,
            drain=Drain(),
            resume_tokens=ResumeTokens(Signer("a secret of at least 32 characters", "resume")),
            times=times,
            sessions=Sessions(limits),
            origins=origins or Origins(),
            meters=Meters(limits_of, clock),
            spans=spans,
        )
        self.application = Application(lambda: self.context)
        self._listener = bind_socket("127.0.0.1", 0, is_shared=False)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.ws_url = f"ws://127.0.0.1:{self.port}/v1/ws"
        config = server_config(self.application, socket_limits)
        self._server = WebServer(config, self.application)
        self._thread = threading.Thread(target=self._run, name="test-server")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_ready = threading.Event()

    def key(
        self,
        *,
        tenant_id: int = 1,
        namespace: str | None = "acme",
        scopes: frozenset[Scope] = ALL_SCOPES,
        grants: tuple[Grant, ...] = (),
    ) -> str:
        """A new key's Authorization header."""
        header = f"Bearer {generate_api_key()}"
        self.keys[header.encode()] = Principal(
            key_id=f"k{len(self.keys)}",
            tenant_id=tenant_id,
            tenant=f"tenant{tenant_id}",
            namespace_id=None,
            namespace=namespace,
            scopes=scopes,
            grants=grants,
        )
        return header

    def topic(
        self,
        name: str,
        *,
        tenant_id: int = 1,
        namespace: str = "acme",
        queue_count: int = 4,
        body_bytes_max: int = 64 * 1024,
        durability: str = "sync",
        message_type: str = "mixed",
    ) -> TopicRoute:
        route = TopicRoute(
            namespace=namespace,
            name=name,
            shard=MAIN_SHARD,
            engine_name=engine_name(namespace=namespace, name=name),
            queue_count=queue_count,
            body_bytes_max=body_bytes_max,
            durability=durability,
            message_type=message_type,
        )
        self.topics[tenant_id, namespace, name] = route
        return route

    def group(
        self,
        name: str,
        *,
        tenant_id: int = 1,
        namespace: str = "acme",
        lease_ms: int = 60_000,
        is_exclusive: bool = False,
        is_broadcast: bool = False,
        consume_timeout_ms: int = 10_800_000,
    ) -> GroupRoute:
        route = GroupRoute(
            namespace=namespace,
            name=name,
            shard=MAIN_SHARD,
            engine_name=engine_name(namespace=namespace, name=name),
            lease_ms=lease_ms,
            max_reconsume_times=16,
            consume_timeout_ms=consume_timeout_ms,
            is_exclusive=is_exclusive,
            is_broadcast=is_broadcast,
        )
        self.groups[tenant_id, namespace, name] = route
        return route

    def client(self, key: str | None = None, **options: Any) -> httpx.Client:
        """A client with a key, by default a new one for namespace acme. It reads no certificates,
        which takes httpx 30 ms. Any: as httpx takes them.
        """
        return httpx.Client(
            base_url=self.url,
            headers={"authorization": key or self.key()},
            timeout=60,
            verify=False,
            **options,
        )

    def call(self, work: Callable[[], T]) -> T:
        """``work`` on the server's loop, where the store and the sessions live."""
        assert self._loop is not None

        async def run() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(START_SECONDS_MAX)

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The outcome of a coroutine that runs on the server's loop."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(START_SECONDS_MAX)

    def request_count(self) -> int:
        """Requests that have a task."""
        return self.call(lambda: len(self._server.server_state.tasks))

    def turn_number(self) -> int:
        """Of the loop's turns in which a socket did something."""
        assert self._loop is not None
        turns = turns_of(self._loop)
        return self.call(turns.number)

    def connection_count(self) -> int:
        return self.call(lambda: len(self._server.server_state.connections))

    def stop_store(self, store: AsyncStoreClient) -> None:
        """Close a real client while the server goes on, as if the engine had gone."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(store.aclose(), self._loop).result(START_SECONDS_MAX)

    def start(self) -> None:
        self._thread.start()
        assert self._is_ready.wait(START_SECONDS_MAX), "the server did not start"

    def ask_to_stop(self) -> None:
        """As SIGTERM does."""
        self._server.should_exit = True

    def stop(self) -> None:
        self.ask_to_stop()
        self._thread.join(START_SECONDS_MAX)
        assert not self._thread.is_alive(), "the server did not stop"
        self._listener.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._announce)
        await self._server.serve(sockets=[self._listener])
        if isinstance(self.store, AsyncStoreClient):
            await self.store.aclose()

    def _announce(self) -> None:
        if self._server.started:
            self._is_ready.set()
        else:
            assert self._loop is not None
            self._loop.call_later(0.005, self._announce)

    async def _find_key(self, authorization: bytes) -> Principal | None:
        return self.keys.get(authorization)

    async def _find_namespace(self, key: NamespaceKey) -> NamespaceRoute | None:
        return NamespaceRoute(key[1], MAIN_SHARD, is_moving=key in self.moving)

    async def _find_moving(self, _: str) -> frozenset[NamespaceKey]:
        return frozenset(self.moving)

    async def _find_topic(self, key: RouteKey) -> TopicRoute | None:
        return self.topics.get(key)

    async def _find_topics(self, asked: TopicsAfter) -> TopicRoutes:
        place = asked.tenant_id, asked.namespace
        names = sorted(
            name
            for *where, name in self.topics
            if (*where,) == place
            and name > asked.after
            and any(fnmatchcase(name, pattern) for pattern in asked.patterns)
        )
        found = [self.topics[*place, name] for name in names[: asked.count_max]]
        return TopicRoutes(found, len(names) - len(found))

    async def _find_group(self, key: RouteKey) -> GroupRoute | None:
        return self.groups.get(key)


@contextlib.contextmanager
def serving(
    store: Store,
    times: SessionTimes | None = None,
    limits: SocketLimits | None = None,
    origins: Origins | None = None,
    *,
    quotas: QuotaLimits = DEFAULTS,
    clock: Clock | None = None,
    fresh_ms: int = 100,
    socket_limits: BudgetLimits | None = None,
    spans: DeliverySpans | None = None,
) -> Iterator[Server]:
    """A server around ``store`` for the length of the block. ``fresh_ms``: how long it believes
    what it has read of keys, topics and groups.
    """
    server = Server(
        store, times or PATIENT, limits, origins, quotas, clock, fresh_ms, socket_limits, spans
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()


Json = dict[str, Any]  # Any: answers are looked into by tests, field by field
