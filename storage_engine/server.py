"""The engine's socket: decode a frame, call the store, encode the answer; decides nothing.

    connection ── frames ──▶ [Server] ── call ──▶ Store
    connection ◀── frames ── [Server] ◀── answer, at once or when the disk has it

Back-pressure: a connection whose replies pile up, or all of them while too much waits for the disk,
are not read from until it is better. A broken frame ends the connection; a bad request is answered.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, cast

from storage_engine.delivery.subscription import Delivered, Parked
from storage_engine.errors import BadFrame, BadRequest, StoreBusy, StoreError
from storage_engine.put_path import Appended, holds_one_record
from storage_engine.store import STORE_HOST, Store
from storage_engine.wire.dead_letters import PurgeRequest, RedriveReply, RedriveRequest
from storage_engine.wire.deliveries import (
    LeaveRequest,
    ReceiveHead,
    ReceiveRequest,
    SettleRequest,
    SubscribeRequest,
)
from storage_engine.wire.frames import (
    Frame,
    FrameDecoder,
    decode_request,
    encode_error,
    encode_frame,
    encode_put_reply,
    encode_records_reply,
    encode_struct,
)
from storage_engine.wire.groups import GroupConfig, GroupList, GroupRef
from storage_engine.wire.offsets import OffsetCommitRequest, OffsetResetRequest
from storage_engine.wire.protocol import CancelRequest, Empty, HelloReply, HelloRequest, Op
from storage_engine.wire.reads import LookUpRequest, OffsetAtTimeRequest, PullRequest
from storage_engine.wire.snapshots import SnapshotRelease, SnapshotReleaseReply, SnapshotRequest
from storage_engine.wire.struct import Wire
from storage_engine.wire.topics import TopicConfig, TopicList, TopicRef

log = logging.getLogger(__name__)

_BACKLOG_COUNT: Final = 1_024  # clients that come back all at once after a restart


class Server:
    """Listens for clients of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.connections: set[_Connection] = set()
        self._listener: asyncio.Server | None = None

    async def start(self, socket_path: str) -> None:
        """Listen on a unix socket that only this user can reach; a stale file is replaced."""
        _make_way(Path(socket_path))
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_unix_server(
            partial(_Connection, self), socket_path, backlog=_BACKLOG_COUNT
        )
        os.chmod(socket_path, 0o600)

    async def stop(self) -> None:
        """Take no more connections and end those that are there."""
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.close()
        if self._listener is not None:
            await self._listener.wait_closed()

    def resume_reading(self) -> None:
        """Called every tick: read again from everybody once the disk has caught up."""
        if self.store.unsynced_bytes <= self.store.config.unsynced_bytes_max // 2:
            for connection in self.connections:
                connection.resume_after_disk()


class _Connection(asyncio.BufferedProtocol):
    """One client."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._store = server.store
        self._decoder = FrameDecoder(server.store.config.frame_bytes_max)
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._frames: deque[Frame] = deque()  # not served yet: the client does not read
        self._replies: list[bytes] = []
        self._reply_bytes = 0
        self._parked: dict[int, Parked] = {}
        self._memberships: set[tuple[str, str, str]] = set()  # (group, topic, member)
        self._is_waiting_for_disk = False
        self._is_waiting_for_client = False
        self._calls: dict[int, Callable[[Wire], Wire]] = {
            Op.HELLO: self._hello,
            Op.PING: lambda request: Empty(),
            Op.SETTLE: lambda request: self._store.consumption.settle(
                cast("SettleRequest", request)
            ),
            Op.OFFSET_AT_TIME: lambda request: self._store.queries.offset_at_time(
                cast("OffsetAtTimeRequest", request)
            ),
            Op.OFFSET_COMMIT: lambda request: self._store.consumption.offset_commit(
                cast("OffsetCommitRequest", request)
            ),
            Op.OFFSET_RESET: lambda request: self._store.consumption.offset_reset(
                cast("OffsetResetRequest", request)
            ),
            Op.SUBSCRIBE: self._subscribe,
            Op.LEAVE: self._leave,
            Op.TOPIC_PUT: self._topic_put,
            Op.TOPIC_LIST: lambda request: TopicList(topics=self._store.catalog.topic_list()),
            Op.TOPIC_STATS: lambda request: self._store.topic_stats(
                cast("TopicRef", request).topic
            ),
            Op.GROUP_PUT: self._group_put,
            Op.GROUP_LIST: lambda request: GroupList(groups=self._store.catalog.group_list()),
            Op.GROUP_STATS: lambda request: self._store.consumption.group_stats(
                cast("GroupRef", request).group
            ),
            Op.TOPIC_DELETE: self._topic_delete,
            Op.GROUP_DELETE: self._group_delete,
            Op.PURGE: lambda request: self._store.consumption.dead_letters.purge(
                cast("PurgeRequest", request)
            ),
            Op.STATS: lambda request: self._store.stats(len(self._server.connections)),
            Op.SNAPSHOT: lambda request: self._store.retention.snapshots.take(
                cast("SnapshotRequest", request)
            ),
            Op.SNAPSHOT_RELEASE: self._snapshot_release,
        }

    # Transport ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if len(self._server.connections) >= self._store.config.connection_count_max:
            error = StoreBusy(f"{len(self._server.connections)} connections are open already")
            self._reply(Op.HELLO, 0, encode_error(error), error.code)
            self.close()
            return
        limit = self._store.config.reply_buffer_bytes_max
        self._transport.set_write_buffer_limits(high=limit, low=limit // 4)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._frames.clear()
        parked, self._parked = self._parked, {}
        for waiting in parked.values():
            self._store.consumption.cancel(waiting, answer=False)
        memberships, self._memberships = self._memberships, set()
        for membership in memberships:
            self._store.consumption.delivery.leave(*membership)

    def pause_writing(self) -> None:
        self._is_waiting_for_client = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_waiting_for_client = False
        self._serve_frames()
        self._read_again()

    def resume_after_disk(self) -> None:
        if self._is_waiting_for_disk:
            self._is_waiting_for_disk = False
            self._read_again()

    def _read_again(self) -> None:
        if not (self._is_waiting_for_disk or self._is_waiting_for_client):
            self._transport.resume_reading()

    def close(self) -> None:
        """End the connection; replies that are written go out first."""
        self._send_replies()
        self._transport.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.space()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._frames += self._decoder.filled(nbytes)
        except BadFrame as exc:
            log.warning("connection ended", extra={"action": "bad_frame", "reason": str(exc)})
            self._reply(Op.HELLO, 0, encode_error(exc), exc.code)
            self.close()
            return
        self._serve_frames()

    def _serve_frames(self) -> None:
        """Serve what has come in, as long as the client takes the replies."""
        singles: list[Frame] = []  # PUT frames of one record each, which go into the log together
        frames = self._frames
        while frames and not self._is_waiting_for_client:
            frame = frames.popleft()
            if frame.op == Op.PUT and holds_one_record(frame.payload):
                singles.append(frame)
                continue
            if singles:
                self._put_singles(singles)
                singles = []
            try:
                self._serve(frame)
            except StoreError as exc:
                self._reply(frame.op, frame.request_id, encode_error(exc), exc.code)
            if self._reply_bytes > self._store.config.reply_buffer_bytes_max:
                self._send_replies()
        if singles:
            self._put_singles(singles)
        if self._store.unsynced_bytes > self._store.config.unsynced_bytes_max:
            self._is_waiting_for_disk = True
            self._transport.pause_reading()

    def _reply(self, op: int, request_id: int, payload: bytes, status: int = 0) -> None:
        if not self._replies:
            self._loop.call_soon(self._send_replies)
        self._replies.append(encode_frame(op, request_id, payload, status))
        self._reply_bytes += len(payload)

    def _send_replies(self) -> None:
        """All replies of one loop tick in one write: a sync answers many requests together."""
        replies, self._replies = self._replies, []
        self._reply_bytes = 0
        if replies and not self._transport.is_closing():
            self._transport.write(b"".join(replies))

    # Requests -------------------------------------------------------------------------------

    def _serve(self, frame: Frame) -> None:
        op, _, request_id, payload = frame
        if op == Op.PUT:
            self._store.put(payload, partial(self._put_answered, request_id))
            return
        try:
            known = Op(op)
        except ValueError:
            raise BadRequest(f"opcode {op} is unknown") from None
        request = decode_request(known, payload)
        call = self._calls.get(op)
        if call is not None:
            self._reply(op, request_id, encode_struct(call(request)))
        elif isinstance(request, ReceiveRequest):
            self._receive(request_id, request)
        elif isinstance(request, PullRequest):
            head, records = self._store.pull(request)
            content = encode_records_reply(head, self._store.read_records(records))
            self._reply(op, request_id, content)
        elif isinstance(request, LookUpRequest):
            content = encode_records_reply(*self._store.queries.look_up(request))
            self._reply(op, request_id, content)
        elif isinstance(request, RedriveRequest):
            answer = partial(self._redriven, request_id)
            self._store.consumption.dead_letters.redrive(request, answer)
        elif isinstance(request, CancelRequest):
            parked = self._parked.pop(request.request_id, None)
            if parked is not None:
                self._store.consumption.cancel(parked, answer=True)
            self._reply(op, request_id, encode_struct(Empty()))
        else:
            assert known is Op.CHECKPOINT
            task = asyncio.ensure_future(self._checkpoint(request_id))
            task.add_done_callback(_log_failure)

    def _put_answered(
        self, request_id: int, appended: Appended, store_timestamp_ms: int, error: StoreError | None
    ) -> None:
        if error is not None:
            self._reply(Op.PUT, request_id, encode_error(error), error.code)
        else:
            self._reply(Op.PUT, request_id, encode_put_reply(store_timestamp_ms, appended.offsets))

    def _put_singles(self, frames: list[Frame]) -> None:
        request_ids = [frame.request_id for frame in frames]
        payload = b"".join([frame.payload for frame in frames])
        try:
            self._store.put(payload, partial(self._singles_answered, request_ids))
        except StoreError as exc:
            for request_id in request_ids:
                self._reply(Op.PUT, request_id, encode_error(exc), exc.code)

    def _singles_answered(
        self,
        request_ids: list[int],
        appended: Appended,
        store_timestamp_ms: int,
        error: StoreError | None,
    ) -> None:
        if error is not None:
            for request_id in request_ids:
                self._reply(Op.PUT, request_id, encode_error(error), error.code)
            return
        offsets = iter(appended.offsets)
        for request_id in request_ids:
            place = [next(offsets), next(offsets)]
            self._reply(Op.PUT, request_id, encode_put_reply(store_timestamp_ms, place))

    def _receive(self, request_id: int, request: ReceiveRequest) -> None:
        if request_id in self._parked:
            raise BadRequest(f"request id {request_id} is in use")
        if self._store.consumption.is_exclusive(request.group):
            self._memberships.add((request.group, request.topic, request.member_id))
        parked = self._store.consumption.receive(request, partial(self._received, request_id))
        if parked is not None and not parked.is_done:
            self._parked[request_id] = parked

    def _received(self, request_id: int, delivered: Delivered) -> None:
        self._parked.pop(request_id, None)
        if delivered.refusal is not None:
            error = delivered.refusal
            self._reply(Op.RECEIVE, request_id, encode_error(error), error.code)
            return
        head = ReceiveHead(
            lease_generation=delivered.lease_generation,
            lease_until_ms=delivered.lease_until_ms,
            attempts=delivered.attempts,
        )
        records = self._store.read_records(delivered.records)
        self._reply(Op.RECEIVE, request_id, encode_records_reply(head, records))

    def _subscribe(self, request: Wire) -> Wire:
        assert isinstance(request, SubscribeRequest)
        self._store.consumption.subscribe(request)
        self._memberships.add((request.group, request.topic, request.member_id))
        return Empty()

    def _leave(self, request: Wire) -> Wire:
        assert isinstance(request, LeaveRequest)
        membership = request.group, request.topic, request.member_id
        self._memberships.discard(membership)
        self._store.consumption.delivery.leave(*membership)
        return Empty()

    def _redriven(self, request_id: int, reply: RedriveReply) -> None:
        self._reply(Op.REDRIVE, request_id, encode_struct(reply))

    async def _checkpoint(self, request_id: int) -> None:
        try:
            payload, status = encode_struct(await self._store.checkpoint()), 0
        except StoreError as exc:
            payload, status = encode_error(exc), exc.code
        self._reply(Op.CHECKPOINT, request_id, payload, status)

    def _hello(self, request: Wire) -> Wire:
        assert isinstance(request, HelloRequest)
        config = self._store.config
        return HelloReply(
            broker=config.broker,
            epoch=self._store.epoch,
            frame_bytes_max=config.frame_bytes_max,
            body_bytes_max=config.body_bytes_max,
            store_host=STORE_HOST,
        )

    def _topic_put(self, request: Wire) -> Wire:
        self._store.catalog.topic_put(cast("TopicConfig", request))
        return Empty()

    def _group_put(self, request: Wire) -> Wire:
        self._store.catalog.group_put(cast("GroupConfig", request))
        return Empty()

    def _snapshot_release(self, request: Wire) -> Wire:
        snapshot_id = cast("SnapshotRelease", request).snapshot_id
        was_held = self._store.retention.snapshots.release(snapshot_id)
        return SnapshotReleaseReply(was_held=was_held)

    def _topic_delete(self, request: Wire) -> Wire:
        self._store.consumption.deletions.topic_delete(cast("TopicRef", request).topic)
        return Empty()

    def _group_delete(self, request: Wire) -> Wire:
        self._store.consumption.deletions.group_delete(cast("GroupRef", request).group)
        return Empty()


def _make_way(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error(
            "checkpoint failed", exc_info=task.exception(), extra={"action": "checkpoint_failed"}
        )
