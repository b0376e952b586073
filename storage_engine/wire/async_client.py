"""Asyncio door to an engine: one connection, many requests in flight, reconnects by itself.

    put, put, put ──▶ [put_coalescer] ── one PUT frame ──▶ engine
    receive, settle, … ──▶ one frame each ───────────────▶ engine
    futures ◀── matched by request_id ◀── reply frames ◀── engine

Promises: nothing is sent twice by itself. A call while disconnected fails at once with
``StoreUnavailable`` (nothing was sent); one whose connection breaks, or that waits longer than its
limit, fails with ``OutcomeUnknown``. Bytes in flight are bounded. Not thread-safe: one event loop
owns it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from storage_engine.clock import Clock, SystemClock
from storage_engine.errors import (
    OutcomeUnknown,
    RecordRefused,
    ShuttingDown,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from storage_engine.records.record_run import decode_records
from storage_engine.wire.async_calls import AsyncCalls
from storage_engine.wire.client_connection import ClientConnection
from storage_engine.wire.client_types import (
    ClientConfig,
    PutResult,
    Received,
    put_bytes_max,
)
from storage_engine.wire.deliveries import Nack, ReceiveRequest, SettleRequest
from storage_engine.wire.frames import (
    decode_error,
    decode_receive_reply,
    decode_reply,
    encode_frame,
    encode_frame_head,
    encode_struct,
)
from storage_engine.wire.inflight import InFlight, fail_entry
from storage_engine.wire.notices import Notice
from storage_engine.wire.protocol import CancelRequest, HelloReply, HelloRequest, Op
from storage_engine.wire.put_coalescer import PutCall, PutCoalescer, answer_puts, fail_puts
from storage_engine.wire.struct import Wire

log = logging.getLogger(__name__)

ReplyT = TypeVar("ReplyT", bound=Wire)


class AsyncStoreClient(AsyncCalls):
    """See the module's docstring."""

    def __init__(
        self,
        socket_path: str,
        *,
        client_name: str,
        config: ClientConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._socket_path = socket_path
        self._client_name = client_name
        self._config = config or ClientConfig()
        self._clock = clock or SystemClock()
        # Kept, since asking for the running loop costs a system call in Python 3.11.
        self._loop: asyncio.AbstractEventLoop
        self._transport: asyncio.Transport | None = None
        self._inflight: dict[int, InFlight] = {}
        self._next_request_id = 1
        self._puts = PutCoalescer(self._config.put_frame_bytes)
        self._put_frame_count = 0  # sent and not answered
        self._is_sending = False  # ``_send_puts`` is scheduled
        self._unsent: list[bytes] = []  # written by ``_write``, which is scheduled
        self._is_writing = False
        self._put_inflight_bytes = 0
        self._runner: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()
        self._is_closed = False
        self._last_failure = "not started"
        self._put_bytes_max = 0  # of one put, which always travels in one frame; the engine tells
        self._heard: Callable[[Notice], None] | None = None
        self.hello: HelloReply | None = None

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set()

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
        self._heard = heard
        if self.is_connected and self._transport is not None:
            request_id, _ = self._register(Op.HELLO, None)
            payload = encode_struct(HelloRequest(client=self._client_name, is_listening=True))
            self._send(encode_frame(Op.HELLO, request_id, payload))

    async def aclose(self) -> None:
        """Close the connection; requests in flight fail with ``OutcomeUnknown``."""
        self._is_closed = True
        if self._runner is not None:
            self._runner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._runner
            self._runner = None

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

    def put_for(self, call: PutCall, records: list[bytes]) -> None:
        """``put`` for one who needs no future: ``call`` is told what it would be.

        Raises, and tells nobody, when nothing was sent:
            StoreUnavailable, RecordRefused, StoreBusy, ShuttingDown.
        """
        if self._transport is None or self._transport.is_closing():
            raise self._unavailable()
        put_bytes = sum(map(len, records))
        if put_bytes > self._put_bytes_max:
            raise RecordRefused(f"a put of {put_bytes} bytes, {self._put_bytes_max} fit a frame")
        if self._put_inflight_bytes > self._config.put_inflight_bytes_max:
            raise StoreBusy(f"{self._put_inflight_bytes} bytes wait for the engine")
        self._puts.add(call, records, put_bytes)
        if self._puts.put_bytes >= self._config.put_hold_bytes:
            self._send_puts()
        elif not self._is_sending and self._may_send():
            self._is_sending = True
            self._loop.call_soon(self._send_puts)

    async def receive(self, request: ReceiveRequest) -> Received:
        """Lease messages, parked up to ``request.wait_ms``. Cancelling gives the place and leases
        back.
        """
        payload = await self._request(Op.RECEIVE, request, extra_wait_ms=request.wait_ms)
        head, at = decode_receive_reply(payload)
        return Received(head, content=payload, at=at)

    async def _request(self, op: Op, request: Wire, extra_wait_ms: int = 0) -> bytes:
        if self._transport is None or self._transport.is_closing():
            raise self._unavailable()
        if len(self._inflight) >= self._config.inflight_count_max:
            raise StoreBusy(f"{len(self._inflight)} requests are in flight already")
        future: asyncio.Future[bytes] = self._loop.create_future()
        request_id, entry = self._register(op, future, extra_wait_ms)
        if isinstance(request, ReceiveRequest):
            entry.origin = request
        self._send(encode_frame(op, request_id, encode_struct(request)))
        try:
            return await future
        except asyncio.CancelledError:
            if entry.origin is not None:
                if request_id in self._inflight:
                    self._cancel(request_id)
                elif not future.cancelled() and future.exception() is None:
                    # The reply came in the same tick as the cancellation: nobody will see it.
                    self._give_back(entry.origin, future.result())
            raise

    def _register(
        self, op: Op, future: asyncio.Future[bytes] | None, extra_wait_ms: int = 0
    ) -> tuple[int, InFlight]:
        request_id = self._next_request_id
        self._next_request_id = request_id % 0xFFFF_FFFF + 1
        deadline_ms = self._clock.monotonic_ms() + self._config.request_timeout_ms + extra_wait_ms
        entry = self._inflight[request_id] = InFlight(op, future, deadline_ms)
        return request_id, entry

    def _cancel(self, request_id: int) -> None:
        """The reply still comes, and what it leased is given back in ``_give_back``."""
        if self._transport is not None and not self._transport.is_closing():
            cancel_id, _ = self._register(Op.CANCEL, None)
            payload = encode_struct(CancelRequest(request_id=request_id))
            self._send(encode_frame(Op.CANCEL, cancel_id, payload))

    def _give_back(self, origin: ReceiveRequest, payload: bytes) -> None:
        head, at = decode_receive_reply(payload)
        nacks = [
            Nack(
                topic=record.topic,
                queue_id=record.queue_id,
                lease_generation=head.lease_generation,
                queue_offset=record.queue_offset,
                reason="receiver gone",
                is_release=True,
            )
            for record in decode_records(payload, at)
        ]
        if nacks and self._transport is not None and not self._transport.is_closing():
            request = SettleRequest(group=origin.group, nacks=nacks, client_id=origin.client_id)
            request_id, _ = self._register(Op.SETTLE, None)
            self._send(encode_frame(Op.SETTLE, request_id, encode_struct(request)))

    def _send(self, frame: bytes) -> None:
        """Write with all frames of this turn of the loop: each write is a system call."""
        self._unsent.append(frame)
        if not self._is_writing:
            self._is_writing = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._is_writing = False
        frames, self._unsent = self._unsent, []
        # Who waits for what a lost connection did not send was told when it was lost.
        if frames and self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(frames)

    def _may_send(self) -> bool:
        """False while a frame of puts is under way and little waits: more will come along with it.

        The engine would let them wait for its running sync anyway; this way they cost it, and us,
        one frame, one sync and one reply together.
        """
        return self._put_frame_count == 0

    def _put_frame_ended(self) -> None:
        """Send what has come meanwhile before those who waited for the frame are told: the engine
        works on it while they are.
        """
        self._put_frame_count -= 1
        if not self._puts.is_empty and self._may_send():
            self._send_puts()

    def _send_puts(self) -> None:
        self._is_sending = False
        frames = self._puts.take()
        if self._transport is None or self._transport.is_closing():
            error = self._unavailable()
            for _, waiters in frames:
                fail_puts(waiters, error)
            return
        for payload, waiters in frames:
            request_id, entry = self._register(Op.PUT, None)
            entry.puts = waiters
            entry.put_bytes = len(payload)
            self._put_inflight_bytes += len(payload)
            self._put_frame_count += 1
            self._unsent += encode_frame_head(Op.PUT, request_id, payload), payload
        self._write()

    def replied(self, op: int, status: int, request_id: int, payload: bytes) -> None:
        """Called by the connection for each reply frame."""
        entry = self._inflight.pop(request_id, None)
        if entry is None:
            if op == Op.NOTICE and self._heard is not None:
                notice = decode_reply(Op.NOTICE, payload)
                assert isinstance(notice, Notice)
                self._heard(notice)
            return  # otherwise it had timed out
        if entry.op is Op.PUT:
            self._put_inflight_bytes -= entry.put_bytes
            self._put_frame_ended()
            if status:
                fail_puts(entry.puts, decode_error(status, payload))
            else:
                answer_puts(entry.puts, payload)
            return
        future = entry.future
        if future is None:
            return
        if future.done():
            if entry.origin is not None and status == 0:
                self._give_back(entry.origin, payload)
        elif status:
            future.set_exception(decode_error(status, payload))
        else:
            future.set_result(payload)

    async def _keep_connected(self) -> None:
        delay_ms = self._config.reconnect_min_ms
        while not self._is_closed:
            try:
                transport, connection = await self._loop.create_unix_connection(
                    partial(ClientConnection, self, self._config.frame_bytes_max),
                    self._socket_path,
                )
            except OSError as exc:
                self._last_failure = f"{exc.strerror or exc}"
            else:
                try:
                    if await self._greet(transport):
                        delay_ms = self._config.reconnect_min_ms
                        await self._watch(connection)
                finally:
                    self._lost(transport)
            # Jitter keeps a fleet of clients from knocking in step after an engine's restart.
            await asyncio.sleep(delay_ms * random.uniform(0.5, 1.0) / 1_000)
            delay_ms = min(delay_ms * 2, self._config.reconnect_max_ms)

    async def _greet(self, transport: asyncio.Transport) -> bool:
        self._transport = transport
        try:
            async with asyncio.timeout(self._config.request_timeout_ms / 1_000):
                request = HelloRequest(
                    client=self._client_name, is_listening=self._heard is not None
                )
                self.hello = await self._ask(Op.HELLO, request, HelloReply)
        except (StoreError, TimeoutError) as exc:
            self._last_failure = str(exc)
            return False
        self._put_bytes_max = put_bytes_max(self.hello)
        self._connected.set()
        return True

    async def _watch(self, connection: ClientConnection) -> None:
        """Until the connection ends, fail what has waited too long."""
        while not connection.ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._config.sweep_interval_ms / 1_000):
                    await connection.ended.wait()
            now_ms = self._clock.monotonic_ms()
            for request_id, entry in list(self._inflight.items()):
                if entry.deadline_ms <= now_ms:
                    del self._inflight[request_id]
                    self._put_inflight_bytes -= entry.put_bytes
                    if entry.op is Op.PUT:
                        # An engine that hangs gets no more; those who wait know for sure.
                        for _, waiters in self._puts.take():
                            fail_puts(waiters, StoreUnavailable("the engine does not answer"))
                        self._put_frame_ended()
                    fail_entry(entry, OutcomeUnknown(f"no reply to {entry.op.name} in time"))

    def _lost(self, transport: asyncio.Transport) -> None:
        self._connected.clear()
        self._transport = None
        self._unsent = []
        transport.abort()
        self._fail_inflight()

    def _fail_inflight(self) -> None:
        entries, self._inflight = list(self._inflight.values()), {}
        self._put_inflight_bytes = self._put_frame_count = 0
        for _, waiters in self._puts.take():
            fail_puts(waiters, self._unavailable())
        for entry in entries:
            fail_entry(
                entry, OutcomeUnknown(f"the engine's connection broke during {entry.op.name}")
            )

    def _unavailable(self) -> StoreError:
        if self._is_closed:
            return ShuttingDown("this client is closed")
        return StoreUnavailable(f"no engine answers at {self._socket_path}: {self._last_failure}")

    def connection_failed(self, reason: str) -> None:
        """Called by the connection when the peer broke the protocol or the transport."""
        self._last_failure = reason
        self._fail_inflight()
