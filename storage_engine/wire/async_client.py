"""Asyncio client of the engine: one connection, many requests in flight, automatic reconnects.

    put, put, put ──▶ [put_lane] ── one PUT frame ──▶ engine
    receive, settle, … ──▶ one frame each ──────────▶ engine
    futures ◀── matched by request_id ◀── reply frames ◀── engine

Promises: nothing is sent twice by itself that changes anything. A call while disconnected, or while
the engine is silent (``silence.py``), fails at once with ``StoreUnavailable`` (nothing was sent);
it waits first if the engine has a replicated log, by which another one may take over
(``held_calls.py``), and so does one that such an engine refuses because it stops. One whose
connection breaks, that waits longer than its limit, or whose engine stays silent fails with
``OutcomeUnknown``, or with ``StoreUnavailable`` if it changes nothing. What a receive leased that
nobody waits for any more is given back when its reply comes. Bytes in flight are bounded. Not
thread-safe: one event loop owns it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import chain, repeat
from typing import Final, Protocol, TypeVar

from storage_engine.clock import Clock, SystemClock
from storage_engine.errors import (
    RecordRefused,
    ShuttingDown,
    StoreBusy,
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
from storage_engine.wire.client_calls import AsyncCaller, ClientCalls
from storage_engine.wire.client_connection import ClientConnection
from storage_engine.wire.client_types import (
    ClientConfig,
    PutResult,
    Received,
    put_bytes_max,
)
from storage_engine.wire.deliveries import ReceiveRequest, SettleRequest
from storage_engine.wire.frames import (
    decode_error,
    encode_frame,
    encode_frame_head,
    encode_struct,
)
from storage_engine.wire.held_calls import HeldCalls
from storage_engine.wire.notices import Notice
from storage_engine.wire.operations import AnyOperation, Op, Operation
from storage_engine.wire.proof import ClientProof
from storage_engine.wire.protocol import CancelRequest, Empty, HelloReply, HelloRequest
from storage_engine.wire.put_lane import (
    LOCAL_FRAMES_MAX,
    REPLICATED_FRAMES_MAX,
    PutCall,
    PutLane,
    PutWaiter,
    complete_puts,
    fail_puts,
)
from storage_engine.wire.put_once import PutOncePlace, PutOnceRequest
from storage_engine.wire.reply_handlers import (
    ReceiveCall,
    ReceiveReplyHandler,
    SettleCall,
    SettleReplyHandler,
    decode_received,
    release_of,
)
from storage_engine.wire.scheduled import DeliverDueRequest
from storage_engine.wire.silence import SilenceWatch

log = logging.getLogger(__name__)

_FIND_INTERVAL_MS: Final = 1_000
_REQUEST_IDS: Final = range(1, 1 << 32)  # 0 is the connection's own

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


class _Call(Protocol):
    """Who waits for a reply: an ``asyncio.Future`` of its payload, or what does as one."""

    def done(self) -> bool: ...

    def set_result(self, payload: bytes, /) -> None: ...

    def set_exception(self, error: StoreError, /) -> None: ...


class _InFlight:
    """``call`` is None when nobody waits; a PUT frame has ``puts`` and their ``lane`` instead.
    ``payload``: what was sent, where another engine may take over; it is sent to that one if this
    one refuses it because it stops, and, where ``may_repeat``, if the connection breaks.
    ``extra_wait_ms``: how long the engine may take on purpose.
    """

    __slots__ = (
        "call", "deadline_ms", "extra_wait_ms", "lane", "may_repeat", "op", "origin", "payload",
        "put_bytes", "puts",
    )  # fmt: skip

    lane: PutLane

    def __init__(
        self, op: AnyOperation, call: _Call | None, deadline_ms: int, extra_wait_ms: int = 0
    ) -> None:
        self.op = op
        self.call = call
        self.deadline_ms = deadline_ms
        self.extra_wait_ms = extra_wait_ms
        self.origin: ReceiveRequest | None = None
        self.payload: bytes | None = None
        self.may_repeat = False
        self.puts: list[PutWaiter] = []
        self.put_bytes = 0

    @property
    def is_awaited(self) -> bool:
        """Whether somebody would be told of a reply."""
        return self.call is not None or bool(self.puts)


class AsyncStoreClient(ClientCalls, AsyncCaller):
    """See the module's docstring."""

    def __init__(
        self,
        address: str | Callable[[], Awaitable[str]],
        *,
        client_name: str,
        shard: str = "",
        credentials: Credentials | None = None,
        config: ClientConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        """``address``: see ``address.py``; one that is called is asked before each attempt to
        connect, and raises ``StoreError`` when nobody knows. ``shard``: an engine that owns another
        one is refused.
        """
        self._find_address = address
        self._address = address if isinstance(address, str) else ""
        self._shard = shard
        self._credentials = credentials or Credentials()
        self._client_name = client_name
        self._config = config or ClientConfig()
        self._clock = clock or SystemClock()
        # Kept, since asking for the running loop costs a system call in Python 3.11.
        self._loop: asyncio.AbstractEventLoop
        self._transport: asyncio.Transport | None = None
        # The same while requests are taken: from the greeting on, unless the engine is silent.
        self._answering: asyncio.Transport | None = None
        self._silence = SilenceWatch(self._clock, self._config.sweep_interval_ms)
        self._is_pinged = False  # since the engine was last heard
        self._greeted_ms = 0  # when the connection was made
        self._is_greeted = False  # on this connection
        self._find_again_ms = 0
        self._inflight: dict[int, _InFlight] = {}
        self._request_ids = chain.from_iterable(repeat(_REQUEST_IDS))  # of frames, round and round
        frame_bytes = self._config.put_frame_bytes
        self._local_puts = PutLane(LOCAL_FRAMES_MAX, frame_bytes)
        self._replicated_puts = PutLane(REPLICATED_FRAMES_MAX, frame_bytes)
        self._held = HeldCalls(self._config, self._clock, self._unavailable)
        self._may_be_replaced = False  # another engine may take the shard over
        self._unsent: list[bytes] = []  # written by ``_write``, which is scheduled
        self._settle_count = 0  # of them, which are the first
        self._is_writing = False
        self._runner: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()
        self._is_closed = False
        self._last_failure = "not started"
        self._refusal = ""  # why an engine did not let this client in, as it was logged
        self._greeting_failure = ""  # how the connection broke before that
        self._put_bytes_max = 0  # of one put, which always travels in one frame; the engine tells
        self._on_notice: Callable[[Notice], None] | None = None
        self.hello: HelloReply | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the engine answers: False also while there is a connection on which it does
        not.
        """
        return self._connected.is_set()

    @property
    def is_silent(self) -> bool:
        """Whether there is a connection, but the engine says nothing on it. Any thread may ask."""
        if self._transport is None or self._answering is not None:
            return False
        waited_ms = self._clock.monotonic_ms() - self._greeted_ms
        return waited_ms >= self._config.silent_after_ms

    def start(self) -> None:
        """Begin to connect, and keep connected until ``aclose``. Needs a running loop."""
        if self._runner is None:
            self._loop = asyncio.get_running_loop()
            self._runner = self._loop.create_task(self._keep_connected())

    async def wait_connected(self, timeout_ms: int) -> None:
        """Raises ``StoreUnavailable`` when the engine has not answered within ``timeout_ms``."""
        self.start()
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._connected.wait()
        except TimeoutError as exc:
            raise self._unavailable() from exc

    def listen(self, heard: Callable[[Notice], None]) -> None:
        """Have ``heard`` called with each notice of the engine; it must not raise. Those of a time
        without a connection are missed.
        """
        self._on_notice = heard
        if self._is_greeted:
            self._send_without_reply(
                Op.HELLO, HelloRequest(client=self._client_name, is_listening=True)
            )

    def reconnect(self) -> None:
        """Look for the engine anew, at once: it answers elsewhere, or somebody knows better where.

        Requests in flight fail as when the connection breaks.
        """
        if self._runner is not None and not self._is_closed:
            self._runner.cancel()
            self._runner = self._loop.create_task(self._connect_after(self._runner))

    async def _connect_after(self, runner: asyncio.Task[None]) -> None:
        await asyncio.wait([runner])
        await self._keep_connected()

    async def aclose(self) -> None:
        """Close the connection; requests in flight fail as when it breaks."""
        self._is_closed = True
        if self._runner is not None:
            self._runner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._runner
            self._runner = None
        self._held.fail_all()

    def put(self, records: list[bytes]) -> asyncio.Future[list[PutResult]]:
        """Append records of ``encode_record``; puts that come close together share a frame.

        Returns:
            a future of one result per record, in order; done when the engine calls them stored,
            which for a ``sync`` topic means that the disk has them (part of one fsync).

        Raises (from the future):
            StoreUnavailable, OutcomeUnknown, StoreBusy, DiskFull, SyncFailed, ShuttingDown.
        """
        loop = asyncio.get_running_loop() if self._transport is None else self._loop
        future: asyncio.Future[list[PutResult]] = loop.create_future()
        try:
            self.put_for(future, records)
        except StoreError as error:
            future.set_exception(error)
        return future

    def put_for(self, call: PutCall, records: list[bytes], *, is_replicated: bool = False) -> None:
        """``put`` for one who needs no future: ``call`` is told what it would be.

        ``is_replicated``: the topics are, so that nothing else should wait for the reply.

        Raises, and tells nobody, when nothing was sent:
            StoreUnavailable, RecordRefused, StoreBusy, ShuttingDown.
        """
        put_bytes = sum(map(len, records))
        if self._answering is None or self._answering.is_closing():
            send = partial(self._put_held, call, records, is_replicated)
            fail = partial(_fail_call, call)
            self._hold(next(self._request_ids), put_bytes, send, fail)
            return
        lane = self._replicated_puts if is_replicated else self._local_puts
        if put_bytes > self._put_bytes_max:
            raise RecordRefused(
                f"a put has {put_bytes} bytes, but at most {self._put_bytes_max} fit into a frame"
            )
        if lane.inflight_bytes + lane.waiting_bytes > self._config.put_inflight_bytes_max:
            raise StoreBusy(
                f"{lane.inflight_bytes + lane.waiting_bytes} bytes are waiting for the storage "
                "engine already; try again later"
            )
        may_send = lane.add(call, records, put_bytes)
        if lane.waiting_bytes >= self._config.put_hold_bytes and not is_replicated:
            self._send_puts(lane)
        elif may_send and not lane.is_sending:
            lane.is_sending = True
            self._loop.call_soon(self._send_puts, lane)

    def _put_held(self, call: PutCall, records: list[bytes], is_replicated: bool) -> None:
        if call.done():
            return
        try:
            self.put_for(call, records, is_replicated=is_replicated)
        except StoreError as error:
            call.set_exception(error)

    def receive_for(self, told: ReceiveReplyHandler, request: ReceiveRequest) -> ReceiveCall:
        """``receive`` for one who needs no task: ``told`` is told. Raises, and tells nobody, when
        nothing was sent: StoreUnavailable, StoreBusy, ShuttingDown.
        """
        call = ReceiveCall(self, request, told)
        call.request_id, _ = self._start_request(Op.RECEIVE, request, call, request.wait_ms)
        return call

    def settle_for(self, told: SettleReplyHandler, request: SettleRequest) -> None:
        """``settle`` for one who needs no task; as ``receive_for``."""
        self._start_request(Op.SETTLE, request, SettleCall(told))

    async def call(self, operation: Operation[RequestT, ReplyT], request: RequestT) -> ReplyT:
        """One request and its reply. Raises ``StoreError``."""
        payload = await self._request(operation, request, operation.wait_ms(request))
        return operation.decode_reply(payload)

    async def receive(self, request: ReceiveRequest) -> Received:
        """Lease messages, parked up to ``request.wait_ms``. Cancelling gives the place and leases
        back. Never held: who receives again and again has more to do on a new connection.
        """
        if self._answering is None or self._answering.is_closing():
            raise self._unavailable()
        payload = await self._request(Op.RECEIVE, request, request.wait_ms, may_repeat=False)
        return decode_received(payload)

    async def put_once(self, records: list[bytes], window_ms: int = 0) -> list[PutOncePlace]:
        """Append records of ``encode_record``; those with a mark whose key is known are not stored
        again, and get the place of the first. Done when all of it is as durable as after a put.

        ``window_ms``: as of the request. Raises as a put does; ``StoreBusy`` also when no more keys
        can be remembered.
        """
        request = PutOnceRequest(records=b"".join(records), window_ms=window_ms)
        return (await self.call(Op.PUT_ONCE, request)).places

    async def deliver_due(self, ahead_ms: int = 0) -> None:
        """Have the scheduled messages delivered that are due by now, or soon, at their time."""
        await self.call(Op.DELIVER_DUE, DeliverDueRequest(ahead_ms=ahead_ms))

    async def _request(
        self,
        op: AnyOperation,
        request: object,
        extra_wait_ms: int = 0,
        *,
        may_repeat: bool = True,
    ) -> bytes:
        loop = asyncio.get_running_loop() if self._transport is None else self._loop
        future: asyncio.Future[bytes] = loop.create_future()
        request_id, entry = self._start_request(
            op, request, future, extra_wait_ms, may_repeat=may_repeat
        )
        try:
            return await future
        except asyncio.CancelledError:
            self._held.drop(request_id)
            if entry.origin is not None:
                if request_id in self._inflight:
                    self.cancel(request_id)
                elif not future.cancelled() and future.exception() is None:
                    # The reply came in the same tick as the cancellation: nobody will see it.
                    self.release(entry.origin, future.result())
            raise

    def _start_request(
        self,
        op: AnyOperation,
        request: object,
        call: _Call,
        extra_wait_ms: int = 0,
        *,
        may_repeat: bool = True,
    ) -> tuple[int, _InFlight]:
        """``may_repeat``: if it changes nothing, it may be sent again, once, when the connection
        breaks.
        """
        if self._answering is None or self._answering.is_closing():
            return self._hold_request(op, request, call, extra_wait_ms)
        if len(self._inflight) >= self._config.inflight_count_max:
            raise StoreBusy(
                f"{len(self._inflight)} requests are waiting for the storage engine "
                "already; try again later"
            )
        request_id, entry = self._register(op, call, extra_wait_ms)
        if isinstance(request, ReceiveRequest):
            entry.origin = request
        payload = encode_struct(request)
        if self._may_be_replaced:
            entry.payload, entry.may_repeat = payload, may_repeat and op.is_harmless
        self._send(op, encode_frame(op, request_id, payload))
        return request_id, entry

    def _register(
        self, op: AnyOperation, call: _Call | None, extra_wait_ms: int = 0
    ) -> tuple[int, _InFlight]:
        request_id = next(self._request_ids)
        deadline_ms = self._deadline_ms(extra_wait_ms)
        entry = self._inflight[request_id] = _InFlight(op, call, deadline_ms, extra_wait_ms)
        return request_id, entry

    def _deadline_ms(self, extra_wait_ms: int = 0) -> int:
        return self._clock.monotonic_ms() + self._config.request_timeout_ms + extra_wait_ms

    def _hold(
        self,
        request_id: int,
        size_bytes: int,
        send: Callable[[], None],
        fail: Callable[[StoreError], None],
    ) -> None:
        """Send it on the next connection. Raises what it fails with where nothing may wait."""
        if self._may_be_replaced and not self._is_closed:
            self._held.begin()
            if self._held.hold(request_id, size_bytes, send, fail):
                return
        raise self._unavailable()

    def _hold_request(
        self, op: AnyOperation, request: object, call: _Call, extra_wait_ms: int
    ) -> tuple[int, _InFlight]:
        request_id, entry = next(self._request_ids), _InFlight(op, call, 0, extra_wait_ms)
        if isinstance(request, ReceiveRequest):
            entry.origin = request
        entry.payload = payload = encode_struct(request)
        self._hold_entry(request_id, entry, payload)
        return request_id, entry

    def _hold_entry(self, request_id: int, entry: _InFlight, payload: bytes) -> None:
        def send() -> None:
            call = entry.call
            if call is not None and not call.done():
                entry.deadline_ms = self._deadline_ms(entry.extra_wait_ms)
                self._inflight[request_id] = entry
                self._send(entry.op, encode_frame(entry.op, request_id, payload))

        self._hold(request_id, len(payload), send, partial(_fail_entry, entry))

    def _is_held_after_refusal(self, request_id: int, entry: _InFlight, status: int) -> bool:
        """Whether an engine that stops has refused it, so that it waits for the next one."""
        if status != ShuttingDown.code or entry.payload is None:
            return False
        if entry.op is Op.PUT:
            self._hold_puts(entry.lane, entry.payload, entry.puts)
            return True
        try:
            self._hold_entry(request_id, entry, entry.payload)
        except StoreError:
            return False
        return True

    def _hold_unsent(self, lane: PutLane) -> None:
        """What waits in a lane was not sent: it waits on, or fails."""
        for payload, waiters in lane.take():
            self._hold_puts(lane, payload, waiters)

    def _hold_puts(self, lane: PutLane, payload: bytes, waiters: list[PutWaiter]) -> None:
        send = partial(self._send_put_frame, lane, payload, waiters)
        fail = partial(fail_puts, waiters)
        try:
            self._hold(next(self._request_ids), len(payload), send, fail)
        except StoreError as error:
            fail(error)

    def _resume_held(self) -> None:
        self._held.resume()
        self._write()

    def cancel(self, request_id: int) -> None:
        """End a receive: the reply still comes, and what it leased is given back."""
        self._held.drop(request_id)
        if request_id in self._inflight:
            self._send_without_reply(Op.CANCEL, CancelRequest(request_id=request_id))

    def release(self, origin: ReceiveRequest, payload: bytes) -> None:
        """Release what a reply leased, which nobody has seen."""
        request = release_of(origin, payload)
        if request is not None:
            self._send_without_reply(Op.SETTLE, request)

    def _send_without_reply(self, op: AnyOperation, request: object) -> None:
        """Send what nobody waits for, if there is a connection."""
        if self._transport is not None and not self._transport.is_closing():
            request_id, _ = self._register(op, None)
            self._send(op, encode_frame(op, request_id, encode_struct(request)))

    def _send(self, op: AnyOperation, frame: bytes) -> None:
        """Write with all frames of this turn of the loop: each write is a system call. Settles go
        first: many of a kind cost the engine less, and no other frame must come before them.
        """
        if op is Op.SETTLE:
            self._unsent.insert(self._settle_count, frame)
            self._settle_count += 1
        else:
            self._unsent.append(frame)
        if not self._is_writing:
            self._is_writing = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._is_writing = False
        frames, self._unsent, self._settle_count = self._unsent, [], 0
        # Who waits for what a lost connection did not send was told when it was lost.
        if frames and self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(frames)

    def _put_frame_ended(self, entry: _InFlight) -> None:
        """Send what has come meanwhile before those who waited for the frame are told: the engine
        works on it while they are.
        """
        if entry.lane.answered(entry.put_bytes):
            self._send_puts(entry.lane)

    def _send_puts(self, lane: PutLane) -> None:
        lane.is_sending = False
        if self._answering is None or self._answering.is_closing():
            self._hold_unsent(lane)
            return
        for payload, waiters in lane.take():
            self._send_put_frame(lane, payload, waiters)
        self._write()

    def _send_put_frame(self, lane: PutLane, payload: bytes, waiters: list[PutWaiter]) -> None:
        """With the next write."""
        request_id, entry = self._register(Op.PUT, None)
        entry.puts, entry.lane = waiters, lane
        entry.put_bytes = len(payload)
        entry.payload = payload if self._may_be_replaced else None
        lane.sent(len(payload))
        self._unsent += encode_frame_head(Op.PUT, request_id, payload), payload

    def replied(self, op: int, status: int, request_id: int, payload: bytes) -> None:
        """Called by the connection for each reply frame."""
        entry = self._inflight.pop(request_id, None)
        if entry is None:
            if op == Op.NOTICE and self._on_notice is not None:
                self._on_notice(Op.NOTICE.decode_reply(payload))
            elif request_id == 0 and status:  # of the connection, which ends now
                self.connection_failed(str(decode_error(status, payload)))
            return  # otherwise it had timed out
        if entry.op is Op.PUT:
            self._put_frame_ended(entry)
            if not status:
                complete_puts(entry.puts, payload)
            elif not self._is_held_after_refusal(request_id, entry, status):
                fail_puts(entry.puts, decode_error(status, payload))
            return
        call = entry.call
        if call is None or call.done():
            if entry.origin is not None and status == 0:
                self.release(entry.origin, payload)
        elif not status:
            call.set_result(payload)
        elif not self._is_held_after_refusal(request_id, entry, status):
            call.set_exception(decode_error(status, payload))

    async def _keep_connected(self) -> None:
        delay_ms = self._config.reconnect_min_ms
        while not self._is_closed:
            try:
                transport, connection, address = await self._connect()
            except StoreError as exc:
                self._last_failure = str(exc)
            else:
                try:
                    if await self._greet(transport, address):
                        delay_ms = self._config.reconnect_min_ms
                        await self._watch(connection, transport)
                finally:
                    self._lost(connection)
            # Jitter keeps a fleet of clients from knocking in step after an engine's restart.
            await asyncio.sleep(delay_ms * random.uniform(0.5, 1.0) / 1_000)
            delay_ms = min(delay_ms * 2, self._config.reconnect_max_ms)

    async def _connect(self) -> tuple[asyncio.Transport, ClientConnection, Address]:
        """Raises ``StoreError``."""
        if not isinstance(self._find_address, str):
            self._address = await self._find_address()
        address = Address.parse(self._address)
        make = partial(ClientConnection, self, self._config.frame_bytes_max, self._silence)
        try:
            if not address.is_remote:
                made = await self._loop.create_unix_connection(make, address.path)
            else:
                is_tls = address.scheme is Scheme.TLS
                async with asyncio.timeout(self._config.connect_timeout_ms / 1_000):
                    made = await self._loop.create_connection(
                        make,
                        address.host,
                        address.port,
                        ssl=self._credentials.tls() if is_tls else None,
                    )
                keep_alive(made[0].get_extra_info("socket"))
        except OSError as exc:
            raise StoreUnavailable(connect_failure(address, exc)) from exc
        return *made, address

    async def _greet(self, transport: asyncio.Transport, address: Address) -> bool:
        self._greeted_ms = self._clock.monotonic_ms()
        self._greeting_failure = ""
        self._transport = transport
        try:
            async with asyncio.timeout(self._config.request_timeout_ms / 1_000):
                request = HelloRequest(
                    client=self._client_name,
                    proof=await self._prove() if address.is_remote else b"",
                    shard=self._shard,
                    is_listening=self._on_notice is not None,
                )
                reply = Op.HELLO.decode_reply(await self._ask(Op.HELLO, request))
        except (StoreError, TimeoutError) as exc:
            broken = self._greeting_failure
            self._refused(greeting_failure(address, StoreUnavailable(broken) if broken else exc))
            return False
        self.hello = reply
        self._may_be_replaced = reply.is_replicated
        self._is_greeted, self._refusal = True, ""
        if self._on_notice is not None and not request.is_listening:  # since it was sent
            self.listen(self._on_notice)
        self._put_bytes_max = put_bytes_max(reply)
        self._silence.begin()
        self._is_pinged = False
        self._answering = transport
        self._connected.set()
        self._resume_held()
        return True

    async def _prove(self) -> bytes:
        proof = ClientProof(self._credentials, self._shard)
        return proof.answer(
            Op.CHALLENGE.decode_reply(await self._ask(Op.CHALLENGE, proof.challenge))
        )

    async def _ask(self, op: AnyOperation, request: object) -> bytes:
        """A request before the engine takes any other."""
        reply: asyncio.Future[bytes] = self._loop.create_future()
        request_id, _ = self._register(op, reply)
        self._send(op, encode_frame(op, request_id, encode_struct(request)))
        return await reply

    def _refused(self, reason: str) -> None:
        """An engine is there and does not let this client in, which an operator has to see to."""
        if reason != self._refusal:  # once, and not at each attempt
            log.warning(
                "The storage engine did not let this process in",
                extra={"action": "greeting_failed", "address": self._address, "reason": reason},
            )
        self._last_failure = self._refusal = reason

    async def _watch(self, connection: ClientConnection, transport: asyncio.Transport) -> None:
        """Until the connection ends, fail what has waited too long, and notice silence."""
        while not connection.ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._config.sweep_interval_ms / 1_000):
                    await connection.ended.wait()
            self._check_silence(transport)
            if self._answering is None and await self._has_moved():
                return
            now_ms = self._clock.monotonic_ms()
            for request_id, entry in list(self._inflight.items()):
                if entry.deadline_ms <= now_ms:
                    self._give_up(
                        request_id,
                        entry,
                        f"the storage engine did not reply to {entry.op.name} in time",
                    )

    async def _has_moved(self) -> bool:
        """Whether an engine that is silent is no more the one to talk to; asked once a second."""
        now_ms = self._clock.monotonic_ms()
        if isinstance(self._find_address, str) or now_ms < self._find_again_ms:
            return False
        self._find_again_ms = now_ms + _FIND_INTERVAL_MS
        with contextlib.suppress(StoreError):
            return await self._find_address() != self._address
        return False

    def _check_silence(self, transport: asyncio.Transport) -> None:
        config = self._config
        silent_ms = self._silence.check(transport.get_write_buffer_size())
        if silent_ms < config.ping_after_ms:
            self._is_pinged = False
            if self._answering is None and not transport.is_closing():
                self._engine_responds_again(transport)
            return
        if not self._is_pinged:
            self._is_pinged = True
            self._send_without_reply(Op.PING, Empty())
        if silent_ms >= config.silent_after_ms and self._answering is not None:
            self._engine_fell_silent(silent_ms)
        if silent_ms >= config.give_up_after_ms:
            for request_id, entry in list(self._inflight.items()):
                if entry.is_awaited:
                    reason = f"the storage engine stopped answering during {entry.op.name}"
                    self._give_up(request_id, entry, reason)

    def _engine_fell_silent(self, silent_ms: int) -> None:
        """Take no more requests. The connection stays: with it the engine would take the members
        that are known by it for gone, and what it still reads could not be matched to its replies.
        """
        self._answering = None
        self._connected.clear()
        log.warning(
            "The storage engine is not responding; rejecting requests until it does",
            extra={
                "action": "engine_silent",
                "silent_ms": silent_ms,
                "inflight_count": len(self._inflight),
            },
        )
        self._held.begin()
        self._hold_unsent(self._local_puts)
        self._hold_unsent(self._replicated_puts)

    def _engine_responds_again(self, transport: asyncio.Transport) -> None:
        self._answering = transport
        self._connected.set()
        log.info("The storage engine is responding again", extra={"action": "engine_recovered"})
        # Replies to what was asked before come now.
        deadline_ms = self._clock.monotonic_ms() + self._config.request_timeout_ms
        for entry in self._inflight.values():
            entry.deadline_ms = max(entry.deadline_ms, deadline_ms)
        self._resume_held()

    def _give_up(self, request_id: int, entry: _InFlight, reason: str) -> None:
        """Tell who waits for a reply that none has come.

        A receive stays known until it comes, so that what it leased can be given back.
        """
        is_abandoned = entry.origin is not None and not entry.is_awaited
        if is_abandoned and self._answering is None:
            return
        if entry.origin is None or is_abandoned:
            del self._inflight[request_id]
        else:
            self.cancel(request_id)
            entry.deadline_ms = self._clock.monotonic_ms() + self._config.request_timeout_ms
        if entry.op is Op.PUT:
            # An engine that hangs gets no more; those who wait know for sure.
            for _, waiters in entry.lane.take():
                fail_puts(waiters, StoreUnavailable("the storage engine is not responding"))
            self._put_frame_ended(entry)
        _fail_entry(entry, entry.op.no_reply(reason))
        entry.call = None

    def _lost(self, connection: ClientConnection) -> None:
        self._connected.clear()
        self._transport = self._answering = None
        self._is_greeted = False
        self._unsent, self._settle_count = [], 0
        connection.leave()
        self._fail_inflight()

    def _fail_inflight(self) -> None:
        entries, self._inflight = self._inflight, {}
        self._held.begin()
        for lane in (self._local_puts, self._replicated_puts):
            lane.forget_sent()
            self._hold_unsent(lane)
        for request_id, entry in entries.items():
            if self._is_held_again(request_id, entry):
                continue
            reason = f"the connection to the storage engine broke during {entry.op.name}"
            _fail_entry(entry, entry.op.no_reply(reason))

    def _is_held_again(self, request_id: int, entry: _InFlight) -> bool:
        """Whether it is sent once more, on the next connection. Not a third time: it may be what
        ends the engine.
        """
        if entry.payload is None or not entry.may_repeat or not entry.is_awaited:
            return False
        entry.may_repeat = False
        try:
            self._hold_entry(request_id, entry, entry.payload)
        except StoreError:
            return False
        return True

    def _unavailable(self) -> StoreError:
        if self._is_closed:
            return ShuttingDown("this client is closed")
        if self._transport is not None and self._silence.silent_ms:
            return StoreUnavailable(
                f"the storage engine at {self._address} has not answered for "
                f"{self._silence.silent_ms} ms"
            )
        return StoreUnavailable(
            f"no storage engine answers at {self._address}: {self._last_failure}"
        )

    def connection_failed(self, reason: str) -> None:
        """Called by the connection when the peer broke the protocol or the transport."""
        if self._is_greeted:
            self._last_failure = reason
        else:
            self._greeting_failure = reason
        self._fail_inflight()


def _fail_entry(entry: _InFlight, error: StoreError) -> None:
    """Tell whoever waits for this request that it failed."""
    if entry.call is not None and not entry.call.done():
        entry.call.set_exception(error)
    fail_puts(entry.puts, error)


def _fail_call(call: PutCall, error: StoreError) -> None:
    if not call.done():
        call.set_exception(error)
