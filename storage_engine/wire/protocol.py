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
                others of the frame are stored.
RECEIVE reply   u32 length, MessagePack ``ReceiveHead``, then the records back to back.
PULL reply      u32 length, MessagePack ``PullHead``, then the records back to back.
LOOK_UP reply   u32 length, MessagePack ``LookUpHead``, then the records back to back.
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

from storage_engine.groups.retry_policy import LevelDelays, RetryPolicy

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
    TOPIC_PUT = 32
    TOPIC_LIST = 33
    TOPIC_STATS = 34
    GROUP_PUT = 40
    GROUP_LIST = 41
    GROUP_STATS = 42
    CHECKPOINT = 48
    STATS = 49


class Durability(enum.StrEnum):
    """When a put to the topic is answered: after the disk has it, or at once."""

    SYNC = "sync"
    ASYNC = "async"


class StartFrom(enum.StrEnum):
    """Where a group begins on a topic it has never read."""

    EARLIEST = "earliest"
    LATEST = "latest"


class PullStatus(enum.StrEnum):
    """Outcome of a read at an offset, in RocketMQ's words."""

    FOUND = "found"
    NO_NEW_MSG = "no_new_msg"
    NO_MATCHED_MSG = "no_matched_msg"
    OFFSET_ILLEGAL = "offset_illegal"


class Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all structs on the socket."""


class HelloRequest(Wire, frozen=True, kw_only=True):
    """First frame of a connection. ``proof`` is empty on a unix socket."""

    client: str
    proof: bytes = b""


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


class TopicConfig(Wire, frozen=True, kw_only=True):
    """A topic as the engine knows it. ``topic`` is the full name, ``namespace%name``.

    ``retention_ms``: how long its messages can be read after they were stored; 0: the store's own.
    """

    topic: str
    queue_count: int
    durability: Durability = Durability.SYNC
    retention_ms: int = 0


class TopicList(Wire, frozen=True, kw_only=True):
    topics: list[TopicConfig]


class TopicRef(Wire, frozen=True, kw_only=True):
    topic: str


class QueueStats(Wire, frozen=True, kw_only=True):
    """Readable range [min_offset, max_offset) of one queue."""

    queue_id: int
    min_offset: int
    max_offset: int


class TopicStats(Wire, frozen=True, kw_only=True):
    topic: str
    queues: list[QueueStats]


class GroupConfig(Wire, frozen=True, kw_only=True):
    """Consumer group as the engine knows it. ``group`` is the full name, ``namespace%name``."""

    group: str
    start_from: StartFrom = StartFrom.EARLIEST
    lease_ms: int = 60_000
    max_reconsume_times: int = 16  # -1: for ever
    retry: RetryPolicy = LevelDelays()


class GroupList(Wire, frozen=True, kw_only=True):
    groups: list[GroupConfig]


class GroupRef(Wire, frozen=True, kw_only=True):
    group: str


class GroupQueueStats(Wire, frozen=True, kw_only=True):
    """Progress of a group on one queue. lag = max_offset - consumer_offset."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    consumer_offset: int
    inflight_count: int


class GroupStats(Wire, frozen=True, kw_only=True):
    group: str
    queues: list[GroupQueueStats]


class ReceiveRequest(Wire, frozen=True, kw_only=True):
    """Lease up to ``messages_max`` messages of ``topic`` to ``member_id`` of ``group``.

    Parks for ``wait_ms`` when nothing is ready. ``bytes_max`` counts whole records; the first one
    is delivered whatever its size.
    """

    group: str
    topic: str
    member_id: str
    messages_max: int
    bytes_max: int
    wait_ms: int
    lease_ms: int


class ReceiveHead(Wire, frozen=True, kw_only=True):
    """What comes before the records of a RECEIVE reply.

    ``attempts[i]`` is the delivery count of record i, from 1. All records of a reply share one
    ``lease_generation``; it makes a receipt of an older delivery recognisable.
    """

    lease_generation: int
    lease_until_ms: int
    attempts: list[int]


class LeaseRef(Wire, frozen=True, kw_only=True):
    """Leased messages of one queue: which delivery, and their queue offsets."""

    topic: str
    queue_id: int
    lease_generation: int
    queue_offsets: list[int]


class Nack(Wire, frozen=True, kw_only=True):
    """Give one message back, to be delivered again after ``delay_ms``; None: by the group's policy.

    ``is_dead``: never again, to the dead letters.
    """

    topic: str
    queue_id: int
    lease_generation: int
    queue_offset: int
    delay_ms: int | None = None
    reason: str = ""
    is_dead: bool = False


class Extend(Wire, frozen=True, kw_only=True):
    """Let the lease of one message end ``lease_ms`` from now."""

    topic: str
    queue_id: int
    lease_generation: int
    queue_offset: int
    lease_ms: int


class SettleRequest(Wire, frozen=True, kw_only=True):
    group: str
    acks: list[LeaseRef] = []
    nacks: list[Nack] = []
    extends: list[Extend] = []


class SettleFailure(Wire, frozen=True, kw_only=True):
    """A message whose settle had no effect; ``code`` is a ``StoreError.code``."""

    topic: str
    queue_id: int
    lease_generation: int
    queue_offset: int
    code: int


class SettleReply(Wire, frozen=True, kw_only=True):
    """``extended_until_ms`` is in the order of the request; 0 where the extend failed."""

    acked_count: int
    nacked_count: int
    extended_until_ms: list[int]
    failures: list[SettleFailure]


class PullRequest(Wire, frozen=True, kw_only=True):
    """Read records of one queue from ``queue_offset`` on; changes no delivery state.

    With ``tags``, only those that have one of them.
    """

    topic: str
    queue_id: int
    queue_offset: int
    messages_max: int
    bytes_max: int
    tags: list[str] = []


class PullHead(Wire, frozen=True, kw_only=True):
    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int


class LookUpRequest(Wire, frozen=True, kw_only=True):
    """Find the messages of a topic whose id or one of whose keys is ``key``, newest first.

    Stored from ``from_ms`` to ``to_ms``, both included. ``cursor`` is empty, or what the page
    before gave.
    """

    topic: str
    key: str
    messages_max: int
    bytes_max: int
    from_ms: int = 0
    to_ms: int = (1 << 63) - 1
    cursor: str = ""


class LookUpHead(Wire, frozen=True, kw_only=True):
    """``cursor`` is empty after the last page; before it a page may be short, or empty.

    ``is_complete`` is False while the index lacks the newest messages, say on a full disk.
    """

    cursor: str
    is_complete: bool


class OffsetAtTimeRequest(Wire, frozen=True, kw_only=True):
    """Where is the first message of a queue that was stored at ``timestamp_ms`` or later?"""

    topic: str
    queue_id: int
    timestamp_ms: int


class OffsetAtTimeReply(Wire, frozen=True, kw_only=True):
    """``queue_offset`` is in [min_offset, max_offset]; max_offset when there is none so late."""

    queue_offset: int
    min_offset: int
    max_offset: int


class CheckpointReply(Wire, frozen=True, kw_only=True):
    flushed_offset: int
    consumer_offset_count: int


class StatsReply(Wire, frozen=True, kw_only=True):
    """Counters since the engine started, and where its log stands."""

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


class ErrorReply(Wire, frozen=True, kw_only=True):
    message: str


REQUEST_TYPES: Final[dict[Op, type[Wire]]] = {
    Op.HELLO: HelloRequest,
    Op.PING: Empty,
    Op.CANCEL: CancelRequest,
    Op.PULL: PullRequest,
    Op.RECEIVE: ReceiveRequest,
    Op.SETTLE: SettleRequest,
    Op.LOOK_UP: LookUpRequest,
    Op.OFFSET_AT_TIME: OffsetAtTimeRequest,
    Op.TOPIC_PUT: TopicConfig,
    Op.TOPIC_LIST: Empty,
    Op.TOPIC_STATS: TopicRef,
    Op.GROUP_PUT: GroupConfig,
    Op.GROUP_LIST: Empty,
    Op.GROUP_STATS: GroupRef,
    Op.CHECKPOINT: Empty,
    Op.STATS: Empty,
}
REPLY_TYPES: Final[dict[Op, type[Wire]]] = {
    Op.HELLO: HelloReply,
    Op.PING: Empty,
    Op.CANCEL: Empty,
    Op.SETTLE: SettleReply,
    Op.OFFSET_AT_TIME: OffsetAtTimeReply,
    Op.TOPIC_PUT: Empty,
    Op.TOPIC_LIST: TopicList,
    Op.TOPIC_STATS: TopicStats,
    Op.GROUP_PUT: Empty,
    Op.GROUP_LIST: GroupList,
    Op.GROUP_STATS: GroupStats,
    Op.CHECKPOINT: CheckpointReply,
    Op.STATS: StatsReply,
}
