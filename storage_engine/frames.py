"""Bytes of the socket ⇄ frames of ``protocol``, without any I/O: both ends and all tests share
this.

    transport ── chunks ──▶ [FrameDecoder] ── Frame ──▶ client, server
    client, server ── op, payload ──▶ [encode_frame] ── bytes ──▶ transport

A decoder that raised is finished: the connection has lost its place and must be closed.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec
from isal.isal_zlib import crc32

from storage_engine.errors import BadFrame, BadRequest, StoreError, error_from_code
from storage_engine.protocol import (
    FRAME_HEAD,
    FRAME_HEAD_BYTES,
    LENGTH_BYTES,
    PROTOCOL_VERSION,
    REPLY_TYPES,
    REQUEST_TYPES,
    ErrorReply,
    LookUpHead,
    Op,
    PullHead,
    ReceiveHead,
    Wire,
)
from storage_engine.record import LENGTH_4

_ONE_PLACE = struct.Struct(">qqq")


class Frame(NamedTuple):
    """One frame as it arrived. ``payload`` is a copy and may be kept."""

    op: int
    status: int
    request_id: int
    payload: bytes


class FrameDecoder:
    """Turns the chunks of one connection into whole frames."""

    __slots__ = ("_frame_bytes_max", "_pending")

    def __init__(self, frame_bytes_max: int) -> None:
        self._pending = bytearray()
        self._frame_bytes_max = frame_bytes_max

    def feed(self, chunk: bytes) -> list[Frame]:
        """All frames completed by ``chunk``, in order.

        Raises:
            BadFrame: wrong version, length over the limit, or a payload that fails its CRC.
        """
        data: bytes | bytearray = chunk
        if self._pending:
            self._pending += chunk
            data = self._pending
        frames: list[Frame] = []
        at, size = 0, len(data)
        while size - at >= FRAME_HEAD_BYTES:
            frame_bytes, version, op, status, request_id, payload_crc = FRAME_HEAD.unpack_from(
                data, at
            )
            if version != PROTOCOL_VERSION:
                raise BadFrame(f"protocol version is {version}, expected {PROTOCOL_VERSION}")
            if not FRAME_HEAD_BYTES - LENGTH_BYTES <= frame_bytes <= self._frame_bytes_max:
                raise BadFrame(
                    f"frame of {frame_bytes} bytes, at most {self._frame_bytes_max} allowed"
                )
            end = at + LENGTH_BYTES + frame_bytes
            if end > size:
                break
            payload = bytes(data[at + FRAME_HEAD_BYTES : end])
            if crc32(payload) != payload_crc:
                raise BadFrame(f"payload of request {request_id} does not match its CRC")
            frames.append(Frame(op, status, request_id, payload))
            at = end
        if data is self._pending:
            del self._pending[:at]
        elif at < size:
            self._pending += chunk[at:] if at else chunk
        return frames


def encode_frame(op: int, request_id: int, payload: bytes, status: int = 0) -> bytes:
    """A whole frame."""
    head = FRAME_HEAD.pack(
        FRAME_HEAD_BYTES - LENGTH_BYTES + len(payload),
        PROTOCOL_VERSION,
        op,
        status,
        request_id,
        crc32(payload),
    )
    return head + payload


_encoder = msgspec.msgpack.Encoder()
_request_decoders = {op: msgspec.msgpack.Decoder(kind) for op, kind in REQUEST_TYPES.items()}
_reply_decoders = {op: msgspec.msgpack.Decoder(kind) for op, kind in REPLY_TYPES.items()}
_error_decoder = msgspec.msgpack.Decoder(ErrorReply)
_receive_head_decoder = msgspec.msgpack.Decoder(ReceiveHead)
_pull_head_decoder = msgspec.msgpack.Decoder(PullHead)
_look_up_head_decoder = msgspec.msgpack.Decoder(LookUpHead)

encode_struct = _encoder.encode


def decode_request(op: Op, payload: bytes) -> Wire:
    """The request struct of a frame.

    Raises:
        BadRequest: it is not one; the message names the field.
    """
    try:
        return _request_decoders[op].decode(payload)
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise BadRequest(f"{op.name}: {exc}") from exc


def decode_reply(op: Op, payload: bytes) -> Wire:
    """The reply struct of a frame.

    Raises:
        BadFrame: it is not one.
    """
    try:
        return _reply_decoders[op].decode(payload)
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise BadFrame(f"{op.name} reply: {exc}") from exc


def encode_error(error: StoreError) -> bytes:
    """Payload of a reply whose status is ``error.code``."""
    return _encoder.encode(ErrorReply(message=error.message))


def decode_error(status: int, payload: bytes) -> StoreError:
    """The error that a reply with a status other than 0 carries."""
    try:
        message = _error_decoder.decode(payload).message
    except (msgspec.DecodeError, msgspec.ValidationError):
        message = "the engine gave no readable reason"
    return error_from_code(status, message)


def encode_put_reply(store_timestamp_ms: int, offsets: list[int]) -> bytes:
    """Reply of PUT; ``offsets`` are queue_offset or -code, and physical_offset, in turn, flat."""
    if len(offsets) == 2:
        return _ONE_PLACE.pack(store_timestamp_ms, *offsets)
    return struct.pack(f">{len(offsets) + 1}q", store_timestamp_ms, *offsets)


def decode_put_reply(payload: bytes) -> tuple[int, list[tuple[int, int]]]:
    """(store_timestamp_ms, [(queue_offset or -code, physical_offset), …])."""
    store_timestamp_ms, *offsets = struct.unpack(f">{len(payload) // 8}q", payload)
    return store_timestamp_ms, list(zip(offsets[::2], offsets[1::2], strict=True))


def encode_records_reply(head: ReceiveHead | PullHead | LookUpHead, records: bytes) -> bytes:
    """Reply of RECEIVE, PULL and LOOK_UP: the head, its length before it, and the records as they
    are stored.
    """
    encoded = _encoder.encode(head)
    return b"".join((len(encoded).to_bytes(4), encoded, records))


def decode_receive_reply(payload: bytes) -> tuple[ReceiveHead, int]:
    """(head, position of the first record in ``payload``)."""
    at = 4 + LENGTH_4.unpack_from(payload)[0]
    return _receive_head_decoder.decode(memoryview(payload)[4:at]), at


def decode_pull_reply(payload: bytes) -> tuple[PullHead, int]:
    """(head, position of the first record in ``payload``)."""
    at = 4 + LENGTH_4.unpack_from(payload)[0]
    return _pull_head_decoder.decode(memoryview(payload)[4:at]), at


def decode_look_up_reply(payload: bytes) -> tuple[LookUpHead, int]:
    """(head, position of the first record in ``payload``)."""
    at = 4 + LENGTH_4.unpack_from(payload)[0]
    return _look_up_head_decoder.decode(memoryview(payload)[4:at]), at
