"""Bytes of the socket ⇄ frames of ``protocol``, without any I/O: both ends and all tests share
this.

    transport ── chunks ──▶ [FrameDecoder] ── Frame ──▶ client, server
    client, server ── op, payload ──▶ [encode_frame] ── bytes ──▶ transport

A decoder that raised is finished: the connection has lost its place and must be closed.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
from isal.isal_zlib import crc32

from storage_engine.errors import BadFrame, StoreError, error_from_code
from storage_engine.wire.client_types import PutResult
from storage_engine.wire.deliveries import ReceiveHead
from storage_engine.wire.protocol import (
    FRAME_HEAD,
    FRAME_HEAD_BYTES,
    LENGTH_BYTES,
    PROTOCOL_VERSION,
    ErrorReply,
)
from storage_engine.wire.reads import LookUpHead, PullHead
from storage_engine.wire.scheduled import ScheduledListHead

# A connection that sends little needs little; one that fills its buffer gets a larger one. The
# largest takes a batch of 1 KiB messages to be pushed: else it would grow and shrink with each.
_SPACE_BYTES_MIN: Final = 16 * 1024
_SPACE_BYTES_MAX: Final = 512 * 1024
_ONE_PLACE = struct.Struct(">qqq")

RecordsHead = ReceiveHead | PullHead | LookUpHead | ScheduledListHead


class Frame(NamedTuple):
    """One frame as it arrived. ``payload`` is a copy and may be kept."""

    op: int
    status: int
    request_id: int
    payload: bytes


class FrameDecoder:
    """Turns the bytes of one connection into whole frames.

    The transport writes into ``space`` and calls ``filled``: a payload is then copied once, out of
    the buffer, which grows with what comes in and never with what a frame only claims to have.
    """

    __slots__ = ("_buffered_bytes", "_frame_bytes_max", "_view")

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._view = memoryview(bytearray(_SPACE_BYTES_MIN))
        self._buffered_bytes = (
            0  # of a frame that is not whole yet, from the start of the buffer on
        )

    def feed(self, chunk: bytes) -> list[Frame]:
        """All frames completed by ``chunk``, in order; raises as ``filled`` does."""
        frames: list[Frame] = []
        rest = memoryview(chunk)
        while rest:
            space = self.space()
            count = min(len(space), len(rest))
            space[:count] = rest[:count]
            rest = rest[count:]
            frames += self.filled(count)
        return frames

    def space(self) -> memoryview:
        """Where the next bytes go; never empty, good until ``filled`` is called."""
        return self._view[self._buffered_bytes :]

    def filled(self, count: int) -> list[Frame]:
        """All frames completed by the next ``count`` bytes, which stand in ``space``; in order.

        Raises:
            BadFrame: wrong version, length over the limit, or a payload that fails its CRC.
        """
        view = self._view
        frames: list[Frame] = []
        at, end_of_all = 0, self._buffered_bytes + count
        wanted_bytes = FRAME_HEAD_BYTES
        while end_of_all - at >= FRAME_HEAD_BYTES:
            frame_bytes, version, op, status, request_id, payload_crc = FRAME_HEAD.unpack_from(
                view, at
            )
            if version != PROTOCOL_VERSION:
                raise BadFrame(
                    f"the other side speaks version {version} of the protocol and this one "
                    f"version {PROTOCOL_VERSION}: run the same version of mqservice on both"
                )
            if not FRAME_HEAD_BYTES - LENGTH_BYTES <= frame_bytes <= self._frame_bytes_max:
                raise BadFrame(
                    f"a frame has {frame_bytes} bytes, at most {self._frame_bytes_max} are allowed"
                )
            end = at + LENGTH_BYTES + frame_bytes
            if end > end_of_all:
                wanted_bytes = end - at
                break
            payload = bytes(view[at + FRAME_HEAD_BYTES : end])
            if crc32(payload) != payload_crc:
                raise BadFrame(f"payload of request {request_id} does not match its CRC")
            frames.append(Frame(op, status, request_id, payload))
            at = end
        held = self._buffered_bytes = end_of_all - at
        # It grows when it was full, whatever a frame claims to have.
        room = len(view) * 4 if end_of_all == len(view) else len(view)
        room = min(room, max(wanted_bytes, _SPACE_BYTES_MAX))
        if room != len(view):
            self._view = memoryview(bytearray(room))
            self._view[:held] = view[at:end_of_all]
        elif at:
            view[:held] = view[at:end_of_all]
        return frames


def encode_frame(op: int, request_id: int, payload: bytes, status: int = 0) -> bytes:
    """A whole frame."""
    return encode_frame_head(op, request_id, payload, status) + payload


def encode_frame_head(op: int, request_id: int, payload: bytes, status: int = 0) -> bytes:
    """What goes before ``payload``, for those who need not copy it."""
    return FRAME_HEAD.pack(
        FRAME_HEAD_BYTES - LENGTH_BYTES + len(payload),
        PROTOCOL_VERSION,
        op,
        status,
        request_id,
        crc32(payload),
    )


_encoder = msgspec.msgpack.Encoder()
_error_decoder = msgspec.msgpack.Decoder(ErrorReply)
encode_struct = _encoder.encode


def encode_error(error: StoreError) -> bytes:
    """Payload of a reply whose status is ``error.code``."""
    return _encoder.encode(ErrorReply(message=error.message, retry_after_ms=error.retry_after_ms))


def decode_error(status: int, payload: bytes) -> StoreError:
    """The error that a reply with a status other than 0 carries."""
    try:
        reply = _error_decoder.decode(payload)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return error_from_code(status, "the storage engine gave no readable reason")
    return error_from_code(status, reply.message, reply.retry_after_ms)


def encode_put_reply(
    store_timestamp_ms: int, offsets: list[int], due_ms: Mapping[int, int] | None = None
) -> bytes:
    """Reply of PUT: the time, then ``offsets``, which are queue_offset or -code, and
    physical_offset, in turn, flat; behind them ``due_ms``, when delays end, by the record's place.
    """
    if due_ms:
        offsets = offsets + [part for pair in due_ms.items() for part in pair]
    if len(offsets) == 2:
        return _ONE_PLACE.pack(store_timestamp_ms, *offsets)
    return struct.pack(f">{len(offsets) + 1}q", store_timestamp_ms, *offsets)


def decode_put_reply(payload: bytes, record_count: int) -> list[PutResult]:
    """The results of ``record_count`` records, in order."""
    store_timestamp_ms, *offsets = struct.unpack(f">{len(payload) // 8}q", payload)
    places = list(zip(offsets[::2], offsets[1::2], strict=True))
    results = [
        PutResult(queue_offset, physical_offset, store_timestamp_ms)
        if queue_offset >= 0
        else PutResult(-1, -1, 0, error_from_code(-queue_offset, "rejected by the storage engine"))
        for queue_offset, physical_offset in places[:record_count]
    ]
    for place, due_ms in places[record_count:]:
        results[place] = results[place]._replace(due_ms=due_ms)
    return results


def encode_records_frame(
    op: int,
    request_id: int,
    head: RecordsHead,
    records: bytes,
) -> tuple[bytes, bytes]:
    """Whole frame of a reply of RECEIVE, PULL, LOOK_UP and SCHEDULED_LIST, in two pieces: the
    head, its length before it, and the records as they are stored, which are not copied.
    """
    encoded = _encoder.encode(head)
    start = len(encoded).to_bytes(4) + encoded
    frame_head = FRAME_HEAD.pack(
        FRAME_HEAD_BYTES - LENGTH_BYTES + len(start) + len(records),
        PROTOCOL_VERSION,
        op,
        0,
        request_id,
        crc32(records, crc32(start)),
    )
    return frame_head + start, records
