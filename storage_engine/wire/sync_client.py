"""Blocking door to an engine, for code without an event loop: Django views, Celery tasks, tools.

One request at a time on one connection, opened when first needed and again after a failure. Frames
and errors are those of ``async_client``. Thread-safe: a lock serialises the calls.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from storage_engine.errors import (
    BadFrame,
    OutcomeUnknown,
    RecordRefused,
    StoreError,
    StoreUnavailable,
)
from storage_engine.records.record import Record
from storage_engine.records.record_run import decode_records
from storage_engine.wire.client_types import PutResult, Received, put_bytes_max, put_results
from storage_engine.wire.dead_letters import (
    DeadLettersReply,
    DeadLettersRequest,
    PurgeReply,
    PurgeRequest,
    RedriveReply,
    RedriveRequest,
)
from storage_engine.wire.deliveries import ReceiveRequest, SettleReply, SettleRequest
from storage_engine.wire.frames import (
    Frame,
    FrameDecoder,
    decode_error,
    decode_look_up_reply,
    decode_pull_reply,
    decode_put_reply,
    decode_receive_reply,
    decode_reply,
    decode_scheduled_reply,
    encode_frame,
    encode_struct,
)
from storage_engine.wire.groups import (
    GroupClients,
    GroupClientsRequest,
    GroupConfig,
    GroupList,
    GroupRef,
    GroupStats,
)
from storage_engine.wire.members import GroupMembers
from storage_engine.wire.observing import (
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
from storage_engine.wire.once import PutOncePlace, PutOnceReply, PutOnceRequest
from storage_engine.wire.protocol import (
    CheckpointReply,
    Empty,
    HelloReply,
    HelloRequest,
    Op,
    StatsReply,
)
from storage_engine.wire.reads import (
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
from storage_engine.wire.uses import UseReply, UseRequest

ReplyT = TypeVar("ReplyT", bound=Wire)
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
_READ_BYTES: Final = 256 * 1024
_PUTS_AT_ONCE: Final = 256  # of topics and groups: their replies fit any socket's buffer


class StoreClient:
    """See the module's docstring. ``timeout_ms`` bounds each step of a request."""

    def __init__(self, socket_path: str, *, client_name: str, timeout_ms: int = 10_000) -> None:
        self._socket_path = socket_path
        self._client_name = client_name
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._pid = 0
        self._decoder = FrameDecoder(FRAME_BYTES_MAX)
        self._request_id = 0
        self.hello: HelloReply | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; what another thread asks just now fails with ``OutcomeUnknown``."""
        connection = self._socket
        if self._lock.locked() and connection is not None and self._pid == os.getpid():
            with contextlib.suppress(OSError):  # it has ended by itself
                connection.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._disconnect()

    def put(self, records: list[bytes]) -> list[PutResult]:
        """Append records of ``encode_record``; one result per record, in order."""
        payload = b"".join(records)
        store_timestamp_ms, offsets = decode_put_reply(self._request(Op.PUT, payload))
        return put_results(store_timestamp_ms, offsets)

    def put_once(self, records: list[bytes]) -> list[PutOncePlace]:
        """As a put, but records with a mark whose key is known are not stored again, and get the
        place of the first.
        """
        request = PutOnceRequest(records=b"".join(records))
        return self._ask(Op.PUT_ONCE, request, PutOnceReply).places

    def receive(self, request: ReceiveRequest) -> Received:
        payload = self._request(Op.RECEIVE, encode_struct(request), extra_wait_ms=request.wait_ms)
        head, at = decode_receive_reply(payload)
        return Received(head, decode_records(payload, at))

    def pull(self, request: PullRequest) -> tuple[PullHead, list[Record]]:
        payload = self._request(Op.PULL, encode_struct(request))
        head, at = decode_pull_reply(payload)
        return head, decode_records(payload, at)

    def look_up(self, request: LookUpRequest) -> tuple[LookUpHead, list[Record]]:
        """One page of the messages that have a key, newest first."""
        payload = self._request(Op.LOOK_UP, encode_struct(request))
        head, at = decode_look_up_reply(payload)
        return head, decode_records(payload, at)

    def offset_at_time(self, request: OffsetAtTimeRequest) -> OffsetAtTimeReply:
        return self._ask(Op.OFFSET_AT_TIME, request, OffsetAtTimeReply)

    def offset_commit(self, request: OffsetCommitRequest) -> OffsetCommitReply:
        return self._ask(Op.OFFSET_COMMIT, request, OffsetCommitReply)

    def offset_reset(self, request: OffsetResetRequest) -> OffsetResetReply:
        return self._ask(Op.OFFSET_RESET, request, OffsetResetReply)

    def settle(self, request: SettleRequest) -> SettleReply:
        return self._ask(Op.SETTLE, request, SettleReply)

    def topic_put(self, request: TopicConfig) -> None:
        self._ask(Op.TOPIC_PUT, request, Empty)

    def topic_list(self) -> TopicList:
        return self._ask(Op.TOPIC_LIST, Empty(), TopicList)

    def topic_delete(self, request: TopicRef) -> None:
        self._ask(Op.TOPIC_DELETE, request, Empty)

    def topic_purge(self, request: TopicPurgeRequest) -> TopicPurgeReply:
        return self._ask(Op.TOPIC_PURGE, request, TopicPurgeReply)

    def topic_stats(self, request: TopicRef) -> TopicStats:
        return self._ask(Op.TOPIC_STATS, request, TopicStats)

    def group_put(self, request: GroupConfig) -> None:
        self._ask(Op.GROUP_PUT, request, Empty)

    def put_all(self, configs: Sequence[TopicConfig | GroupConfig]) -> list[StoreError | None]:
        """Create or change topics and groups, many under way at a time, so that they share writes.

        Returns why each was refused, None for one that is durable; in order. Raises
        ``OutcomeUnknown`` and ``StoreUnavailable``, after which any of them may have been done.
        """
        requests = [
            (Op.TOPIC_PUT if isinstance(each, TopicConfig) else Op.GROUP_PUT, encode_struct(each))
            for each in configs
        ]
        replies: list[Frame] = []
        with self._lock:
            for at in range(0, len(requests), _PUTS_AT_ONCE):
                self._ensure_connected()
                replies += self._exchange_all(requests[at : at + _PUTS_AT_ONCE])
        return [
            decode_error(reply.status, reply.payload) if reply.status else None for reply in replies
        ]

    def group_list(self) -> GroupList:
        return self._ask(Op.GROUP_LIST, Empty(), GroupList)

    def group_delete(self, request: GroupRef) -> None:
        self._ask(Op.GROUP_DELETE, request, Empty)

    def group_clients(self, request: GroupClientsRequest) -> GroupClients:
        return self._ask(Op.GROUP_CLIENTS, request, GroupClients)

    def group_stats(self, request: GroupRef) -> GroupStats:
        return self._ask(Op.GROUP_STATS, request, GroupStats)

    def group_members(self, request: GroupRef) -> GroupMembers:
        return self._ask(Op.GROUP_MEMBERS, request, GroupMembers)

    def trace(self, request: TraceRequest) -> TraceReply:
        """One part of the road of a message."""
        return self._ask(Op.TRACE, request, TraceReply)

    def redrive(self, request: RedriveRequest) -> RedriveReply:
        return self._ask(Op.REDRIVE, request, RedriveReply)

    def purge(self, request: PurgeRequest) -> PurgeReply:
        return self._ask(Op.PURGE, request, PurgeReply)

    def dead_letters(self, request: DeadLettersRequest) -> DeadLettersReply:
        return self._ask(Op.DEAD_LETTERS, request, DeadLettersReply)

    def deliver_due(self, ahead_ms: int = 0) -> None:
        """Have the scheduled messages delivered that are due by now, or soon, at their time."""
        self._ask(Op.DELIVER_DUE, DeliverDueRequest(ahead_ms=ahead_ms), Empty)

    def scheduled_list(
        self, request: ScheduledListRequest
    ) -> tuple[ScheduledListHead, list[Record]]:
        """One page of a topic's messages that are still to come."""
        payload = self._request(Op.SCHEDULED_LIST, encode_struct(request))
        head, at = decode_scheduled_reply(payload)
        return head, decode_records(payload, at)

    def scheduled_cancel(self, request: ScheduledCancelRequest) -> ScheduledReply:
        return self._ask(Op.SCHEDULED_CANCEL, request, ScheduledReply)

    def scheduled_move(self, request: ScheduledMoveRequest) -> ScheduledReply:
        return self._ask(Op.SCHEDULED_MOVE, request, ScheduledReply)

    def scheduled_send_now(self, request: ScheduledSendRequest) -> ScheduledReply:
        return self._ask(Op.SCHEDULED_SEND_NOW, request, ScheduledReply)

    def checkpoint(self) -> CheckpointReply:
        return self._ask(Op.CHECKPOINT, Empty(), CheckpointReply)

    def offsets_changed(self, request: OffsetsChangedRequest) -> OffsetsChangedReply:
        """A page of the consumer offsets that have changed since the page before."""
        return self._ask(Op.OFFSETS_CHANGED, request, OffsetsChangedReply)

    def observe(self) -> ObserveReply:
        return self._ask(Op.OBSERVE, Empty(), ObserveReply)

    def use(self, request: UseRequest) -> UseReply:
        """How much namespaces and topics hold."""
        return self._ask(Op.USE, request, UseReply)

    def snapshot(self, request: SnapshotRequest) -> SnapshotReply:
        """Keep the log's files for a reader of them."""
        return self._ask(Op.SNAPSHOT, request, SnapshotReply)

    def snapshot_release(self, request: SnapshotRelease) -> SnapshotReleaseReply:
        return self._ask(Op.SNAPSHOT_RELEASE, request, SnapshotReleaseReply)

    def stats(self) -> StatsReply:
        return self._ask(Op.STATS, Empty(), StatsReply)

    def ping(self) -> None:
        self._ask(Op.PING, Empty(), Empty)

    def _ask(self, op: Op, request: Wire, kind: type[ReplyT]) -> ReplyT:
        reply = decode_reply(op, self._request(op, encode_struct(request)))
        assert isinstance(reply, kind)
        return reply

    def _request(self, op: Op, payload: bytes, extra_wait_ms: int = 0) -> bytes:
        with self._lock:
            self._ensure_connected()
            assert self.hello is not None
            if op is Op.PUT and len(payload) > put_bytes_max(self.hello):
                raise RecordRefused(
                    f"a put of {len(payload)} bytes, "
                    f"at most {put_bytes_max(self.hello)} fit a frame"
                )
            return self._exchange(op, payload, extra_wait_ms)

    def _ensure_connected(self) -> None:
        if self._socket is None or self._pid != os.getpid() or self._has_ended(self._socket):
            self._connect()

    @staticmethod
    def _has_ended(connection: socket.socket) -> bool:
        """True when the engine has closed an idle connection, so that no request is wasted on
        it.
        """
        connection.settimeout(0)
        try:
            return connection.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _connect(self) -> None:
        self._disconnect()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self._timeout_ms / 1_000)
        try:
            connection.connect(self._socket_path)
        except OSError as exc:
            connection.close()
            raise StoreUnavailable(
                f"no engine answers at {self._socket_path}: {exc.strerror or exc}"
            ) from exc
        self._socket, self._pid = connection, os.getpid()
        self._decoder = FrameDecoder(FRAME_BYTES_MAX)
        hello = encode_struct(HelloRequest(client=self._client_name))
        try:
            reply = decode_reply(Op.HELLO, self._exchange(Op.HELLO, hello, 0))
        except OutcomeUnknown as exc:
            raise StoreUnavailable(f"no greeting from {self._socket_path}: {exc}") from exc
        assert isinstance(reply, HelloReply)
        self.hello = reply

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exchange(self, op: Op, payload: bytes, extra_wait_ms: int) -> bytes:
        frame = self._exchange_all([(op, payload)], extra_wait_ms)[0]
        if frame.status:
            raise decode_error(frame.status, frame.payload)
        return frame.payload

    def _exchange_all(
        self, requests: Sequence[tuple[Op, bytes]], extra_wait_ms: int = 0
    ) -> list[Frame]:
        """The replies in the order of the requests, which are sent together."""
        assert self._socket is not None
        first = self._request_id
        self._request_id = (first + len(requests)) % 0xFFFF_FFFF
        ids = [(first + place) % 0xFFFF_FFFF + 1 for place in range(len(requests))]
        frames = [
            encode_frame(op, request_id, payload)
            for request_id, (op, payload) in zip(ids, requests, strict=True)
        ]
        replies: dict[int, Frame] = {}
        self._socket.settimeout((self._timeout_ms + extra_wait_ms) / 1_000)
        try:
            self._socket.sendall(b"".join(frames))
            while not all(request_id in replies for request_id in ids):
                replies |= {frame.request_id: frame for frame in self._read_frames()}
        except OSError as exc:
            self._disconnect()
            name = requests[0][0].name
            raise OutcomeUnknown(f"the engine's connection broke during {name}: {exc}") from exc
        except BadFrame:
            self._disconnect()
            raise
        return [replies[request_id] for request_id in ids]

    def _read_frames(self) -> list[Frame]:
        """Those that the next bytes complete, which may be none."""
        assert self._socket is not None
        chunk = self._socket.recv(_READ_BYTES)
        if not chunk:
            raise ConnectionResetError("closed by the engine")
        return self._decoder.feed(chunk)
