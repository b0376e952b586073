"""What a failure of the engine means to a client of the API: one table for REST, sockets and pages.

    StoreError ──▶ problem_from_store ──▶ Problem ──▶ problem+json or err frame

``stored`` is copied from the error: False is a promise that the message will never be delivered,
None means that nobody knows, and the client should offer it again.
"""

from __future__ import annotations

from typing import Final

from mqservice.lib.problem import Problem
from mqservice.lib.replicated_log import REPLICATED_LOG_VARIABLE
from mqservice.lib.wire import refused
from mqservice.store import (
    BadRequest,
    BatchUnknown,
    ClientLimit,
    CommitRefused,
    CursorInvalid,
    DiskFull,
    FilterInvalid,
    GroupNotFound,
    KeyReused,
    LeaseExpired,
    NamespaceMoved,
    NoReplicatedLog,
    NotLeader,
    OffsetOutOfRange,
    OldMessagesUnavailable,
    OutcomeUnknown,
    QueueNotFound,
    RecordRefused,
    ReplicationUnavailable,
    ShuttingDown,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    SubscriptionConflict,
    SyncFailed,
    TopicNotFound,
)

# error -> (code, what the client reads, pause before the next attempt in ms)
_TABLE: Final[dict[type[StoreError], tuple[str, str, int | None]]] = {
    StoreUnavailable: ("ENGINE_UNAVAILABLE", "the storage engine is not responding", 1_000),
    ReplicationUnavailable: (
        "REPLICATION_UNAVAILABLE",
        "the replicated log is not responding; topics that are not replicated are served",
        1_000,
    ),
    NoReplicatedLog: (
        "REPLICATION_UNAVAILABLE",
        "the topic is replicated, but the storage engine runs without a replicated log; an "
        f"operator has to start it with {REPLICATED_LOG_VARIABLE}, or to set the topic's "
        "durability to sync",
        30_000,
    ),
    NotLeader: ("OUTCOME_UNKNOWN", "another engine has taken over; it may be stored", 1_000),
    NamespaceMoved: (
        "ENGINE_UNAVAILABLE",
        "the namespace is being moved to another shard",
        1_000,
    ),
    ShuttingDown: ("ENGINE_UNAVAILABLE", "the storage engine is stopping", 1_000),
    OutcomeUnknown: (
        "OUTCOME_UNKNOWN",
        (
            "the connection to the storage engine broke before it replied; the request "
            "may have been carried out"
        ),
        1_000,
    ),
    SyncFailed: (
        "OUTCOME_UNKNOWN",
        "the disk refused to make the message durable; it may be stored",
        5_000,
    ),
    StoreBusy: ("STORAGE_BUSY", "too many bytes are waiting for the disk", 1_000),
    OldMessagesUnavailable: (
        "STORAGE_BUSY",
        "messages this old are only in the bucket with the shard's snapshots, which cannot be read "
        "at the moment",
        5_000,
    ),
    DiskFull: ("STORAGE_FULL", "the storage engine's disk is full", 30_000),
    # The cached route said otherwise, so the topic or group has just been deleted.
    TopicNotFound: ("TOPIC_NOT_FOUND", "the topic no longer exists", None),
    GroupNotFound: ("GROUP_NOT_FOUND", "the group no longer exists", None),
    KeyReused: (
        "IDEMPOTENCY_KEY_REUSED",
        "a message with other content was already sent with this key; use a new key",
        None,
    ),
    LeaseExpired: (
        "LEASE_EXPIRED",
        "the lease has expired, and the message was settled or leased again",
        None,
    ),
    BatchUnknown: (
        "LEASE_EXPIRED",
        ("the batch of this message is no longer known; ack each message by its own receipt"),
        None,
    ),
}
# These say what was wrong with the request, in words meant for the caller.
_SPOKEN: Final[dict[type[StoreError], str]] = {
    BadRequest: "BAD_REQUEST",
    ClientLimit: "QUOTA_EXCEEDED",
    CommitRefused: "CONFLICT",
    CursorInvalid: "CURSOR_INVALID",
    FilterInvalid: "ILLEGAL_FILTER",
    SubscriptionConflict: "SUBSCRIPTION_CONFLICT",
    QueueNotFound: "QUEUE_NOT_FOUND",
    OffsetOutOfRange: "BAD_REQUEST",
    RecordRefused: "BAD_REQUEST",
}


def problem_from_refused_row(exc: StoreError) -> Problem:
    """As ``problem_from_store``, for a topic or group that the engine refused: where a setting is
    the reason, the problem points at it.
    """
    if isinstance(exc, NoReplicatedLog):
        return refused(
            "/durability",
            "replicated needs a replicated log, which the storage engine of this namespace does "
            f"not have; choose sync, or have an operator set {REPLICATED_LOG_VARIABLE}",
            "ILLEGAL_SETTING",
        )
    return problem_from_store(exc)


def problem_from_store(exc: StoreError) -> Problem:
    """The refusal a client sees. Texts that could tell of paths are not passed on."""
    kind = type(exc)
    if kind in _TABLE:
        code, detail, retry_after_ms = _TABLE[kind]
        return Problem.of(
            code, detail, retryable=exc.retriable, retry_after_ms=retry_after_ms, stored=exc.stored
        )
    if kind in _SPOKEN:
        return Problem.of(
            _SPOKEN[kind],
            str(exc),
            retry_after_ms=exc.retry_after_ms or None,
            stored=exc.stored,
        )
    return Problem.of("INTERNAL", "the storage engine failed", stored=exc.stored)
