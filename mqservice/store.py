"""The one interface to the storage engine for everything in ``mqservice`` that stores or reads.

    data plane, WebSocket ──▶ get_stores()[shard] ───▶ AsyncStoreClient ─┐    main: MQ_ENGINE_SOCKET
    views, tasks, CLI ──────▶ blocking_client(shard) ▶ StoreClient ──────┴──▶ others: their rows,
                                                                    and main with a replicated log
      (one that stays connected on threads that stay: keep_clients)

A namespace lives in one shard, whose name its row and the cached routes of its topics and groups
carry; nothing else knows that there may be several. ``get_stores`` gives one client per process and
shard, on the running loop. All that ``storage_engine.client`` exports is imported from here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from mqservice.lib.names import MAIN_SHARD
from storage_engine.client import *  # noqa: F403  # the door shows all that the engine's shows
from storage_engine.client import (
    AsyncStoreClient,
    Credentials,
    KeyTopicsReply,
    KeyTopicsRequest,
    LeaveRequest,
    LookUpHead,
    LookUpRequest,
    Notice,
    OffsetAtTimeReply,
    OffsetAtTimeRequest,
    PendingReceive,
    PullHead,
    PullRequest,
    PutCall,
    PutOncePlace,
    Received,
    ReceiveReplyHandler,
    ReceiveRequest,
    Record,
    ScheduledCancelRequest,
    ScheduledListHead,
    ScheduledListRequest,
    ScheduledMoveRequest,
    ScheduledReply,
    ScheduledSendRequest,
    SessionAbsentRequest,
    SessionSaveRequest,
    SessionTakeReply,
    SessionTakeRequest,
    SettleReply,
    SettleReplyHandler,
    SettleRequest,
    StoreClient,
    StoreError,
    StoreUnavailable,
    SubscribeReply,
    SubscribeRequest,
    TopicRef,
    TopicStats,
    UsageReply,
    UsageRequest,
)

_FIRST_CONNECTION_MS_MAX: Final = 1_000

ClientT = TypeVar("ClientT", bound=StoreClient)


class Store(Protocol):
    """What the data plane and the sockets ask of the engine, of the client or of its double."""

    @property
    def is_connected(self) -> bool: ...

    def put_for(
        self, call: PutCall, records: list[bytes], *, is_replicated: bool = False
    ) -> None: ...

    async def put_once(self, records: list[bytes], window_ms: int) -> list[PutOncePlace]: ...

    async def receive(self, request: ReceiveRequest, /) -> Received: ...

    def receive_for(self, told: ReceiveReplyHandler, request: ReceiveRequest) -> PendingReceive: ...

    async def subscribe(self, request: SubscribeRequest, /) -> SubscribeReply: ...

    async def leave(self, request: LeaveRequest, /) -> object: ...

    async def settle(self, request: SettleRequest, /) -> SettleReply: ...

    def settle_for(self, told: SettleReplyHandler, request: SettleRequest) -> None: ...

    async def pull(self, request: PullRequest, /) -> tuple[PullHead, list[Record]]: ...

    async def topic_stats(self, request: TopicRef, /) -> TopicStats: ...

    async def look_up(self, request: LookUpRequest, /) -> tuple[LookUpHead, list[Record]]: ...

    async def key_topics(self, request: KeyTopicsRequest, /) -> KeyTopicsReply: ...

    async def offset_at_time(self, request: OffsetAtTimeRequest, /) -> OffsetAtTimeReply: ...

    async def scheduled_list(
        self, request: ScheduledListRequest, /
    ) -> tuple[ScheduledListHead, list[Record]]: ...

    async def scheduled_cancel(self, request: ScheduledCancelRequest, /) -> ScheduledReply: ...

    async def scheduled_move(self, request: ScheduledMoveRequest, /) -> ScheduledReply: ...

    async def scheduled_send_now(self, request: ScheduledSendRequest, /) -> ScheduledReply: ...

    async def wait_connected(self, timeout_ms: int) -> None: ...

    def listen(self, heard: Callable[[Notice], None]) -> None: ...

    async def session_keep(self, request: SessionSaveRequest, /) -> object: ...

    async def session_take(self, request: SessionTakeRequest, /) -> SessionTakeReply: ...

    async def session_absent(self, request: SessionAbsentRequest, /) -> object: ...

    async def use(self, request: UsageRequest, /) -> UsageReply: ...


class _Clients(dict[str, AsyncStoreClient]):
    """By shard. One is made, and begins to connect, when it is first asked for."""

    def __missing__(self, shard: str) -> AsyncStoreClient:
        client = self[shard] = AsyncStoreClient(
            partial(_locate, shard) if _may_move(shard) else settings.MQ_ENGINE_SOCKET,
            client_name=f"mqservice-web/{os.getpid()}",
            shard=shard,
            credentials=_credentials(),
        )
        client.start()
        return client


_clients = _Clients()
_first_waits: dict[str, asyncio.Task[None]] = {}


def get_stores() -> Mapping[str, Store]:
    """This process's clients by shard, which needs a running loop. That of the main shard connects
    from now on, the others once they are asked for.
    """
    _ = _clients[MAIN_SHARD]
    return _clients


async def prepare_store(shard: str) -> None:
    """Connect to a shard that this process has not talked to, so that the first request finds it
    connected. Whether it does or not: nobody waits after the first second.
    """
    if shard == MAIN_SHARD:
        return
    first = _first_waits.get(shard)
    if first is None:
        first = _first_waits[shard] = asyncio.ensure_future(_first_connection(shard))
    if not first.done():
        await asyncio.shield(first)


async def _first_connection(shard: str) -> None:
    with contextlib.suppress(StoreError):
        await _clients[shard].wait_connected(_FIRST_CONNECTION_MS_MAX)


def reconnect(shard: str) -> None:
    """It answers elsewhere from now on, as far as anybody knows. On the loop of the clients."""
    client = _clients.get(shard)
    if client is not None and _may_move(shard):
        client.reconnect()


def reconnect_lost() -> None:
    """The same of all that are not connected: what was said of them may have been missed."""
    for shard, client in _clients.items():
        if not client.is_connected:
            reconnect(shard)


def is_engine_silent(shard: str = MAIN_SHARD) -> bool:
    """Whether this process's asynchronous client knows that the engine does not answer though it
    is there; False where there is no such client. Any thread may ask.
    """
    client = _clients.get(shard)
    return client is not None and client.is_silent


async def close_store() -> None:
    """End this process's clients; what is in flight fails with ``OutcomeUnknown``."""
    while _kept:
        await asyncio.to_thread(_kept.pop().close)  # it may be connecting, to one that hangs
    for first in _first_waits.values():
        first.cancel()
    _first_waits.clear()
    while _clients:
        _, client = _clients.popitem()
        await client.aclose()


class _KeptClient(StoreClient):
    """Stays connected beyond a ``with``, for the next one of its thread."""

    def __exit__(self, *of_error: object) -> None:
        pass


class _OfThread(threading.local):
    clients: dict[str, _KeptClient] | None = None  # by shard


_of_thread = _OfThread()
_kept: list[_KeptClient] = []


def keep_clients() -> None:
    """Let this thread, which stays, have one client of each shard until ``close_store``."""
    if _of_thread.clients is None:
        _of_thread.clients = {}


def blocking_client(shard: str) -> StoreClient:
    """A client for code that runs outside the event loop. The caller closes it, by ``with``.

    A query at each connection, unless it is the main shard.
    """
    kept = _of_thread.clients
    if kept is None:
        return _blocking_client(StoreClient, shard)
    if shard not in kept:
        kept[shard] = _blocking_client(_KeptClient, shard)
        _kept.append(kept[shard])
    return kept[shard]


def _blocking_client(kind: type[ClientT], shard: str) -> ClientT:
    return kind(
        partial(_find_address, shard) if _may_move(shard) else settings.MQ_ENGINE_SOCKET,
        client_name=f"mqservice-{settings.MQ_PROCESS}/{os.getpid()}",
        shard=shard,
        credentials=_credentials(),
        is_engine_silent=partial(is_engine_silent, shard),
    )


def _credentials() -> Credentials:
    return Credentials(settings.MQ_ENGINE_SECRET, settings.MQ_SHARD_CA_FILE)


def _may_move(shard: str) -> bool:
    """Whether PostgreSQL knows where it is. The main one of an installation without a replicated
    log is where this process's settings say.
    """
    return shard != MAIN_SHARD or bool(settings.MQ_REPLICATED_LOG)


_addresses: dict[str, str] = {}  # as last read, for while PostgreSQL is away


def _find_address(shard: str) -> str:
    """One query. Raises ``StoreUnavailable`` when nobody knows."""
    # Models can be imported only after Django has started, and this module is before.
    from mqservice.shards.queries import find_address

    try:
        address = find_address(shard)
    except (DatabaseError, InterfaceError) as exc:
        if shard == MAIN_SHARD:
            _addresses.setdefault(shard, settings.MQ_ENGINE_SOCKET)
        if shard not in _addresses:
            raise StoreUnavailable(f"nobody knows where the shard {shard} is: {exc}") from exc
        return _addresses[shard]
    if shard == MAIN_SHARD and not address.startswith(("tcp://", "tls://")):
        address = settings.MQ_ENGINE_SOCKET
    if not address:
        raise StoreUnavailable(f"no engine has said yet where the shard {shard} is")
    _addresses[shard] = address
    return address


async def _locate(shard: str) -> str:
    def find() -> str:
        try:
            return _find_address(shard)
        finally:
            if not connection.in_atomic_block:  # a test's transaction has to live on
                close_old_connections()

    return await sync_to_async(find)()
