"""The door of the engine: all that another package may import from it.

Two clients over the same frames, the structs they speak, and the errors they raise.
"""

from __future__ import annotations

from storage_engine.errors import (
    BadFrame,
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
from storage_engine.groups.assignment_policy import NAMES_MAX as ASSIGNMENT_NAMES_MAX
from storage_engine.groups.assignment_policy import AssignmentPolicy
from storage_engine.groups.clients import client_id_fault
from storage_engine.groups.retry_policy import LIST_COUNT_MAX as RETRY_DELAY_COUNT_MAX
from storage_engine.groups.retry_policy import (
    ExponentialDelays,
    LevelDelays,
    ListDelays,
    RetryPolicy,
)
from storage_engine.groups.retry_record import DeadLetter, find_dead_letter, shown_record
from storage_engine.records.dedup_mark import PROPERTY_DEDUP, dedup_value
from storage_engine.records.delay_levels import DELAY_MS_MAX
from storage_engine.records.message_id import new_message_id
from storage_engine.records.record import Record, StoreMessage, encode_record
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.records.scheduled_message import Wait, scheduled
from storage_engine.system_properties import SYSTEM_PROPERTIES
from storage_engine.topic_names import dlq_topic_of, retry_topic_of
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
    AckUpTo,
    Extend,
    LeaseRef,
    LeaveRequest,
    Nack,
    ReceiveHead,
    ReceiveRequest,
    SettleFailure,
    SettleReply,
    SettleRequest,
    SubscribeReply,
    SubscribeRequest,
)
from storage_engine.wire.groups import (
    ClientStats,
    Dispatch,
    GroupClients,
    GroupClientsRequest,
    GroupConfig,
    GroupList,
    GroupQueueStats,
    GroupRef,
    GroupStats,
    GroupStatsRequest,
    StartFrom,
)
from storage_engine.wire.members import GroupMembers, Member, TopicMembers
from storage_engine.wire.notices import Notice, NoticeKind
from storage_engine.wire.observing import (
    ChangedOffset,
    ObserveReply,
    OffsetsChangedReply,
    OffsetsChangedRequest,
)
from storage_engine.wire.offsets import (
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetResetReply,
    OffsetResetRequest,
    QueueReset,
    ResetTo,
)
from storage_engine.wire.once import PutOncePlace
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
from storage_engine.wire.scheduled import (
    ScheduledCancelRequest,
    ScheduledListHead,
    ScheduledListRequest,
    ScheduledOutcome,
    ScheduledReply,
    ScheduledSendRequest,
)
from storage_engine.wire.sessions import (
    GoneLease,
    HeldLeases,
    SessionAbsentRequest,
    SessionKeepRequest,
    SessionTakeReply,
    SessionTakeRequest,
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
from storage_engine.wire.traces import (
    TracedGroup,
    TraceHop,
    TraceReply,
    TraceRequest,
    TraceState,
)
from storage_engine.wire.uses import NamespaceUse, UseReply, UseRequest

__all__ = [
    "ASSIGNMENT_NAMES_MAX",
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
    "CheckpointReply",
    "ClientConfig",
    "ClientLimit",
    "ClientStats",
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
    "GoneLease",
    "GroupClients",
    "GroupClientsRequest",
    "GroupConfig",
    "GroupList",
    "GroupMembers",
    "GroupNotFound",
    "GroupQueueStats",
    "GroupRef",
    "GroupStats",
    "GroupStatsRequest",
    "HeldLeases",
    "KeyReused",
    "LeaseExpired",
    "LeaseRef",
    "LeaveRequest",
    "LevelDelays",
    "ListDelays",
    "LookUpHead",
    "LookUpRequest",
    "Member",
    "Nack",
    "NamespaceUse",
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
    "OffsetsChangedReply",
    "OffsetsChangedRequest",
    "OutcomeUnknown",
    "PullHead",
    "PullRequest",
    "PullStatus",
    "PurgeReply",
    "PurgeRequest",
    "PutOncePlace",
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
    "ScheduledCancelRequest",
    "ScheduledListHead",
    "ScheduledListRequest",
    "ScheduledOutcome",
    "ScheduledReply",
    "ScheduledSendRequest",
    "SessionAbsentRequest",
    "SessionKeepRequest",
    "SessionTakeReply",
    "SessionTakeRequest",
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
    "SubscribeReply",
    "SubscribeRequest",
    "SubscriptionConflict",
    "SyncFailed",
    "TopicConfig",
    "TopicList",
    "TopicMembers",
    "TopicNotFound",
    "TopicRef",
    "TopicStats",
    "TraceHop",
    "TraceReply",
    "TraceRequest",
    "TraceState",
    "TracedGroup",
    "UseReply",
    "UseRequest",
    "Wait",
    "client_id_fault",
    "dedup_value",
    "dlq_topic_of",
    "encode_record",
    "error_from_code",
    "find_dead_letter",
    "known_filter",
    "new_message_id",
    "retry_topic_of",
    "scheduled",
    "shown_record",
]
