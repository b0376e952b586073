"""The door of the engine: all that another package may import from it.

Two clients over the same frames, the structs they speak, and the errors they raise.
"""

from __future__ import annotations

from storage_engine.errors import (
    BadFrame,
    BadRequest,
    CommitRefused,
    CursorInvalid,
    DiskFull,
    FilterInvalid,
    GroupNotFound,
    LeaseExpired,
    OffsetOutOfRange,
    OutcomeUnknown,
    QueueNotFound,
    RecordRefused,
    ShuttingDown,
    StoreBusy,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
    SubscriptionConflict,
    SyncFailed,
    TopicNotFound,
    error_from_code,
)
from storage_engine.filters.message_filter import Filter, FilterKind, known_filter
from storage_engine.groups.assignment import Strategy
from storage_engine.groups.retry_policy import LIST_COUNT_MAX as RETRY_DELAY_COUNT_MAX
from storage_engine.groups.retry_policy import (
    ExponentialDelays,
    LevelDelays,
    ListDelays,
    RetryPolicy,
)
from storage_engine.groups.retry_record import DeadLetter, find_dead_letter, shown_record
from storage_engine.records.delay_levels import DELAY_MS_MAX
from storage_engine.records.message_id import new_message_id
from storage_engine.records.record import Record, StoreMessage, encode_record
from storage_engine.system_properties import SYSTEM_PROPERTIES
from storage_engine.topic_names import dlq_topic_of
from storage_engine.wire.async_client import AsyncStoreClient
from storage_engine.wire.client_types import ClientConfig, PutResult, Received
from storage_engine.wire.dead_letters import (
    PurgeReply,
    PurgeRequest,
    RedriveOutcome,
    RedriveReply,
    RedriveRequest,
)
from storage_engine.wire.deliveries import (
    Extend,
    LeaseRef,
    LeaveRequest,
    Nack,
    ReceiveHead,
    ReceiveRequest,
    SettleFailure,
    SettleReply,
    SettleRequest,
    SubscribeRequest,
)
from storage_engine.wire.groups import (
    Dispatch,
    GroupConfig,
    GroupList,
    GroupQueueStats,
    GroupRef,
    GroupStats,
    StartFrom,
)
from storage_engine.wire.offsets import (
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetResetReply,
    OffsetResetRequest,
    QueueReset,
    ResetTo,
)
from storage_engine.wire.protocol import CheckpointReply, StatsReply
from storage_engine.wire.reads import (
    LookUpHead,
    LookUpRequest,
    OffsetAtTimeReply,
    OffsetAtTimeRequest,
    PullHead,
    PullRequest,
    PullStatus,
)
from storage_engine.wire.snapshots import (
    SnapshotRelease,
    SnapshotReleaseReply,
    SnapshotReply,
    SnapshotRequest,
)
from storage_engine.wire.sync_client import StoreClient
from storage_engine.wire.topics import (
    Durability,
    QueueStats,
    TopicConfig,
    TopicList,
    TopicRef,
    TopicStats,
)

__all__ = [
    "DELAY_MS_MAX",
    "RETRY_DELAY_COUNT_MAX",
    "SYSTEM_PROPERTIES",
    "AsyncStoreClient",
    "BadFrame",
    "BadRequest",
    "CheckpointReply",
    "ClientConfig",
    "CommitRefused",
    "CursorInvalid",
    "DeadLetter",
    "DiskFull",
    "Dispatch",
    "Durability",
    "ExponentialDelays",
    "Extend",
    "Filter",
    "FilterInvalid",
    "FilterKind",
    "GroupConfig",
    "GroupList",
    "GroupNotFound",
    "GroupQueueStats",
    "GroupRef",
    "GroupStats",
    "LeaseExpired",
    "LeaseRef",
    "LeaveRequest",
    "LevelDelays",
    "ListDelays",
    "LookUpHead",
    "LookUpRequest",
    "Nack",
    "OffsetAtTimeReply",
    "OffsetAtTimeRequest",
    "OffsetCommitReply",
    "OffsetCommitRequest",
    "OffsetOutOfRange",
    "OffsetResetReply",
    "OffsetResetRequest",
    "OutcomeUnknown",
    "PullHead",
    "PullRequest",
    "PullStatus",
    "PurgeReply",
    "PurgeRequest",
    "PutResult",
    "QueueNotFound",
    "QueueReset",
    "QueueStats",
    "ReceiveHead",
    "ReceiveRequest",
    "Received",
    "Record",
    "RecordRefused",
    "RedriveOutcome",
    "RedriveReply",
    "RedriveRequest",
    "ResetTo",
    "RetryPolicy",
    "SettleFailure",
    "SettleReply",
    "SettleRequest",
    "ShuttingDown",
    "SnapshotRelease",
    "SnapshotReleaseReply",
    "SnapshotReply",
    "SnapshotRequest",
    "StartFrom",
    "StatsReply",
    "StoreBusy",
    "StoreClient",
    "StoreError",
    "StoreMessage",
    "StoreReadOnly",
    "StoreUnavailable",
    "Strategy",
    "SubscribeRequest",
    "SubscriptionConflict",
    "SyncFailed",
    "TopicConfig",
    "TopicList",
    "TopicNotFound",
    "TopicRef",
    "TopicStats",
    "dlq_topic_of",
    "encode_record",
    "error_from_code",
    "find_dead_letter",
    "known_filter",
    "new_message_id",
    "shown_record",
]
