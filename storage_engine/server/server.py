"""The engine's socket: decodes a frame, calls the store, encodes the reply; decides nothing.

    connection ── frames ──▶ [Server] ── call ──▶ Store
    connection ◀── frames ── [Server] ◀── answer, at once or when the disk has it

Back-pressure: a connection whose replies pile up, or all of them while too much waits for the disk,
are not read from until it is better. A broken frame ends the connection; a bad request is answered.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from storage_engine.delivery.subscription import Delivered, WaitingReceive
from storage_engine.errors import (
    BadFrame,
    BadRequest,
    NotLocal,
    OldMessagesUnavailable,
    OutcomeUnknown,
    ShuttingDown,
    StoreBusy,
    StoreError,
)
from storage_engine.groups.consumption import Membership, membership_of
from storage_engine.groups.moving_namespaces import MovingNamespaces
from storage_engine.puts.put_path import holds_one_record
from storage_engine.server.absent_requests import AbsentRequests
from storage_engine.server.handshake import NetworkListener, check_shard
from storage_engine.server.held_requests import check_not_held
from storage_engine.server.notice_listener import NoticeListener
from storage_engine.server.put_replies import PutReplies
from storage_engine.server.store_calls import store_calls
from storage_engine.store import Store
from storage_engine.wire.dead_letters import RedriveRequest
from storage_engine.wire.deliveries import (
    LeaveRequest,
    ReceiveHead,
    ReceiveRequest,
    SubscribeRequest,
)
from storage_engine.wire.frames import (
    Frame,
    FrameDecoder,
    RecordsHead,
    encode_error,
    encode_frame_head,
    encode_records_frame,
    encode_struct,
)
from storage_engine.wire.groups import GroupConfig
from storage_engine.wire.namespaces import (
    NamespaceDropRequest,
    NamespaceHoldRequest,
    NamespaceReleaseRequest,
    StoreAdoptRequest,
    StoreDiscardRequest,
)
from storage_engine.wire.offsets import OffsetResetRequest
from storage_engine.wire.operations import OPERATIONS, AnyOperation, Op, Operation
from storage_engine.wire.protocol import CancelRequest, ChallengeRequest, Empty, HelloRequest
from storage_engine.wire.put_once import PutOnceRequest
from storage_engine.wire.reads import LookUpRequest, PullRequest
from storage_engine.wire.scheduled import (
    ScheduledCancelRequest,
    ScheduledListRequest,
    ScheduledMoveRequest,
    ScheduledSendRequest,
)
from storage_engine.wire.sessions import (
    SessionAbsentRequest,
    SessionSaveRequest,
    SessionTakeRequest,
)
from storage_engine.wire.topics import TopicConfig, TopicPurgeRequest

log = logging.getLogger(__name__)

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")
# A change to messages of ``topic``.
ChangeT = TypeVar("ChangeT", bound=OffsetResetRequest | TopicPurgeRequest | ScheduledCancelRequest)

_BACKLOG_COUNT: Final = 1_024  # clients that come back all at once after a restart
_JOINED_BYTES_MAX: Final = 16 * 1024  # of replies: copying them costs less than a list of them
# The kernel's own 208 KiB take no whole frame of 1 KiB messages: the rest would wait for the client
# to read, and the loop for that. It gives what ``net.core.wmem_max`` allows.
_SEND_BUFFER_BYTES: Final = 1024 * 1024
_MEMBERSHIPS_MAX: Final = 10_000  # that a connection remembers
# How often a connection that is not read from hears that the engine is alive. Clients ask after
# ``ClientConfig.ping_after_ms``, and their pings are not read either.
_KEEPALIVE_MS: Final = 500


class Server:
    """Listens for clients of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.connections: set[_Connection] = set()
        self.calls = store_calls(store)
        self.handlers = _handlers_of(self)
        self._connection_type = _Connection
        if store.replication is not None:
            self._connection_type = _OwnersConnection
            store.replication.confirmed = self.send_held_replies
            store.deposed = self.depose
            store.closing = self.refuse_changes
        self.adopt: Callable[[StoreAdoptRequest], None] = _cannot_adopt
        self._listener: asyncio.Server | None = None
        self._network: NetworkListener | None = None
        self._ticks_behind = 0  # since the disk could last keep up

    async def start(self, socket_path: str) -> None:
        """Listen on a unix socket that only this user can reach; a stale file is replaced."""
        _remove_stale_socket(Path(socket_path))
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_unix_server(
            partial(self._connection_type, self), socket_path, backlog=_BACKLOG_COUNT
        )
        os.chmod(socket_path, 0o600)

    async def start_network(self) -> None:
        """Listen where the configuration says. Raises ConfigInvalid."""
        self._network = NetworkListener(self.store.config, partial(self._connection_type, self))
        await self._network.start(_BACKLOG_COUNT)

    async def stop(self) -> None:
        """Take no more connections and end those that are there."""
        if self._listener is not None:
            self._listener.close()
        if self._network is not None:
            self._network.stop()
        for connection in list(self.connections):
            connection.close()
        if self._listener is not None:
            await self._listener.wait_closed()

    def send_held_replies(self) -> None:
        """The engine still owns its shard: what was held back may go out."""
        for connection in self.connections:
            connection.send_replies()

    def depose(self) -> None:
        """Another engine owns the shard: nobody is told of a success any more."""
        for connection in list(self.connections):
            connection.depose()

    def refuse_changes(self) -> None:
        """The store closes: what comes from now on, the replicated log would not get any more."""
        for operation, _ in list(self.handlers.values()):
            if not operation.is_harmless:
                self.handlers.add(operation, _Connection.refuse)

    def resume_reading(self) -> None:
        """Called every tick: read again from everybody once the disk has caught up."""
        config = self.store.config
        if self.store.unsynced_bytes <= config.unsynced_bytes_max // 2:
            self._ticks_behind = 0
            for connection in self.connections:
                connection.resume_after_disk()
            return
        self._ticks_behind += 1
        if self._ticks_behind % max(_KEEPALIVE_MS // config.tick_interval_ms, 1) == 0:
            for connection in self.connections:
                connection.send_keepalive()


def _is_never_single(payload: bytes) -> bool:
    return False


class _Connection(asyncio.BufferedProtocol):
    """One client."""

    # PUT frames of one record go into the log together, and are answered together.
    _is_single = staticmethod(holds_one_record)

    def __init__(self, server: Server) -> None:
        self._server = server
        self._store = server.store
        self._holds = server.store.catalog.holds
        self._decoder = FrameDecoder(server.store.config.frame_bytes_max)
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._frames: deque[Frame] = deque()  # not served yet: the client does not read
        self._replies: list[bytes] = []
        self._reply_bytes = 0
        self._parked: dict[int, WaitingReceive] = {}
        self._puts = PutReplies(server.store, self._reply)
        self._listening = NoticeListener(server.store, self._reply, lambda: self._transport.abort())
        self._memberships: dict[Membership, None] = {}  # the latest last
        self._absent = AbsentRequests(self._serve, self._fail)
        self._is_waiting_for_disk = False
        self._is_waiting_for_client = False

    # Transport ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if len(self._server.connections) >= self._store.config.connection_count_max:
            error = StoreBusy(
                f"{len(self._server.connections)} connections are open already, which is the limit"
            )
            self._reply(Op.HELLO, 0, encode_error(error), error.code)
            self.close()
            return
        limit = self._store.config.reply_buffer_bytes_max
        self._transport.set_write_buffer_limits(high=limit, low=limit // 4)
        end: socket.socket = self._transport.get_extra_info("socket")
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._frames.clear()
        self._absent.cancel_all()
        parked, self._parked = self._parked, {}
        for waiting in parked.values():
            self._store.consumption.cancel(waiting, answer=False)
        memberships, self._memberships = self._memberships, {}
        for membership in memberships:
            self._store.consumption.delivery.leave(*membership)
        self._listening.stop()

    def pause_writing(self) -> None:
        self._is_waiting_for_client = self._listening.is_unread = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_waiting_for_client = self._listening.is_unread = False
        self._serve_frames()
        self._read_again()

    def resume_after_disk(self) -> None:
        if self._is_waiting_for_disk:
            self._is_waiting_for_disk = False
            self._read_again()

    def send_keepalive(self) -> None:
        """Say something to a client that waits for the disk, whose pings are not read."""
        if self._is_waiting_for_disk and not self._is_waiting_for_client:
            self._reply(Op.PING, 0, encode_struct(Empty()))

    def _read_again(self) -> None:
        if not (self._is_waiting_for_disk or self._is_waiting_for_client):
            self._transport.resume_reading()

    def close(self) -> None:
        """End the connection; replies that are written go out first."""
        self.send_replies()
        self._transport.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.space()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._frames += self._decoder.filled(nbytes)
        except BadFrame as exc:
            log.warning(
                "Closed a connection that sent a malformed frame",
                extra={"action": "bad_frame", "reason": str(exc)},
            )
            self._reply(Op.HELLO, 0, encode_error(exc), exc.code)
            self.close()
            return
        self._serve_frames()

    def _serve_frames(self) -> None:
        """Serve what has come in, as long as the client takes the replies."""
        singles: list[Frame] = []  # see ``_is_single``
        frames = self._frames
        while frames and not self._is_waiting_for_client:
            frame = frames.popleft()
            if frame.op == Op.PUT and self._is_single(frame.payload):
                singles.append(frame)
                continue
            if singles:
                self._puts.put_singles(singles)
                singles = []
            try:
                self._serve(frame)
            except NotLocal as exc:
                self._absent.wait(frame, exc)
            except StoreError as exc:
                self._fail(frame, exc)
            if self._reply_bytes > self._store.config.reply_buffer_bytes_max:
                self.send_replies()
        if singles:
            self._puts.put_singles(singles)
        if self._store.unsynced_bytes > self._store.config.unsynced_bytes_max:
            self._is_waiting_for_disk = True
            self._transport.pause_reading()

    def _reply(self, op: int, request_id: int, payload: bytes, status: int = 0) -> None:
        self._add_reply(encode_frame_head(op, request_id, payload, status), payload)

    def _fail(self, frame: Frame, error: StoreError) -> None:
        self._reply(frame.op, frame.request_id, encode_error(error), error.code)

    def _reply_records(self, op: int, request_id: int, head: RecordsHead, records: bytes) -> None:
        self._add_reply(*encode_records_frame(op, request_id, head, records))

    def _add_reply(self, *pieces: bytes) -> None:
        if not self._replies:
            self._loop.call_soon(self.send_replies)
        for piece in pieces:
            self._replies.append(piece)
            self._reply_bytes += len(piece)

    def depose(self) -> None:
        """Nobody deposes an engine without a replicated log."""

    def send_replies(self) -> None:
        """All replies of one loop tick in one write: a sync answers many requests together."""
        replies, self._replies = self._replies, []
        reply_bytes, self._reply_bytes = self._reply_bytes, 0
        if not replies or self._transport.is_closing():
            return
        if reply_bytes < _JOINED_BYTES_MAX:
            self._transport.write(b"".join(replies))
        else:
            self._transport.writelines(replies)

    # Requests -------------------------------------------------------------------------------

    def _serve(self, frame: Frame) -> None:
        op, _, request_id, payload = frame
        if op == Op.PUT:
            self._puts.put(frame)
            return
        found = self._server.handlers.get(op)
        if found is None:
            if op in OPERATIONS:
                raise BadRequest(f"only the engine may send {OPERATIONS[op].name.lower()}s")
            raise BadRequest(f"opcode {op} is unknown")
        operation, handler = found
        request = operation.decode_request(payload)
        if self._holds:
            check_not_held(self._holds, request)
        handler(self, request_id, request)

    def challenge(self, request_id: int, request: ChallengeRequest) -> None:
        """Over a network it comes before there is a connection, see ``handshake.py``."""
        raise BadRequest("nothing is proved on a unix socket, or twice")

    def greet(self, request_id: int, request: HelloRequest) -> None:
        """From then on a client that listens gets notices."""
        check_shard(self._store.config, request.shard)
        if request.is_listening:
            self._listening.start()
        self.reply(Op.HELLO, request_id, self._server.calls[Op.HELLO](request))

    def refuse(self, request_id: int, request: object) -> None:
        """Nothing was done: its client asks the next owner."""
        raise ShuttingDown("the engine is stopping")

    def receive(self, request_id: int, request: ReceiveRequest) -> None:
        if request_id in self._parked:
            raise BadRequest(f"request id {request_id} is already in use")
        if self._store.consumption.is_exclusive(request.group):
            self._remember(membership_of(request))
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
            first_until_ms=delivered.first_until_ms,
        )
        records = delivered.read(self._store.read_records)
        self._reply_records(Op.RECEIVE, request_id, head, records)

    def subscribe(self, request_id: int, request: SubscribeRequest) -> None:
        reply = self._store.consumption.subscribe(request)
        self._remember(membership_of(request))
        self.reply(Op.SUBSCRIBE, request_id, reply)

    def _remember(self, membership: Membership) -> None:
        """Remember which members leave when the connection closes; forgotten ones expire when they
        are silent.
        """
        memberships = self._memberships
        memberships.pop(membership, None)
        memberships[membership] = None
        if len(memberships) > _MEMBERSHIPS_MAX:
            del memberships[next(iter(memberships))]

    def leave(self, request_id: int, request: LeaveRequest) -> None:
        """A receive of the member that waits for the bucket would make it a member again."""
        member = membership_of(request)

        def is_its_receive(frame: Frame) -> bool:
            return (
                frame.op == Op.RECEIVE
                and membership_of(Op.RECEIVE.decode_request(frame.payload)) == member
            )

        self._absent.fail_those(
            is_its_receive,
            OldMessagesUnavailable("the member has left while its receive waited for the bucket"),
        )
        self._memberships.pop(self._store.consumption.leave(request), None)
        self.reply(Op.LEAVE, request_id, Empty())

    def cancel(self, request_id: int, request: CancelRequest) -> None:
        self._absent.cancel(request.request_id)
        parked = self._parked.pop(request.request_id, None)
        if parked is not None:
            self._store.consumption.cancel(parked, answer=True)
        self.reply(Op.CANCEL, request_id, Empty())

    def save_session(self, request_id: int, request: SessionSaveRequest) -> None:
        self._listening.save_session(request)
        self.reply(Op.SESSION_KEEP, request_id, Empty())

    def session_absent(self, request_id: int, request: SessionAbsentRequest) -> None:
        self._listening.session_absent(request)
        self.reply(Op.SESSION_ABSENT, request_id, Empty())

    def take_session(self, request_id: int, request: SessionTakeRequest) -> None:
        self._listening.take_session(request_id, request)

    def redrive(self, request_id: int, request: RedriveRequest) -> None:
        answer = partial(self.reply, Op.REDRIVE, request_id)
        self._store.consumption.dead_letters.redrive(request, answer)

    def send_scheduled(self, request_id: int, request: ScheduledSendRequest) -> None:
        self._store.check_lasting(request.topic)
        answer = partial(self._reply_lasting, Op.SCHEDULED_SEND_NOW, request_id, request.topic)
        self._store.scheduled.send(request, answer)

    def move_scheduled(self, request_id: int, request: ScheduledMoveRequest) -> None:
        self._store.check_lasting(request.topic)
        answer = partial(self._reply_lasting, Op.SCHEDULED_MOVE, request_id, request.topic)
        self._store.scheduled.move(request, answer)

    def change(
        self,
        operation: Operation[ChangeT, ReplyT],
        call: Callable[[ChangeT], ReplyT],
        request_id: int,
        request: ChangeT,
    ) -> None:
        """``call`` changes something about messages of a topic, to last as they do."""
        if not isinstance(request, ScheduledCancelRequest) and request.is_dry_run:
            self.reply(operation, request_id, call(request))
            return
        self._store.check_lasting(request.topic)
        self._reply_lasting(operation, request_id, request.topic, call(request))

    def pull(self, request_id: int, request: PullRequest) -> None:
        head, records = self._store.pull(request)
        self._reply_records(Op.PULL, request_id, head, self._store.read_records(records))

    def look_up(self, request_id: int, request: LookUpRequest) -> None:
        self._reply_records(Op.LOOK_UP, request_id, *self._store.queries.look_up(request))

    def list_scheduled(self, request_id: int, request: ScheduledListRequest) -> None:
        self._reply_records(Op.SCHEDULED_LIST, request_id, *self._store.scheduled.page(request))

    def put_once(self, request_id: int, request: PutOnceRequest) -> None:
        self._store.once_puts.put(request, partial(self._ended, Op.PUT_ONCE, request_id))

    def put_topic(self, request_id: int, request: TopicConfig) -> None:
        answer = partial(self._ended, Op.TOPIC_PUT, request_id, Empty())
        self._store.catalog.topic_writes.put(request, answer)

    def put_group(self, request_id: int, request: GroupConfig) -> None:
        answer = partial(self._ended, Op.GROUP_PUT, request_id, Empty())
        self._store.catalog.group_writes.put(request, answer)

    def adopt_store(self, request_id: int, request: StoreAdoptRequest) -> None:
        """The connection ends soon after the reply, and the engine serves another store."""
        self._server.adopt(request)
        self.reply(Op.STORE_ADOPT, request_id, Empty())

    def checkpoint(self, request_id: int, _: Empty) -> None:
        self._reply_later(Op.CHECKPOINT, request_id, self._store.checkpoint())

    def hold_namespaces(self, request_id: int, request: NamespaceHoldRequest) -> None:
        self._move(Op.NAMESPACE_HOLD, request_id, partial(self._moving.hold, request))

    def release_namespaces(self, request_id: int, request: NamespaceReleaseRequest) -> None:
        self._move(Op.NAMESPACE_RELEASE, request_id, partial(self._moving.release, request))

    def drop_namespaces(self, request_id: int, request: NamespaceDropRequest) -> None:
        self._move(Op.NAMESPACE_DROP, request_id, partial(self._moving.drop, request))

    def discard_store(self, request_id: int, request: StoreDiscardRequest) -> None:
        self._move(Op.STORE_DISCARD, request_id, partial(self._moving.discard, request))

    @property
    def _moving(self) -> MovingNamespaces:
        return self._store.consumption.moving

    def _move(
        self,
        operation: Operation[Any, ReplyT],  # Any: whatever was asked
        request_id: int,
        step: Callable[[], ReplyT],
    ) -> None:
        self._reply_later(operation, request_id, self._store.move(step))

    def reply(self, operation: Operation[Any, ReplyT], request_id: int, reply: ReplyT) -> None:
        """Any: whatever was asked."""
        self._reply(operation, request_id, encode_struct(reply))

    def _reply_lasting(
        self,
        operation: Operation[Any, ReplyT],  # Any: whatever was asked
        request_id: int,
        topic: str,
        reply: ReplyT,
    ) -> None:
        waiting = self._store.lasting(topic)
        if waiting is None:
            self.reply(operation, request_id, reply)
        else:
            self._reply_later(operation, request_id, _then(waiting, reply))

    def _ended(
        self,
        operation: Operation[Any, ReplyT],  # Any: as above
        request_id: int,
        reply: ReplyT | None,
        error: StoreError | None,
    ) -> None:
        if error is not None:
            self._reply(operation, request_id, encode_error(error), error.code)
        else:
            assert reply is not None, "an answer without error has a reply"
            self.reply(operation, request_id, reply)

    def _reply_later(
        self,
        operation: Operation[Any, ReplyT],  # Any: as above
        request_id: int,
        work: Awaitable[ReplyT],
    ) -> None:
        async def finish() -> None:
            try:
                self._ended(operation, request_id, await work, None)
            except StoreError as exc:
                self._ended(operation, request_id, None, exc)
            except OSError as exc:
                unknown = OutcomeUnknown(f"the disk refused ({exc}); it may have been done")
                self._ended(operation, request_id, None, unknown)
                raise

        asyncio.ensure_future(finish()).add_done_callback(partial(_log_failure, operation.name))


class _OwnersConnection(_Connection):
    """One client of an engine that others may depose: what it is told must still be true."""

    _is_deposed = False
    # Each is answered by itself: one may wait for the replicated log, and the next for the disk.
    _is_single = staticmethod(_is_never_single)

    def send_replies(self) -> None:
        replication = self._store.replication
        assert replication is not None
        if self._is_deposed or replication.may_acknowledge():
            super().send_replies()
        else:
            self._transport.pause_reading()

    def resume_after_disk(self) -> None:
        replication = self._store.replication
        assert replication is not None
        if replication.may_acknowledge():
            super().resume_after_disk()
            self._read_again()

    def depose(self) -> None:
        """Keep back every success from now on; errors still go out, then the connection ends."""
        self._is_deposed = True
        self._replies.clear()
        self._reply_bytes = 0
        self._frames.clear()
        self._transport.pause_reading()
        self._loop.call_soon(self.close)

    def _reply(self, op: int, request_id: int, payload: bytes, status: int = 0) -> None:
        if status or not self._is_deposed:
            super()._reply(op, request_id, payload, status)

    def _reply_records(self, op: int, request_id: int, head: RecordsHead, records: bytes) -> None:
        if not self._is_deposed:
            super()._reply_records(op, request_id, head, records)


class _Handlers(dict[int, tuple[AnyOperation, Callable[[_Connection, int, Any], None]]]):
    """How each operation is served: by connection, request id and request. Any: the request of
    that operation, which ``add`` checks.
    """

    def add(
        self,
        operation: Operation[RequestT, Any],
        handler: Callable[[_Connection, int, RequestT], None],
    ) -> None:
        self[operation] = operation, handler

    def add_change(
        self, operation: Operation[ChangeT, ReplyT], call: Callable[[ChangeT], ReplyT]
    ) -> None:
        """``call`` changes something about messages of a topic, to last as they do."""

        def handler(connection: _Connection, request_id: int, request: ChangeT) -> None:
            connection.change(operation, call, request_id, request)

        self.add(operation, handler)

    def add_call(
        self, operation: Operation[RequestT, ReplyT], call: Callable[[RequestT], ReplyT]
    ) -> None:
        """``call`` answers at once."""

        def handler(connection: _Connection, request_id: int, request: RequestT) -> None:
            connection.reply(operation, request_id, call(request))

        self.add(operation, handler)


def _handlers_of(server: Server) -> _Handlers:
    handlers = _Handlers()
    for operation in server.calls:
        handlers.add_call(operation, server.calls[operation])
    handlers.add_change(Op.OFFSET_RESET, server.calls[Op.OFFSET_RESET])
    handlers.add_change(Op.TOPIC_PURGE, server.calls[Op.TOPIC_PURGE])
    handlers.add_change(Op.SCHEDULED_CANCEL, server.calls[Op.SCHEDULED_CANCEL])
    handlers.add_call(Op.STATS, lambda _: server.store.stats(len(server.connections)))
    handlers.add(Op.HELLO, _Connection.greet)
    handlers.add(Op.CHALLENGE, _Connection.challenge)
    handlers.add(Op.CANCEL, _Connection.cancel)
    handlers.add(Op.PULL, _Connection.pull)
    handlers.add(Op.RECEIVE, _Connection.receive)
    handlers.add(Op.LOOK_UP, _Connection.look_up)
    handlers.add(Op.LEAVE, _Connection.leave)
    handlers.add(Op.SUBSCRIBE, _Connection.subscribe)
    handlers.add(Op.SESSION_KEEP, _Connection.save_session)
    handlers.add(Op.SESSION_TAKE, _Connection.take_session)
    handlers.add(Op.SESSION_ABSENT, _Connection.session_absent)
    handlers.add(Op.TOPIC_PUT, _Connection.put_topic)
    handlers.add(Op.GROUP_PUT, _Connection.put_group)
    handlers.add(Op.CHECKPOINT, _Connection.checkpoint)
    handlers.add(Op.NAMESPACE_HOLD, _Connection.hold_namespaces)
    handlers.add(Op.NAMESPACE_RELEASE, _Connection.release_namespaces)
    handlers.add(Op.NAMESPACE_DROP, _Connection.drop_namespaces)
    handlers.add(Op.STORE_DISCARD, _Connection.discard_store)
    handlers.add(Op.PUT_ONCE, _Connection.put_once)
    handlers.add(Op.REDRIVE, _Connection.redrive)
    handlers.add(Op.SCHEDULED_LIST, _Connection.list_scheduled)
    handlers.add(Op.SCHEDULED_SEND_NOW, _Connection.send_scheduled)
    handlers.add(Op.SCHEDULED_MOVE, _Connection.move_scheduled)
    handlers.add(Op.STORE_ADOPT, _Connection.adopt_store)
    # Puts have the road of their own in ``_serve_frames`` and ``_serve``.
    asked = {each for each in OPERATIONS.values() if not each.is_from_engine} - {Op.PUT}
    unmatched = sorted(OPERATIONS[each].name for each in set(handlers) ^ asked)
    assert not unmatched, f"operations without a handler, or handlers without one: {unmatched}"
    return handlers


async def _then(waiting: Awaitable[None], reply: ReplyT) -> ReplyT:
    await waiting
    return reply


def _cannot_adopt(request: StoreAdoptRequest) -> None:
    raise BadRequest("this engine cannot serve another store")


def _remove_stale_socket(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)


def _log_failure(operation: str, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error(
            "A request failed",
            exc_info=task.exception(),
            extra={"action": "request_failed", "operation": operation},
        )
