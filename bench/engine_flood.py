"""A client of the engine's socket that costs next to nothing: frames made before, replies counted.

    prepared frames ─▶ [Flood] ─▶ engine       a fixed number in flight, refilled as replies come
                        ◀─ replies: length, status and count are checked, nothing is decoded

The service's own client would coalesce and decode; this one shows what the engine itself can do.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from bench.measure import MeasureFailed
from storage_engine.wire.frames import encode_frame, encode_struct
from storage_engine.wire.operations import Op
from storage_engine.wire.protocol import FRAME_HEAD_BYTES, HelloRequest

STATUS_AT: Final = 6
LENGTH_LOW_AT: Final = 3
HELLO_ID: Final = 0
# A reply to PUT: the store time, then queue offset and physical offset of each record.
TIMESTAMP_BYTES: Final = 8
OFFSETS_BYTES: Final = 16


class PutFlood(asyncio.Protocol):
    """Keeps ``window`` PUT frames of ``records_a_frame`` records each in flight for ever."""

    def __init__(self, records: list[bytes], *, records_a_frame: int, window: int) -> None:
        chunks = [
            b"".join(records[start : start + records_a_frame])
            for start in range(0, len(records), records_a_frame)
        ]
        assert len(chunks) >= 2 * window, "request ids in flight must differ"
        self._frames = [
            encode_frame(Op.PUT, number, chunk) for number, chunk in enumerate(chunks, start=1)
        ]
        self._reply_bytes = FRAME_HEAD_BYTES + TIMESTAMP_BYTES
        self._reply_bytes += records_a_frame * OFFSETS_BYTES
        self._window = window
        self._next = 0
        self._bytes_seen = 0
        self._is_welcome = False
        self._transport: asyncio.Transport
        self._sent = 0
        self._all_answered: asyncio.Future[None] | None = None
        self.frames_done = 0
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        hello = encode_struct(HelloRequest(client="bench"))
        self._transport.write(encode_frame(Op.HELLO, HELLO_ID, hello))

    def data_received(self, data: bytes) -> None:
        if not self._is_welcome:
            # The answer to hello comes alone: nothing else was asked for yet.
            self._is_welcome = True
            self._send(self._window)
            return
        size = self._reply_bytes
        phase = self._bytes_seen % size
        statuses = data[(STATUS_AT - phase) % size :: size]
        lengths = data[(LENGTH_LOW_AT - phase) % size :: size]
        # Each reply has the same length; one that has not is an error frame or a refused record.
        if any(statuses) or lengths.strip(bytes([(size - 4) & 0xFF])):
            self._fail(MeasureFailed("the engine refused a put"))
            return
        self._bytes_seen += len(data)
        done = self._bytes_seen // size
        if done > self.frames_done:
            fresh = done - self.frames_done
            self.frames_done = done
            if self._all_answered is None:
                self._send(fresh)
            elif self.frames_done == self._sent and not self._all_answered.done():
                self._all_answered.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(MeasureFailed(f"the engine's connection ended: {exc}"))

    async def end(self) -> None:
        """Sends no more, and returns when all that was sent is answered; then closes."""
        self._all_answered = asyncio.get_running_loop().create_future()
        if self.frames_done < self._sent:
            await asyncio.wait(
                {self._all_answered, self.failure}, return_when=asyncio.FIRST_COMPLETED
            )
            if self.failure.done():
                self.failure.result()
        self.close()

    def close(self) -> None:
        self.failure.cancel()
        self._transport.abort()

    def _send(self, count: int) -> None:
        self._sent += count
        end = self._next + count
        frames = self._frames[self._next : end]
        if end >= len(self._frames):
            end -= len(self._frames)
            frames += self._frames[:end]
        self._next = end
        self._transport.write(b"".join(frames))

    def _fail(self, exc: Exception) -> None:
        if not self.failure.done():
            self.failure.set_exception(exc)
        self._transport.abort()
