"""Blocking client of the engine, for code without an event loop: Django views, Celery tasks, tools.

One request at a time on one connection, opened when first needed and again after a failure. Frames
and errors are those of ``async_client``. Thread-safe: a lock serialises the calls.

While a reply is awaited the engine is pinged; one that says nothing at all is given up after the
times of ``silence.py``, as in ``async_client``. Silence is counted in waits that ended without a
byte, not by a clock: a process that was itself stopped does not blame the engine.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from storage_engine.clock import Clock, SystemClock
from storage_engine.errors import (
    BadFrame,
    RecordRefused,
    StoreError,
    StoreUnavailable,
)
from storage_engine.wire.address import (
    Address,
    Credentials,
    Scheme,
    connect_failure,
    greeting_failure,
    keep_alive,
)
from storage_engine.wire.client_calls import BlockingCaller, ClientCalls
from storage_engine.wire.client_types import (
    ClientConfig,
    PutResult,
    Received,
    put_bytes_max,
)
from storage_engine.wire.deliveries import ReceiveRequest
from storage_engine.wire.frames import (
    Frame,
    FrameDecoder,
    decode_error,
    decode_put_reply,
    encode_frame,
    encode_struct,
)
from storage_engine.wire.groups import (
    GroupConfig,
    GroupRef,
    GroupStats,
)
from storage_engine.wire.operations import AnyOperation, Op, Operation
from storage_engine.wire.proof import ClientProof
from storage_engine.wire.protocol import (
    Empty,
    HelloReply,
    HelloRequest,
)
from storage_engine.wire.put_once import PutOncePlace, PutOnceRequest
from storage_engine.wire.reply_handlers import decode_received
from storage_engine.wire.scheduled import DeliverDueRequest
from storage_engine.wire.topics import (
    TopicConfig,
    TopicRef,
    TopicStats,
)

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
_READ_BYTES: Final = 256 * 1024
_PUTS_AT_ONCE: Final = 256  # of topics and groups: their replies fit any socket's buffer
# The engine answers what comes together in one turn of its loop, for which all others wait.
_CALLS_AT_ONCE: Final = 16


class StoreClient(ClientCalls, BlockingCaller):
    """See the module's docstring. ``timeout_ms`` bounds each step of a request to an engine that is
    alive.

    ``is_engine_silent`` says whether somebody else in this process knows that the engine does not
    answer: then nothing is sent, and what changes nothing waits no longer.
    """

    def __init__(
        self,
        address: str | Callable[[], str],
        *,
        client_name: str,
        shard: str = "",
        credentials: Credentials | None = None,
        timeout_ms: int = 10_000,
        config: ClientConfig | None = None,
        is_engine_silent: Callable[[], bool] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._find_address = address
        self._address = address if isinstance(address, str) else ""
        self._shard = shard
        self._credentials = credentials or Credentials()
        self._client_name = client_name
        self._timeout_ms = timeout_ms
        self._config = config or ClientConfig()
        self._is_engine_silent = is_engine_silent
        self._clock = clock or SystemClock()
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

    @property
    def shard(self) -> str:
        """The one that is meant, or that answers. Raises ``StoreError`` when it has to ask."""
        if not self._shard and self.hello is None:
            self.ping()
        return self._shard or (self.hello.shard if self.hello is not None else "")

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

    def call(self, operation: Operation[RequestT, ReplyT], request: RequestT) -> ReplyT:
        """One request and its reply. Raises ``StoreError``."""
        payload = self._request(operation, encode_struct(request), operation.wait_ms(request))
        return operation.decode_reply(payload)

    def group_stats_all(self, requests: Sequence[GroupRef]) -> list[GroupStats | StoreError]:
        """``group_stats`` of many groups: see ``_call_all``."""
        return self._call_all(Op.GROUP_STATS, requests)

    def topic_stats_all(self, requests: Sequence[TopicRef]) -> list[TopicStats | StoreError]:
        """``topic_stats`` of many topics: see ``_call_all``."""
        return self._call_all(Op.TOPIC_STATS, requests)

    def put(self, records: list[bytes]) -> list[PutResult]:
        """Append records of ``encode_record``; one result per record, in order."""
        payload = b"".join(records)
        return decode_put_reply(self._request(Op.PUT, payload), len(records))

    def put_once(self, records: list[bytes]) -> list[PutOncePlace]:
        """As a put, but records with a mark whose key is known are not stored again, and get the
        place of the first.
        """
        return self.call(Op.PUT_ONCE, PutOnceRequest(records=b"".join(records))).places

    def receive(self, request: ReceiveRequest) -> Received:
        """Lease messages, waiting up to ``request.wait_ms`` for the first."""
        return decode_received(self._request(Op.RECEIVE, encode_struct(request), request.wait_ms))

    def deliver_due(self, ahead_ms: int = 0) -> None:
        """Have the scheduled messages delivered that are due by now, or soon, at their time."""
        self.call(Op.DELIVER_DUE, DeliverDueRequest(ahead_ms=ahead_ms))

    def _call_all(
        self, operation: Operation[Any, ReplyT], requests: Sequence[object]
    ) -> list[ReplyT | StoreError]:
        """A round trip for several requests at a time instead of one for each.

        Returns a reply to each, or why there is none, in order. Raises ``OutcomeUnknown`` and
        ``StoreUnavailable``.
        """
        frames: list[Frame] = []
        with self._lock:
            for at in range(0, len(requests), _CALLS_AT_ONCE):
                some = requests[at : at + _CALLS_AT_ONCE]
                self._ensure_connected()
                frames += self._exchange_all([(operation, encode_struct(each)) for each in some])
        return [
            decode_error(frame.status, frame.payload)
            if frame.status
            else operation.decode_reply(frame.payload)
            for frame in frames
        ]

    def _request(self, op: AnyOperation, payload: bytes, extra_wait_ms: int = 0) -> bytes:
        with self._lock:
            self._ensure_connected()
            assert self.hello is not None
            if op is Op.PUT and len(payload) > put_bytes_max(self.hello):
                raise RecordRefused(
                    f"a put has {len(payload)} bytes, but at most "
                    f"{put_bytes_max(self.hello)} fit into a frame"
                )
            return self._exchange(op, payload, extra_wait_ms)

    def _is_known_silent(self) -> bool:
        return self._is_engine_silent is not None and self._is_engine_silent()

    def _ensure_connected(self) -> None:
        if self._is_known_silent():
            raise StoreUnavailable(f"the storage engine at {self._address} is not responding")
        if self._socket is None or self._pid != os.getpid() or self._has_ended(self._socket):
            self._connect()

    def _has_ended(self, connection: socket.socket) -> bool:
        """True when the engine has closed an idle connection, so that no request is wasted on
        it.
        """
        connection.settimeout(0)
        try:
            if isinstance(connection, ssl.SSLSocket):  # which cannot look without taking
                chunk = connection.recv(_READ_BYTES)
                self._decoder.feed(chunk)  # replies that nobody waits for
                return chunk == b""
            return connection.recv(1, socket.MSG_PEEK) == b""
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except (OSError, BadFrame):
            return True

    def _connect(self) -> None:
        self._disconnect()
        if not isinstance(self._find_address, str):
            self._address = self._find_address()
        address = Address.parse(self._address)
        try:
            self._socket = self._open(address)
        except OSError as exc:
            raise StoreUnavailable(
                f"no storage engine answers at {self._address}: {connect_failure(address, exc)}"
            ) from exc
        self._pid = os.getpid()
        self._decoder = FrameDecoder(FRAME_BYTES_MAX)
        try:
            proof = self._prove() if address.is_remote else b""
            hello = HelloRequest(client=self._client_name, proof=proof, shard=self._shard)
            reply = self._exchange(Op.HELLO, encode_struct(hello), 0)
            self.hello = Op.HELLO.decode_reply(reply)
        except StoreError as exc:
            self._disconnect()
            reason = greeting_failure(address, exc)
            raise StoreUnavailable(f"no greeting from {self._address}: {reason}") from exc

    def _open(self, address: Address) -> socket.socket:
        timeout_s = self._timeout_ms / 1_000
        if not address.is_remote:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(timeout_s)
            try:
                connection.connect(address.path)
            except OSError:
                connection.close()
                raise
            return connection
        timeout_s = min(timeout_s, self._config.give_up_after_ms / 1_000)
        connection = socket.create_connection((address.host, address.port), timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(connection)
        if address.scheme is Scheme.TCP:
            return connection
        try:
            return self._credentials.tls().wrap_socket(connection, server_hostname=address.host)
        except (OSError, StoreError):
            connection.close()
            raise

    def _prove(self) -> bytes:
        proof = ClientProof(self._credentials, self._shard)
        reply = self._exchange(Op.CHALLENGE, encode_struct(proof.challenge), 0)
        return proof.answer(Op.CHALLENGE.decode_reply(reply))

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exchange(self, op: AnyOperation, payload: bytes, extra_wait_ms: int) -> bytes:
        frame = self._exchange_all([(op, payload)], extra_wait_ms)[0]
        if frame.status:
            raise decode_error(frame.status, frame.payload)
        return frame.payload

    def _exchange_all(
        self, requests: Sequence[tuple[AnyOperation, bytes]], extra_wait_ms: int = 0
    ) -> list[Frame]:
        """The replies in the order of the requests, which are sent together."""
        assert self._socket is not None
        ids = [self._next_request_id() for _ in requests]
        frames = [
            encode_frame(op, request_id, payload)
            for request_id, (op, payload) in zip(ids, requests, strict=True)
        ]
        first_op = requests[0][0]
        try:
            self._socket.settimeout(min(self._timeout_ms, self._config.give_up_after_ms) / 1_000)
            self._socket.sendall(b"".join(frames))
            replies = self._read_replies(ids, first_op, self._timeout_ms + extra_wait_ms)
        except OSError as exc:
            self._disconnect()
            reason = f"the connection to the storage engine broke during {first_op.name}: {exc}"
            raise first_op.no_reply(reason) from exc
        except BadFrame:
            self._disconnect()
            raise
        return [replies[request_id] for request_id in ids]

    def _next_request_id(self) -> int:
        self._request_id = self._request_id % 0xFFFF_FFFF + 1
        return self._request_id

    def _read_replies(self, ids: list[int], op: AnyOperation, wait_ms: int) -> dict[int, Frame]:
        """Those to ``ids``, by id. Raises OSError when none has come for ``wait_ms``, or the engine
        has been silent for too long.
        """
        assert self._socket is not None
        config = self._config
        # Nobody waits long for the greeting of an engine: nothing was asked of it yet.
        is_greeting = op in (Op.HELLO, Op.CHALLENGE)
        silent_ms_max = config.silent_after_ms if is_greeting else config.give_up_after_ms
        replies: dict[int, Frame] = {}
        missing = set(ids)
        silent_ms = 0
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        while missing:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                raise TimeoutError(f"no answer within {wait_ms} ms")
            step_ms = min(left_ms, config.ping_after_ms)
            self._socket.settimeout(step_ms / 1_000)
            try:
                came = self._read_frames()
            except TimeoutError:
                if silent_ms == 0:
                    self._ping()
                silent_ms += step_ms
                is_hopeless = op.is_harmless and self._is_known_silent()
                if silent_ms >= silent_ms_max or is_hopeless:
                    raise TimeoutError(
                        f"the storage engine has not answered for {silent_ms} ms"
                    ) from None
                continue
            silent_ms = 0
            for frame in came:
                if frame.request_id == 0 and frame.status:  # of the connection, which ends now
                    raise ConnectionResetError(str(decode_error(frame.status, frame.payload)))
            if any(frame.op != Op.PING or frame.request_id in missing for frame in came):
                deadline_ms = self._clock.monotonic_ms() + wait_ms
            replies |= {frame.request_id: frame for frame in came}
            missing.difference_update(replies)
        return replies

    def _ping(self) -> None:
        """Have the engine say something if it is alive; nobody waits for this very reply."""
        assert self._socket is not None
        self._socket.sendall(encode_frame(Op.PING, self._next_request_id(), encode_struct(Empty())))

    def _read_frames(self) -> list[Frame]:
        """Those that the next bytes complete, which may be none."""
        assert self._socket is not None
        chunk = self._socket.recv(_READ_BYTES)
        if not chunk:
            raise ConnectionResetError("the storage engine closed the connection")
        return self._decoder.feed(chunk)
