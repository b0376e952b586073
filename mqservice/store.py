"""The one interface to the storage engine for everything in ``mqservice`` that stores or reads.

    data plane, WebSocket ──▶ get_store() ──────▶ AsyncStoreClient ─┐
    views, tasks, CLI ──────▶ blocking_client() ▶ StoreClient ──────┴──▶ settings.MQ_ENGINE_SOCKET
      (one that stays connected on threads that stay: keep_client)

``get_store`` gives one client per process, on the running loop. Tests exchange it by ``use_store``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from django.conf import settings

from storage_engine.client import (
    ASSIGNMENT_NAMES_MAX,
    CAUSE_CHARS_MAX,
    DELAY_MS_MAX,
    PROPERTY_DEDUP,
    RETRY_DELAY_COUNT_MAX,
    SCHEDULE_TOPIC,
    SYSTEM_PROPERTIES,
    AckUpTo,
    AssignmentPolicy,
    AsyncStoreClient,
    BadFrame,
    BadRequest,
    BatchUnknown,
    ChangedOffset,
    ClientLimit,
    ClientStats,
    CommitRefused,
    CursorInvalid,
    DeadLetter,
    DeadLetterCount,
    DeadLettersRequest,
    DiskFull,
    Dispatch,
    Durability,
    ExponentialDelays,
    Extend,
    FilterInvalid,
    FilterKind,
    GroupClients,
    GroupClientsRequest,
    GroupConfig,
    GroupNotFound,
    GroupQueueStats,
    GroupRef,
    GroupStats,
    GroupStatsRequest,
    KeyReused,
    LagIs,
    LeaseExpired,
    LeaseRef,
    LeaveRequest,
    LevelDelays,
    ListDelays,
    LookUpHead,
    LookUpRequest,
    LostLease,
    Member,
    Nack,
    Notice,
    NoticeKind,
    ObserveReply,
    OffsetAtTimeReply,
    OffsetAtTimeRequest,
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetOutOfRange,
    OffsetResetReply,
    OffsetResetRequest,
    OffsetsChangedRequest,
    OutcomeUnknown,
    PendingReceive,
    PullHead,
    PullRequest,
    PullStatus,
    PurgeRequest,
    PutCall,
    PutOncePlace,
    PutResult,
    QueueNotFound,
    QueueReset,
    QueueStats,
    Received,
    ReceiveHead,
    ReceiveReplyHandler,
    ReceiveRequest,
    Record,
    RecordColumns,
    RecordRefused,
    RedriveOutcome,
    RedriveReply,
    RedriveRequest,
    ResetTo,
    RetryPolicy,
    ScheduledCancelRequest,
    ScheduledListHead,
    ScheduledListRequest,
    ScheduledMoveRequest,
    ScheduledOutcome,
    ScheduledReply,
    ScheduledSendRequest,
    SessionAbsentRequest,
    SessionLeases,
    SessionSaveRequest,
    SessionTakeReply,
    SessionTakeRequest,
    SettleFailure,
    SettleReply,
    SettleReplyHandler,
    SettleRequest,
    ShuttingDown,
    SnapshotRelease,
    SnapshotRequest,
    StartFrom,
    StatsReply,
    StoreBusy,
    StoreClient,
    StoreError,
    StoreMessage,
    StoreUnavailable,
    Strategy,
    SubscribeReply,
    SubscribeRequest,
    SubscriptionConflict,
    SyncFailed,
    TopicConfig,
    TopicLag,
    TopicMembers,
    TopicNotFound,
    TopicPurgeReply,
    TopicPurgeRequest,
    TopicRef,
    TopicStats,
    TracedGroup,
    TraceHop,
    TraceReply,
    TraceRequest,
    TraceState,
    UsageReply,
    UsageRequest,
    Wait,
    cause_of,
    client_id_fault,
    dedup_value,
    dlq_topic_of,
    encode_plain,
    encode_record,
    error_from_code,
    find_dead_letter,
    is_shown_as_it_is,
    known_filter,
    new_message_id,
    retry_topic_of,
    scheduled,
    shown_record,
)

__all__ = [
    "ASSIGNMENT_NAMES_MAX",
    "CAUSE_CHARS_MAX",
    "DELAY_MS_MAX",
    "PROPERTY_DEDUP",
    "RETRY_DELAY_COUNT_MAX",
    "SCHEDULE_TOPIC",
    "SYSTEM_PROPERTIES",
    "AckUpTo",
    "AssignmentPolicy",
    "AsyncStoreClient",
    "BadFrame",
    "BadRequest",
    "BatchUnknown",
    "ChangedOffset",
    "ClientLimit",
    "ClientStats",
    "CommitRefused",
    "CursorInvalid",
    "DeadLetter",
    "DeadLetterCount",
    "DeadLettersRequest",
    "DiskFull",
    "Dispatch",
    "Durability",
    "ExponentialDelays",
    "Extend",
    "FilterInvalid",
    "FilterKind",
    "GroupClients",
    "GroupClientsRequest",
    "GroupConfig",
    "GroupNotFound",
    "GroupQueueStats",
    "GroupRef",
    "GroupStats",
    "GroupStatsRequest",
    "KeyReused",
    "LagIs",
    "LeaseExpired",
    "LeaseRef",
    "LeaveRequest",
    "LevelDelays",
    "ListDelays",
    "LookUpHead",
    "LookUpRequest",
    "LostLease",
    "Member",
    "Nack",
    "Notice",
    "NoticeKind",
    "ObserveReply",
    "OffsetAtTimeReply",
    "OffsetAtTimeRequest",
    "OffsetCommitReply",
    "OffsetCommitRequest",
    "OffsetOutOfRange",
    "OffsetResetReply",
    "OffsetResetRequest",
    "OffsetsChangedRequest",
    "OutcomeUnknown",
    "PendingReceive",
    "PullHead",
    "PullRequest",
    "PullStatus",
    "PurgeRequest",
    "PutCall",
    "PutOncePlace",
    "PutResult",
    "QueueNotFound",
    "QueueReset",
    "QueueStats",
    "ReceiveHead",
    "ReceiveReplyHandler",
    "ReceiveRequest",
    "Received",
    "Record",
    "RecordColumns",
    "RecordRefused",
    "RedriveOutcome",
    "RedriveReply",
    "RedriveRequest",
    "ResetTo",
    "RetryPolicy",
    "ScheduledCancelRequest",
    "ScheduledListHead",
    "ScheduledListRequest",
    "ScheduledMoveRequest",
    "ScheduledOutcome",
    "ScheduledReply",
    "ScheduledSendRequest",
    "SessionAbsentRequest",
    "SessionLeases",
    "SessionSaveRequest",
    "SessionTakeReply",
    "SessionTakeRequest",
    "SettleFailure",
    "SettleReply",
    "SettleReplyHandler",
    "SettleRequest",
    "ShuttingDown",
    "SnapshotRelease",
    "SnapshotRequest",
    "StartFrom",
    "StatsReply",
    "Store",
    "StoreBusy",
    "StoreClient",
    "StoreError",
    "StoreMessage",
    "StoreUnavailable",
    "Strategy",
    "SubscribeReply",
    "SubscribeRequest",
    "SubscriptionConflict",
    "SyncFailed",
    "TopicConfig",
    "TopicLag",
    "TopicMembers",
    "TopicNotFound",
    "TopicPurgeReply",
    "TopicPurgeRequest",
    "TopicRef",
    "TopicStats",
    "TraceHop",
    "TraceReply",
    "TraceRequest",
    "TraceState",
    "TracedGroup",
    "UsageReply",
    "UsageRequest",
    "Wait",
    "blocking_client",
    "cause_of",
    "client_id_fault",
    "close_store",
    "dedup_value",
    "dlq_topic_of",
    "encode_plain",
    "encode_record",
    "error_from_code",
    "find_dead_letter",
    "get_store",
    "is_engine_silent",
    "is_shown_as_it_is",
    "keep_client",
    "known_filter",
    "new_message_id",
    "retry_topic_of",
    "scheduled",
    "shown_record",
    "use_store",
]  # fmt: skip


class Store(Protocol):
    """What the data plane and the sockets ask of the engine, of the client or of its double."""

    @property
    def is_connected(self) -> bool: ...

    def put(self, records: list[bytes]) -> asyncio.Future[list[PutResult]]: ...

    def put_for(self, call: PutCall, records: list[bytes]) -> None: ...

    async def put_once(self, records: list[bytes]) -> list[PutOncePlace]: ...

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
_double: Store | None = None


def get_store() -> Store:
    """This process's client. Starts to connect at the first call, which needs a running loop."""
    global _client
    if _double is not None:
        return _double
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


@contextlib.contextmanager
def use_store(double: Store) -> Iterator[None]:
    """Let ``get_store`` answer ``double`` for the length of the block."""
    global _double
    before, _double = _double, double
    try:
        yield
    finally:
        _double = before
