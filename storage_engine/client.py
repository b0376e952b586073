"""The engine's public interface: everything that another package may import from it.

Two clients over the same frames, the structs they speak, and the errors they raise. The imports
are the list: pyproject.toml lets the linter and mypy take each for an export.
"""

from __future__ import annotations

from storage_engine.delivery.clients import client_id_fault
from storage_engine.errors import (
    BadFrame,
    BadRequest,
    BatchUnknown,
    ClientLimit,
    CommitRefused,
    ConfigInvalid,
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
    StoreReadOnly,
    StoreUnavailable,
    SubscriptionConflict,
    SyncFailed,
    TopicNotFound,
    error_from_code,
)
from storage_engine.filters.message_filter import Filter, FilterKind, known_filter
from storage_engine.records.causes import CAUSE_CHARS_MAX, cause_of
from storage_engine.records.dedup_mark import PROPERTY_DEDUP, dedup_value
from storage_engine.records.delay_levels import DELAY_MS_MAX
from storage_engine.records.message_id import new_message_id
from storage_engine.records.record import (
    Record,
    StoreMessage,
    encode_plain,
    encode_properties,
    encode_record,
)
from storage_engine.records.record_columns import RecordColumns
from storage_engine.records.retry_record import (
    DeadLetter,
    find_dead_letter,
    is_shown_as_it_is,
    shown_record,
)
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.records.scheduled_message import Wait, scheduled
from storage_engine.records.system_properties import SYSTEM_PROPERTIES
from storage_engine.records.topic_names import (
    DLQ_PREFIX,
    LETTERS_GROUP,
    dlq_topic_of,
    retry_topic_of,
)
from storage_engine.settings.assignment import Strategy
from storage_engine.settings.assignment_policy import NAMES_MAX as ASSIGNMENT_NAMES_MAX
from storage_engine.settings.assignment_policy import AssignmentPolicy
from storage_engine.settings.retry_policy import LIST_COUNT_MAX as RETRY_DELAY_COUNT_MAX
from storage_engine.settings.retry_policy import (
    ExponentialDelays,
    LevelDelays,
    ListDelays,
    RetryPolicy,
)
from storage_engine.wire.address import SECRET_CHARS_MIN, Address, Credentials
from storage_engine.wire.async_client import AsyncStoreClient
from storage_engine.wire.client_types import ClientConfig, PutResult, Received
from storage_engine.wire.dead_letters import (
    DeadLetterCount,
    DeadLettersReply,
    DeadLettersRequest,
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
    LagIs,
    StartFrom,
    TopicLag,
)
from storage_engine.wire.members import GroupMembers, Member, TopicMembers
from storage_engine.wire.namespaces import (
    NamespaceDropReply,
    NamespaceDropRequest,
    NamespaceHoldRequest,
    NamespaceHoldsReply,
    NamespaceReleaseRequest,
    StoreAdoptRequest,
    StoreDiscardRequest,
)
from storage_engine.wire.notices import Notice, NoticeKind
from storage_engine.wire.observers import (
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
from storage_engine.wire.protocol import CheckpointReply, StatsReply
from storage_engine.wire.put_lane import PutCall
from storage_engine.wire.put_once import PutOncePlace
from storage_engine.wire.reads import (
    KeyTopicsReply,
    KeyTopicsRequest,
    LookUpHead,
    LookUpRequest,
    OffsetAtTimeReply,
    OffsetAtTimeRequest,
    PullHead,
    PullRequest,
    PullStatus,
)
from storage_engine.wire.reply_handlers import (
    PendingReceive,
    ReceiveReplyHandler,
    SettleReplyHandler,
)
from storage_engine.wire.scheduled import (
    ScheduledCancelRequest,
    ScheduledListHead,
    ScheduledListRequest,
    ScheduledMoveRequest,
    ScheduledOutcome,
    ScheduledReply,
    ScheduledSendRequest,
)
from storage_engine.wire.sessions import (
    LostLease,
    SessionAbsentRequest,
    SessionLeases,
    SessionSaveRequest,
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
    QueuePurge,
    QueueStats,
    TopicConfig,
    TopicList,
    TopicPurgeReply,
    TopicPurgeRequest,
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
from storage_engine.wire.usage import NamespaceUsage, UsageReply, UsageRequest
