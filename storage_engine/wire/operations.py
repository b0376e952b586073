"""The operations of the engine: one row of ``Op`` each, from which server and clients are made.

    Op ──▶ [Method, PlainMethod] ──▶ AsyncStoreClient, StoreClient: ``client.topic_stats(request)``
    Op ──▶ server.call_table ─────▶ the one handler of each, checked for completeness at the start

To add one: its structs, its row, its method in ``client_calls`` and its handler in the server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, Self, TypeVar

import msgspec

from storage_engine.errors import (
    BadFrame,
    BadRequest,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
)
from storage_engine.records.record import LENGTH_4, Record
from storage_engine.records.record_run import decode_records
from storage_engine.wire.dead_letters import (
    DeadLettersReply,
    DeadLettersRequest,
    PurgeReply,
    PurgeRequest,
    RedriveReply,
    RedriveRequest,
)
from storage_engine.wire.deliveries import (
    LeaveRequest,
    ReceiveHead,
    ReceiveRequest,
    SettleReply,
    SettleRequest,
    SubscribeReply,
    SubscribeRequest,
)
from storage_engine.wire.groups import (
    GroupClients,
    GroupClientsRequest,
    GroupConfig,
    GroupList,
    GroupRef,
    GroupStats,
    GroupStatsRequest,
)
from storage_engine.wire.members import GroupMembers
from storage_engine.wire.namespaces import (
    NamespaceDropReply,
    NamespaceDropRequest,
    NamespaceHoldRequest,
    NamespaceHoldsReply,
    NamespaceReleaseRequest,
    StoreAdoptRequest,
    StoreDiscardRequest,
)
from storage_engine.wire.notices import Notice
from storage_engine.wire.observers import (
    ObserveReply,
    OffsetsChangedReply,
    OffsetsChangedRequest,
)
from storage_engine.wire.offsets import (
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetResetReply,
    OffsetResetRequest,
)
from storage_engine.wire.protocol import (
    CancelRequest,
    ChallengeReply,
    ChallengeRequest,
    CheckpointReply,
    Empty,
    HelloReply,
    HelloRequest,
    StatsReply,
)
from storage_engine.wire.put_once import PutOnceReply, PutOnceRequest
from storage_engine.wire.reads import (
    KeyTopicsReply,
    KeyTopicsRequest,
    LookUpHead,
    LookUpRequest,
    OffsetAtTimeReply,
    OffsetAtTimeRequest,
    PullHead,
    PullRequest,
)
from storage_engine.wire.scheduled import (
    DeliverDueRequest,
    ScheduledCancelRequest,
    ScheduledListHead,
    ScheduledListRequest,
    ScheduledMoveRequest,
    ScheduledReply,
    ScheduledSendRequest,
)
from storage_engine.wire.sessions import (
    SessionAbsentRequest,
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
from storage_engine.wire.struct import Wire
from storage_engine.wire.topics import (
    TopicConfig,
    TopicList,
    TopicPurgeReply,
    TopicPurgeRequest,
    TopicRef,
    TopicStats,
)
from storage_engine.wire.traces import TraceReply, TraceRequest
from storage_engine.wire.usage import UsageReply, UsageRequest

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")
HeadT = TypeVar("HeadT", bound=Wire)
_UNREADABLE: Final = (msgspec.DecodeError, msgspec.ValidationError)


def _at_once(_: Any) -> int:  # Any: a request of any operation
    return 0


class Operation(int, Generic[RequestT, ReplyT]):
    """What a frame asks for: its number on the wire, with all that is known of it.

    ``is_harmless``: it changes nothing, so that one without a reply may simply be made again.
    ``wait_ms`` of a request: how long the engine may take on purpose. ``is_from_engine``: there is
    no request of it.
    """

    name: str
    is_harmless: bool
    is_from_engine: bool
    wait_ms: Callable[[RequestT], int]
    _requests: msgspec.msgpack.Decoder[RequestT]
    _replies: msgspec.msgpack.Decoder[Any]  # Any: ReplyT, or of replies with records their head

    def __new__(
        cls,
        number: int,
        request: type[RequestT],
        reply: type[ReplyT],
        *,
        is_harmless: bool = False,
        is_from_engine: bool = False,
        wait_ms: Callable[[RequestT], int] = _at_once,
    ) -> Self:
        self = super().__new__(cls, number)
        self.is_harmless = is_harmless
        self.is_from_engine = is_from_engine
        self.wait_ms = wait_ms
        self._requests = msgspec.msgpack.Decoder(request)
        self._replies = msgspec.msgpack.Decoder(reply)
        return self

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def decode_request(self, payload: bytes) -> RequestT:
        """The request of a frame.

        Raises:
            BadRequest: it is not one; the message names the field.
        """
        try:
            return self._requests.decode(payload)
        except _UNREADABLE as exc:
            raise BadRequest(f"{self.name}: {exc}") from exc

    def decode_reply(self, payload: bytes) -> ReplyT:
        """The reply of a frame.

        Raises:
            BadFrame: it is not one.
        """
        try:
            reply: ReplyT = self._replies.decode(payload)
        except _UNREADABLE as exc:
            raise BadFrame(f"{self.name} reply: {exc}") from exc
        return reply

    def no_reply(self, reason: str) -> StoreError:
        """What a request that was sent ends with when no reply has come."""
        return StoreUnavailable(reason) if self.is_harmless else OutcomeUnknown(reason)


AnyOperation = Operation[Any, Any]  # Any: whatever it asks and answers


class RecordsOperation(Operation[RequestT, tuple[HeadT, list[Record]]], Generic[RequestT, HeadT]):
    """One whose reply is a head and records."""

    def __new__(
        cls, number: int, request: type[RequestT], head: type[HeadT], *, is_harmless: bool
    ) -> Self:
        self = super().__new__(cls, number, request, tuple, is_harmless=is_harmless)
        self._replies = msgspec.msgpack.Decoder(head)
        return self

    def decode_head(self, payload: bytes) -> tuple[HeadT, int]:
        """(head, position of the first record in ``payload``)."""
        at = 4 + LENGTH_4.unpack_from(payload)[0]
        head: HeadT = self._replies.decode(memoryview(payload)[4:at])
        return head, at

    def decode_reply(self, payload: bytes) -> tuple[HeadT, list[Record]]:
        """The head and the records of a frame."""
        head, at = self.decode_head(payload)
        return head, decode_records(payload, at)


class Op:
    """All operations. Numbers are part of the format and are never reused.

    The payloads of PUT are no structs; what a RECEIVE leased is given back when its reply comes
    and nobody waits for it, so it is harmless, too.
    """

    HELLO = Operation(1, HelloRequest, HelloReply, is_harmless=True)
    PING = Operation(2, Empty, Empty, is_harmless=True)
    CANCEL = Operation(3, CancelRequest, Empty, is_harmless=True)
    CHALLENGE = Operation(4, ChallengeRequest, ChallengeReply, is_harmless=True)
    PUT = Operation(16, bytes, bytes)
    PULL = RecordsOperation(17, PullRequest, PullHead, is_harmless=True)
    RECEIVE = RecordsOperation(18, ReceiveRequest, ReceiveHead, is_harmless=True)
    SETTLE = Operation(19, SettleRequest, SettleReply)
    LOOK_UP = RecordsOperation(20, LookUpRequest, LookUpHead, is_harmless=True)
    OFFSET_AT_TIME = Operation(21, OffsetAtTimeRequest, OffsetAtTimeReply, is_harmless=True)
    OFFSET_COMMIT = Operation(22, OffsetCommitRequest, OffsetCommitReply)
    OFFSET_RESET = Operation(23, OffsetResetRequest, OffsetResetReply)
    LEAVE = Operation(24, LeaveRequest, Empty)
    SUBSCRIBE = Operation(25, SubscribeRequest, SubscribeReply)
    GROUP_CLIENTS = Operation(26, GroupClientsRequest, GroupClients, is_harmless=True)
    NOTICE = Operation(28, Empty, Notice, is_from_engine=True)  # with request_id 0
    SESSION_KEEP = Operation(29, SessionSaveRequest, Empty)
    SESSION_TAKE = Operation(
        30, SessionTakeRequest, SessionTakeReply, wait_ms=lambda request: request.wait_ms
    )
    SESSION_ABSENT = Operation(31, SessionAbsentRequest, Empty)
    TOPIC_PUT = Operation(32, TopicConfig, Empty)
    TOPIC_LIST = Operation(33, Empty, TopicList, is_harmless=True)
    TOPIC_STATS = Operation(34, TopicRef, TopicStats, is_harmless=True)
    TOPIC_DELETE = Operation(35, TopicRef, Empty)
    TOPIC_PURGE = Operation(36, TopicPurgeRequest, TopicPurgeReply)
    GROUP_PUT = Operation(40, GroupConfig, Empty)
    GROUP_LIST = Operation(41, Empty, GroupList, is_harmless=True)
    GROUP_STATS = Operation[GroupRef, GroupStats](
        42, GroupStatsRequest, GroupStats, is_harmless=True
    )
    GROUP_DELETE = Operation(43, GroupRef, Empty)
    GROUP_MEMBERS = Operation(45, GroupRef, GroupMembers, is_harmless=True)
    TRACE = Operation(46, TraceRequest, TraceReply, is_harmless=True)
    OFFSETS_CHANGED = Operation(44, OffsetsChangedRequest, OffsetsChangedReply, is_harmless=True)
    OBSERVE = Operation(47, Empty, ObserveReply, is_harmless=True)
    CHECKPOINT = Operation(48, Empty, CheckpointReply)
    STATS = Operation(49, Empty, StatsReply, is_harmless=True)
    SNAPSHOT = Operation(50, SnapshotRequest, SnapshotReply)
    SNAPSHOT_RELEASE = Operation(51, SnapshotRelease, SnapshotReleaseReply)
    PUT_ONCE = Operation(52, PutOnceRequest, PutOnceReply)
    USE = Operation(53, UsageRequest, UsageReply, is_harmless=True)
    KEY_TOPICS = Operation(54, KeyTopicsRequest, KeyTopicsReply, is_harmless=True)
    REDRIVE = Operation(56, RedriveRequest, RedriveReply)
    PURGE = Operation(57, PurgeRequest, PurgeReply)
    DEAD_LETTERS = Operation(58, DeadLettersRequest, DeadLettersReply, is_harmless=True)
    DELIVER_DUE = Operation(60, DeliverDueRequest, Empty)
    SCHEDULED_LIST = RecordsOperation(61, ScheduledListRequest, ScheduledListHead, is_harmless=True)
    SCHEDULED_CANCEL = Operation(62, ScheduledCancelRequest, ScheduledReply)
    SCHEDULED_SEND_NOW = Operation(63, ScheduledSendRequest, ScheduledReply)
    SCHEDULED_MOVE = Operation(64, ScheduledMoveRequest, ScheduledReply)
    NAMESPACE_HOLD = Operation(70, NamespaceHoldRequest, Empty)
    NAMESPACE_RELEASE = Operation(71, NamespaceReleaseRequest, Empty)
    NAMESPACE_DROP = Operation(72, NamespaceDropRequest, NamespaceDropReply)
    NAMESPACE_HOLDS = Operation(73, Empty, NamespaceHoldsReply, is_harmless=True)
    STORE_ADOPT = Operation(74, StoreAdoptRequest, Empty)
    STORE_DISCARD = Operation(75, StoreDiscardRequest, Empty)


OPERATIONS: Final[dict[int, AnyOperation]] = {
    int(each): each for each in vars(Op).values() if isinstance(each, Operation)
}
