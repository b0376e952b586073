"""Answers in the form the client takes: JSON, or MessagePack, where bodies are bytes."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec
from django.http import HttpRequest

from mqservice.delivery.http import JSON_TYPE, MSGPACK_TYPE, Request

# Differing values of ``Accept`` whose reading is remembered; programs send a handful.
_ACCEPTS_MAX: Final = 64
_encode_json = msgspec.json.Encoder().encode
_encode_msgpack = msgspec.msgpack.Encoder().encode


def accepts_msgpack(request: Request) -> bool:
    """Whether the client asks for MessagePack and would not rather have JSON (RFC 9110, 12.5.1)."""
    accept = request.headers.get(b"accept", b"")
    return accept == MSGPACK_TYPE or (MSGPACK_TYPE in accept and _prefers_msgpack(accept))


@lru_cache(_ACCEPTS_MAX)
def _prefers_msgpack(accept: bytes) -> bool:
    asked = HttpRequest()
    asked.META["HTTP_ACCEPT"] = accept.decode("latin-1")
    types = [JSON_TYPE.decode(), MSGPACK_TYPE.decode()]
    return asked.get_preferred_type(types) == types[1]


def encoded(reply: msgspec.Struct, *, is_msgpack: bool) -> tuple[bytes, bytes]:
    """``reply`` and its media type."""
    if is_msgpack:
        return _encode_msgpack(reply), MSGPACK_TYPE
    return _encode_json(reply), JSON_TYPE


def reply_struct(request: Request, reply: msgspec.Struct) -> None:
    """Send ``reply`` with status 200."""
    request.reply(200, *encoded(reply, is_msgpack=accepts_msgpack(request)))
