"""Frames of the engine's socket: what travels between ``client`` and ``server``; pure, versioned.

    client ── request frame ──▶ [protocol] ──▶ server        many in flight, matched by request_id
    client ◀── reply frame ──── [protocol] ◀── server        in any order

    offset  width  field         meaning
         0      4  frame_bytes   length of all that follows this field: 12 + payload
         4      1  version       PROTOCOL_VERSION; anything else ends the connection
         5      1  opcode        one of ``Op``; a reply repeats the request's
         6      2  status        0 in a request and in a good reply, else ``StoreError.code``
         8      4  request_id    chosen by the client, unique among its requests in flight
        12      4  payload_crc   CRC-32 of the payload
        16      n  payload       by opcode, below

PUT request     records, back to back, as in ``record.py``; the engine fills in queue offset,
                physical offset, store time, store host and ``__CRC32#``.
PUT reply       ``store_timestamp_ms`` i64, then for each record ``queue_offset`` i64 and
                ``physical_offset`` i64. A refused record has queue_offset = -StoreError.code; the
                others of the frame are stored. Behind all of them, for each record whose delay was
                counted from here: its place in the frame i64, from 0, and when it is due i64.
RECEIVE reply   u32 length, MessagePack ``ReceiveHead``, then the records back to back.
PULL reply      u32 length, MessagePack ``PullHead``, then the records back to back.
LOOK_UP reply   u32 length, MessagePack ``LookUpHead``, then the records back to back.
NOTICE          from the engine, unasked, to clients that listen; there is no request of it.
PING            reply with request_id 0: unasked, to a connection that is not read from because too
                much waits for the disk. It shows that the engine is alive.
SCHEDULED_LIST  reply: u32 length, MessagePack ``ScheduledListHead``, then the records.
all others      one MessagePack struct each way, as listed in ``REQUEST_TYPES`` and ``REPLY_TYPES``.
error reply     MessagePack ``ErrorReply``.

A frame is read only after its length has been checked against the limit. All integers are
big-endian.
"""

from __future__ import annotations

import enum
import struct
from typing import Final

import msgspec

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
from storage_engine.wire.put_once import PutOnceReply, PutOnceRequest
from storage_engine.wire.reads import (
    LookUpRequest,
    OffsetAtTimeReply,
    OffsetAtTimeRequest,
    PullRequest,
)
from storage_engine.wire.scheduled import (
    DeliverDueRequest,
    ScheduledCancelRequest,
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

PROTOCOL_VERSION: Final = 1
FRAME_HEAD = struct.Struct(">IBBHII")
FRAME_HEAD_BYTES: Final = FRAME_HEAD.size
LENGTH_BYTES: Final = 4
assert FRAME_HEAD_BYTES == 16


class Op(enum.IntEnum):
    """What a frame asks for. Numbers are part of the format and are never reused."""

    HELLO = 1
    PING = 2
    CANCEL = 3
    PUT = 16
    PULL = 17
    RECEIVE = 18
    SETTLE = 19
    LOOK_UP = 20
    OFFSET_AT_TIME = 21
    OFFSET_COMMIT = 22
    OFFSET_RESET = 23
    LEAVE = 24
    SUBSCRIBE = 25
    GROUP_CLIENTS = 26
    NOTICE = 28  # from the engine only, with request_id 0
    SESSION_KEEP = 29
    SESSION_TAKE = 30
    SESSION_ABSENT = 31
    TOPIC_PUT = 32
    TOPIC_LIST = 33
    TOPIC_STATS = 34
    TOPIC_DELETE = 35
    TOPIC_PURGE = 36
    GROUP_PUT = 40
    GROUP_LIST = 41
    GROUP_STATS = 42
    GROUP_DELETE = 43
    GROUP_MEMBERS = 45
    TRACE = 46
    OFFSETS_CHANGED = 44
    OBSERVE = 47
    CHECKPOINT = 48
    STATS = 49
    SNAPSHOT = 50
    SNAPSHOT_RELEASE = 51
    PUT_ONCE = 52
    USE = 53
    REDRIVE = 56
    PURGE = 57
    DEAD_LETTERS = 58
    DELIVER_DUE = 60
    SCHEDULED_LIST = 61
    SCHEDULED_CANCEL = 62
    SCHEDULED_SEND_NOW = 63
    SCHEDULED_MOVE = 64


# Requests that change nothing, so that one without a reply may simply be made again. What a RECEIVE
# leased is given back when its reply comes.
HARMLESS_OPS: Final = frozenset(
    {
        Op.HELLO, Op.PING, Op.CANCEL, Op.PULL, Op.RECEIVE, Op.LOOK_UP, Op.OFFSET_AT_TIME,
        Op.GROUP_CLIENTS, Op.TOPIC_LIST, Op.TOPIC_STATS, Op.GROUP_LIST, Op.GROUP_STATS,
        Op.GROUP_MEMBERS, Op.TRACE, Op.OFFSETS_CHANGED, Op.OBSERVE, Op.STATS, Op.USE,
        Op.DEAD_LETTERS, Op.SCHEDULED_LIST,
    }
)  # fmt: skip


class HelloRequest(Wire, frozen=True, kw_only=True):
    """First frame of a connection. ``proof`` is empty on a unix socket.

    ``is_listening``: notices are wanted from now on; may be said later, by another HELLO.
    """

    client: str
    proof: bytes = b""
    is_listening: bool = False


class HelloReply(Wire, frozen=True, kw_only=True):
    """``store_host`` is what the engine writes into STOREHOST: 8 bytes, IPv4 and port."""

    broker: str
    epoch: int
    frame_bytes_max: int
    body_bytes_max: int
    store_host: bytes


class Empty(Wire, frozen=True, kw_only=True):
    """A request or reply without content."""


class CancelRequest(Wire, frozen=True, kw_only=True):
    """Give up a parked RECEIVE; its reply comes at once, with what was found."""

    request_id: int


class CheckpointReply(Wire, frozen=True, kw_only=True):
    """``inode``, ``mtime_ns``: of the file that was written; it is another one each time."""

    flushed_offset: int
    consumer_offset_count: int
    inode: int
    mtime_ns: int


class StatsReply(Wire, frozen=True, kw_only=True):
    """Counters since the engine started, and where its log stands.

    ``degraded``: what the engine does by itself because nobody asks it to, by who should: ``beat``.
    ``quarantined_count``: damaged places of the log.
    """

    broker: str
    epoch: int
    pid: int
    uptime_ms: int
    put_count: int
    put_bytes: int
    delivered_count: int
    acked_count: int
    sync_count: int
    append_offset: int
    flushed_offset: int
    indexed_offset: int
    segment_count: int
    parked_count: int
    connection_count: int
    is_writable: bool
    scheduled_count: int = 0
    scheduled_delivered_count: int = 0
    degraded: list[str] = msgspec.field(default_factory=list)
    quarantined_count: int = 0


class ErrorReply(Wire, frozen=True, kw_only=True):
    message: str
    retry_after_ms: int = 0


REQUEST_TYPES: Final[dict[Op, type[Wire]]] = {
    Op.HELLO: HelloRequest,
    Op.PING: Empty,
    Op.CANCEL: CancelRequest,
    Op.PULL: PullRequest,
    Op.RECEIVE: ReceiveRequest,
    Op.SETTLE: SettleRequest,
    Op.LOOK_UP: LookUpRequest,
    Op.OFFSET_AT_TIME: OffsetAtTimeRequest,
    Op.OFFSET_COMMIT: OffsetCommitRequest,
    Op.OFFSET_RESET: OffsetResetRequest,
    Op.TOPIC_PUT: TopicConfig,
    Op.TOPIC_LIST: Empty,
    Op.TOPIC_STATS: TopicRef,
    Op.TOPIC_DELETE: TopicRef,
    Op.TOPIC_PURGE: TopicPurgeRequest,
    Op.GROUP_PUT: GroupConfig,
    Op.GROUP_LIST: Empty,
    Op.GROUP_STATS: GroupStatsRequest,
    Op.GROUP_CLIENTS: GroupClientsRequest,
    Op.GROUP_DELETE: GroupRef,
    Op.GROUP_MEMBERS: GroupRef,
    Op.TRACE: TraceRequest,
    Op.CHECKPOINT: Empty,
    Op.PUT_ONCE: PutOnceRequest,
    Op.STATS: Empty,
    Op.REDRIVE: RedriveRequest,
    Op.LEAVE: LeaveRequest,
    Op.SUBSCRIBE: SubscribeRequest,
    Op.PURGE: PurgeRequest,
    Op.DEAD_LETTERS: DeadLettersRequest,
    Op.OFFSETS_CHANGED: OffsetsChangedRequest,
    Op.OBSERVE: Empty,
    Op.USE: UsageRequest,
    Op.SESSION_KEEP: SessionSaveRequest,
    Op.SESSION_TAKE: SessionTakeRequest,
    Op.SESSION_ABSENT: SessionAbsentRequest,
    Op.DELIVER_DUE: DeliverDueRequest,
    Op.SCHEDULED_LIST: ScheduledListRequest,
    Op.SCHEDULED_CANCEL: ScheduledCancelRequest,
    Op.SCHEDULED_SEND_NOW: ScheduledSendRequest,
    Op.SCHEDULED_MOVE: ScheduledMoveRequest,
    Op.SNAPSHOT: SnapshotRequest,
    Op.SNAPSHOT_RELEASE: SnapshotRelease,
}
REPLY_TYPES: Final[dict[Op, type[Wire]]] = {
    Op.HELLO: HelloReply,
    Op.PING: Empty,
    Op.CANCEL: Empty,
    Op.SETTLE: SettleReply,
    Op.OFFSET_AT_TIME: OffsetAtTimeReply,
    Op.OFFSET_COMMIT: OffsetCommitReply,
    Op.OFFSET_RESET: OffsetResetReply,
    Op.TOPIC_PUT: Empty,
    Op.TOPIC_LIST: TopicList,
    Op.TOPIC_STATS: TopicStats,
    Op.TOPIC_DELETE: Empty,
    Op.TOPIC_PURGE: TopicPurgeReply,
    Op.GROUP_PUT: Empty,
    Op.GROUP_LIST: GroupList,
    Op.GROUP_STATS: GroupStats,
    Op.GROUP_CLIENTS: GroupClients,
    Op.GROUP_DELETE: Empty,
    Op.GROUP_MEMBERS: GroupMembers,
    Op.TRACE: TraceReply,
    Op.CHECKPOINT: CheckpointReply,
    Op.PUT_ONCE: PutOnceReply,
    Op.STATS: StatsReply,
    Op.REDRIVE: RedriveReply,
    Op.LEAVE: Empty,
    Op.SUBSCRIBE: SubscribeReply,
    Op.PURGE: PurgeReply,
    Op.DEAD_LETTERS: DeadLettersReply,
    Op.OFFSETS_CHANGED: OffsetsChangedReply,
    Op.OBSERVE: ObserveReply,
    Op.USE: UsageReply,
    Op.NOTICE: Notice,
    Op.SESSION_KEEP: Empty,
    Op.SESSION_TAKE: SessionTakeReply,
    Op.SESSION_ABSENT: Empty,
    Op.DELIVER_DUE: Empty,
    Op.SCHEDULED_CANCEL: ScheduledReply,
    Op.SCHEDULED_SEND_NOW: ScheduledReply,
    Op.SCHEDULED_MOVE: ScheduledReply,
    Op.SNAPSHOT: SnapshotReply,
    Op.SNAPSHOT_RELEASE: SnapshotReleaseReply,
}
