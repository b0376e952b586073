"""Frames of the engine's socket: what travels between ``client`` and ``server``; pure, versioned.

    client ── request frame ──▶ [protocol] ──▶ server        many in flight, matched by request_id
    client ◀── reply frame ──── [protocol] ◀── server        in any order

    offset  width  field         meaning
         0      4  frame_bytes   length of all that follows this field: 12 + payload
         4      1  version       PROTOCOL_VERSION; anything else ends the connection
         5      1  opcode        one of ``operations.Op``; a reply repeats the request's
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
all others      one MessagePack struct each way, as listed in ``operations.Op``.
error reply     MessagePack ``ErrorReply``.

A frame is read only after its length has been checked against the limit. All integers are
big-endian.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from storage_engine.wire.struct import Wire

PROTOCOL_VERSION: Final = 1
FRAME_HEAD = struct.Struct(">IBBHII")
FRAME_HEAD_BYTES: Final = FRAME_HEAD.size
LENGTH_BYTES: Final = 4
assert FRAME_HEAD_BYTES == 16


class ChallengeRequest(Wire, frozen=True, kw_only=True):
    """First frame of a connection over a network; see ``proof.py``."""

    shard: str
    nonce: bytes


class ChallengeReply(Wire, frozen=True, kw_only=True):
    nonce: bytes
    proof: bytes


class HelloRequest(Wire, frozen=True, kw_only=True):
    """First frame of a connection on a unix socket, where ``proof`` is empty.

    ``shard``: which one is meant; empty: whichever answers. ``is_listening``: notices are wanted
    from now on; may be said later, by another HELLO.
    """

    client: str
    proof: bytes = b""
    shard: str = ""
    is_listening: bool = False


class HelloReply(Wire, frozen=True, kw_only=True):
    """``store_host`` is what the engine writes into STOREHOST: 8 bytes, IPv4 and port.
    ``is_replicated``: it has a replicated log, by which another engine may take over.
    """

    shard: str
    broker: str
    epoch: int
    frame_bytes_max: int
    body_bytes_max: int
    store_host: bytes
    is_replicated: bool = False


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

    ``degraded``: ``beat``, if the engine does by itself what nobody asks it to; ``replication``, if
    it takes no puts to replicated topics.
    ``quarantined_count``: damaged places of the log. ``replicated_offset``: the replicated log has
    everything below it; None without one.
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
    replicated_offset: int | None = None


class ErrorReply(Wire, frozen=True, kw_only=True):
    message: str
    retry_after_ms: int = 0
