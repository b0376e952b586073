"""Answers in the form the client takes: JSON, or MessagePack, where bodies are bytes."""

from __future__ import annotations

import msgspec

from mqservice.delivery.http import JSON_TYPE, MSGPACK_TYPE, Request

_encode_json = msgspec.json.Encoder().encode
_encode_msgpack = msgspec.msgpack.Encoder().encode


def accepts_msgpack(request: Request) -> bool:
    """Whether the client asks for MessagePack."""
    return MSGPACK_TYPE in request.headers.get(b"accept", b"")


def encoded(reply: msgspec.Struct, *, is_msgpack: bool) -> tuple[bytes, bytes]:
    """``reply`` and its media type."""
    if is_msgpack:
        return _encode_msgpack(reply), MSGPACK_TYPE
    return _encode_json(reply), JSON_TYPE


def reply_struct(request: Request, reply: msgspec.Struct) -> None:
    """Send ``reply`` with status 200."""
    request.reply(200, *encoded(reply, is_msgpack=accepts_msgpack(request)))
