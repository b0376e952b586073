"""The one interface to the storage engine for everything in ``mqservice`` that stores or reads.

    data plane, WebSocket ──▶ get_store() ──────▶ AsyncStoreClient ─┐
    views, tasks, CLI ──────▶ blocking_client() ▶ StoreClient ──────┴──▶ settings.MQ_ENGINE_SOCKET
      (one that stays connected on threads that stay: keep_client)

``get_store`` gives one client per process, on the running loop. All that ``storage_engine.client``
exports is imported from here.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Protocol

from django.conf import settings

from storage_engine.client import *  # noqa: F403  # the door shows all that the engine's shows
from storage_engine.client import (
    AsyncStoreClient,
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
    SubscribeReply,
    SubscribeRequest,
    TopicRef,
    TopicStats,
    UsageReply,
    UsageRequest,
)


class Store(Protocol):
    """What the data plane and the sockets ask of the engine, of the client or of its double."""

    @property
    def is_connected(self) -> bool: ...

    def put_for(self, call: PutCall, records: list[bytes]) -> None: ...

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


_client: AsyncStoreClient | None = None


def get_store() -> Store:
    """This process's client. Starts to connect at the first call, which needs a running loop."""
    global _client
    if _client is None:
        _client = AsyncStoreClient(
            settings.MQ_ENGINE_SOCKET, client_name=f"mqservice-web/{os.getpid()}"
        )
        _client.start()
    return _client


def is_engine_silent() -> bool:
    """Whether this process's asynchronous client knows that the engine does not answer though it
    is there; False where there is no such client. Any thread may ask.
    """
    return _client is not None and _client.is_silent


async def close_store() -> None:
    """End this process's clients; what is in flight fails with ``OutcomeUnknown``."""
    global _client
    while _kept:
        await asyncio.to_thread(_kept.pop().close)  # it may be connecting, to one that hangs
    client, _client = _client, None
    if client is not None:
        await client.aclose()


class _KeptClient(StoreClient):
    """Stays connected beyond a ``with``, for the next one of its thread."""

    def __exit__(self, *of_error: object) -> None:
        pass


class _OfThread(threading.local):
    client: _KeptClient | None = None


_of_thread = _OfThread()
_kept: list[_KeptClient] = []


def keep_client() -> None:
    """Let this thread, which stays, have one client until ``close_store``."""
    if _of_thread.client is not None:
        return
    _of_thread.client = _KeptClient(
        settings.MQ_ENGINE_SOCKET, client_name=_client_name(), is_engine_silent=is_engine_silent
    )
    _kept.append(_of_thread.client)


def blocking_client() -> StoreClient:
    """A client for code that runs outside the event loop. The caller closes it, by ``with``."""
    kept = _of_thread.client
    if kept is not None:
        return kept
    return StoreClient(
        settings.MQ_ENGINE_SOCKET, client_name=_client_name(), is_engine_silent=is_engine_silent
    )


def _client_name() -> str:
    return f"mqservice-{settings.MQ_PROCESS}/{os.getpid()}"
