"""Frames at the client's end of the socket: commands to bytes, bytes to pushes.

commands ─▶ encode ─▶ [JSON text | MessagePack binary] ─▶ service
pushes   ◀─ decode ◀─ [JSON text | MessagePack binary] ◀─ service
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final

import msgspec

from .frames import (
    COMMANDS,
    PUSHES,
    FrameBroken,
    JsonDelivered,
    PackDelivered,
    Ping,
    Pong,
    Subprotocol,
    is_array_of_arrays,
    json_form,
    pack_form,
    union_of,
)

_JSON_OPS: Final = frozenset(frame.op for frame in PUSHES)
_PACK_NUMBERS: Final = frozenset(frame.number for frame in PUSHES)
_CLIENT_FRAMES: Final = frozenset(frame.fields for frame in COMMANDS)


class Unknown(msgspec.Struct):
    """A push of a kind this client does not know; newer services may send it, we pass over it."""


class _OpOnly(msgspec.Struct):
    op: str


_Decode = Callable[[bytes | msgspec.Raw], msgspec.Struct]
_decode_json: _Decode = msgspec.json.Decoder(union_of(frame.json for frame in PUSHES)).decode
_decode_op = msgspec.json.Decoder(_OpOnly).decode
_encode_json = msgspec.json.Encoder().encode
_decode_pack: _Decode = msgspec.msgpack.Decoder(union_of(frame.pack for frame in PUSHES)).decode
_decode_parts = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode_number = msgspec.msgpack.Decoder(int).decode
_encode_pack = msgspec.msgpack.Encoder().encode


def encode(frame: msgspec.Struct, subprotocol: Subprotocol) -> bytes:
    """One command, given as the class of its fields or in the form of the subprotocol."""
    fields = type(frame)
    is_json = subprotocol is Subprotocol.JSON
    if is_json and fields is Pong:
        return b"{}"
    if fields in _CLIENT_FRAMES:
        form = json_form(fields) if is_json else pack_form(fields)
        frame = msgspec.convert(frame, form, from_attributes=True)
    return _encode_json(frame) if is_json else _encode_pack(frame)


def decode(content: bytes, subprotocol: Subprotocol) -> list[msgspec.Struct]:
    """All pushes of one WebSocket message, in order. Raises FrameBroken."""
    try:
        if subprotocol is Subprotocol.JSON:
            return [_pushed_object(line) for line in content.split(b"\n") if line]
        if is_array_of_arrays(content):
            return [_pushed_array(part) for part in _decode_parts(content)]
        return [_pushed_array(content)]
    except msgspec.DecodeError as exc:
        raise FrameBroken(f"a frame of {len(content)} bytes is not {subprotocol}: {exc}") from exc


def body_of(message: JsonDelivered | PackDelivered) -> bytes:
    """The body's bytes. Raises FrameBroken when it is not what its ``e`` says."""
    if isinstance(message, PackDelivered):
        return message.b
    raw = message.b
    assert isinstance(raw, msgspec.Raw), "a message that was decoded"
    if message.e == "json":
        return bytes(raw)
    try:
        text = msgspec.json.decode(raw, type=str)
        return base64.b64decode(text, validate=True) if message.e == "b64" else text.encode()
    except (msgspec.DecodeError, binascii.Error) as exc:
        raise FrameBroken(f"cannot decode the body of message {message.id}: {exc}") from exc


def _pushed_object(line: bytes) -> msgspec.Struct:
    if line == b"{}":
        return Ping()
    try:
        return _decode_json(line)
    except msgspec.ValidationError:
        if _decode_op(line).op in _JSON_OPS:
            raise
        return Unknown()


def _pushed_array(content: bytes | msgspec.Raw) -> msgspec.Struct:
    try:
        return _decode_pack(content)
    except msgspec.ValidationError:
        parts = _decode_parts(content)
        if not parts or _decode_number(parts[0]) in _PACK_NUMBERS:
            raise
        return Unknown()
