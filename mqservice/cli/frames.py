"""WebSocket frames as a client sees them, for both subprotocols.

    commands ─▶ encode ─▶ [JSON text | MessagePack binary] ─▶ service
    pushes   ◀─ decode ◀─ [JSON text | MessagePack binary] ◀─ service

Each frame is one class of fields and two thin subclasses: JSON names the operation in ``op``,
MessagePack puts its number first in an array whose positions never change. Several JSON objects
may share a frame, joined by newlines; several MessagePack arrays may share an outer array.
"""

from __future__ import annotations

import base64
import binascii
import enum
from typing import Any, Final

import msgspec

from mqservice.cli.errors import ResponseMalformed


class Subprotocol(enum.StrEnum):
    JSON = "mq.v1.json"
    MSGPACK = "mq.v1.msgpack"


class Hello(msgspec.Struct, kw_only=True, omit_defaults=True):
    id: int
    client: str
    resume: str | None = None
    max_frame: int | None = None
    resume_ttl_ms: int | None = None


class Credit(msgspec.Struct):
    """Permission to send this much more, in messages and bytes of bodies."""

    msgs: int
    bytes: int


class Subscribe(msgspec.Struct, kw_only=True, omit_defaults=True):
    id: int
    sid: int
    topic: str
    group: str
    filter: str | dict[str, str] = "*"  # by tags, or {"sql": condition}
    mode: str = "shared"
    lease_ms: int | None = None
    auto_extend_ms: int | None = None
    credit: Credit | None = None
    from_: None = msgspec.field(default=None, name="from")
    client_id: str | None = None


class AddCredit(msgspec.Struct, kw_only=True):
    sid: int
    msgs: int
    bytes: int


class Ack(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Settle deliveries. With an ``id`` the service confirms, without it does not."""

    id: int | None = None
    sid: int
    t: list[int]


class Unsubscribe(msgspec.Struct, kw_only=True):
    id: int
    sid: int
    drain: bool = False


class Pong(msgspec.Struct):
    """Answer to a ping; in JSON an empty object."""


class Limits(msgspec.Struct):
    credit_msgs: int = 1_000
    credit_bytes: int = 8 * 1024 * 1024
    max_frame: int = 4 * 1024 * 1024


class LimitsTriple(Limits, array_like=True):
    """The same inside a MessagePack frame."""


class Welcome(msgspec.Struct, kw_only=True):
    id: int
    session: str
    resume_token: str | None = None
    resumed: bool = False
    ping_ms: int = 25_000
    pong_ms: int = 10_000
    limits: Limits = msgspec.field(default_factory=Limits)


class PushedJson(msgspec.Struct, kw_only=True):
    """A message in a JSON ``msgs`` frame; ``e`` says how ``b`` holds the body."""

    t: int
    id: str
    q: int
    o: int
    a: int
    s: int = 0
    tag: str | None = None
    keys: list[str] = []
    g: str | None = None
    p: dict[str, str] = {}
    b: msgspec.Raw
    e: str = "text"

    @property
    def body(self) -> bytes:
        if self.e == "json":
            return bytes(self.b)
        text = msgspec.json.decode(self.b, type=str)
        return base64.b64decode(text, validate=True) if self.e == "b64" else text.encode("utf-8")


class PushedPack(msgspec.Struct, array_like=True):
    """A message in a MessagePack ``msgs`` frame; the body is binary as it is."""

    t: int
    id: str
    q: int
    o: int
    s: int
    a: int
    tag: str | None
    keys: list[str]
    g: str | None
    p: dict[str, str]
    b: bytes

    @property
    def body(self) -> bytes:
        return self.b


class Messages(msgspec.Struct):
    """Base of both ``msgs`` frames, whose field ``m`` differs."""

    sid: int


class Lost(msgspec.Struct, kw_only=True):
    sid: int
    t: list[int]
    why: str = ""


class Flow(msgspec.Struct, kw_only=True):
    sid: int | None = None
    state: str = ""


class Ok(msgspec.Struct, kw_only=True):
    id: int
    r: dict[str, Any] | None = None  # reason: its content depends on the command it answers


class Err(msgspec.Struct, kw_only=True):
    id: int | None = None
    code: str
    retryable: bool = False
    msg: str = ""


class Goaway(msgspec.Struct, kw_only=True):
    why: str = ""
    grace_ms: int = 0
    retry_ms: int = 0


class Ping(msgspec.Struct):
    pass


class Unknown(msgspec.Struct):
    """A push of a kind this client does not know; newer services may send it, we pass over it."""


ServerFrame = Welcome | Messages | Lost | Flow | Ok | Err | Goaway | Ping | Unknown
ClientFrame = Hello | Subscribe | AddCredit | Ack | Unsubscribe | Pong


class JsonWelcome(Welcome, tag_field="op", tag="welcome"):
    pass


class JsonMessages(Messages, tag_field="op", tag="msgs"):
    m: list[PushedJson]


class JsonLost(Lost, tag_field="op", tag="lost"):
    pass


class JsonFlow(Flow, tag_field="op", tag="flow"):
    pass


class JsonOk(Ok, tag_field="op", tag="ok"):
    pass


class JsonErr(Err, tag_field="op", tag="err"):
    pass


class JsonGoaway(Goaway, tag_field="op", tag="goaway"):
    pass


class JsonPing(Ping, tag_field="op", tag="ping"):
    pass


class PackWelcome(Welcome, kw_only=True, array_like=True, tag=2):
    limits: LimitsTriple = msgspec.field(default_factory=LimitsTriple)


class PackMessages(Messages, array_like=True, tag=6):
    m: list[PushedPack]


class PackLost(Lost, array_like=True, tag=11):
    pass


class PackFlow(Flow, array_like=True, tag=12):
    pass


class PackPing(Ping, array_like=True, tag=16):
    pass


class PackOk(Ok, array_like=True, tag=18):
    pass


class PackErr(Err, array_like=True, tag=19):
    pass


class PackGoaway(Goaway, array_like=True, tag=20):
    pass


JSON_NAMES: Final[dict[type[ClientFrame], bytes]] = {
    Hello: b"hello",
    Subscribe: b"sub",
    AddCredit: b"credit",
    Ack: b"ack",
    Unsubscribe: b"unsub",
}
PACK_NUMBERS: Final[dict[type[ClientFrame], int]] = {
    Hello: 1,
    Subscribe: 4,
    AddCredit: 5,
    Ack: 7,
    Unsubscribe: 15,
    Pong: 17,
}
JsonFrame = (
    JsonWelcome | JsonMessages | JsonLost | JsonFlow | JsonOk | JsonErr | JsonGoaway | JsonPing
)
PackFrame = (
    PackWelcome | PackMessages | PackLost | PackFlow | PackOk | PackErr | PackGoaway | PackPing
)


class _OpOnly(msgspec.Struct):
    op: str


# reason for Any: the decoders' type parameter cannot be a union; both return values of it.
_json_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(JsonFrame)
_json_op_decoder = msgspec.json.Decoder(_OpOnly)
_json_ops = frozenset({"welcome", "msgs", "lost", "flow", "ok", "err", "goaway", "ping"})
_json_encoder = msgspec.json.Encoder()
_pack_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(PackFrame)
_pack_parts_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])
_pack_number_decoder = msgspec.msgpack.Decoder(int)
_pack_numbers = frozenset({2, 6, 11, 12, 16, 18, 19, 20})
_pack_encoder = msgspec.msgpack.Encoder()


def encode(frame: ClientFrame, subprotocol: Subprotocol) -> str | bytes:
    """One command, as the text or binary message to send."""
    kind = type(frame)
    if subprotocol is Subprotocol.MSGPACK:
        values = [PACK_NUMBERS[kind], *msgspec.structs.astuple(frame)]
        # A struct within a frame is an array within the array.
        flat = [msgspec.structs.astuple(v) if isinstance(v, Credit) else v for v in values]
        return _pack_encoder.encode(flat)
    if kind is Pong:
        return "{}"
    fields = _json_encoder.encode(frame)
    return (b'{"op":"' + JSON_NAMES[kind] + b'",' + fields[1:]).decode("utf-8")


def decode(content: bytes, subprotocol: Subprotocol) -> list[ServerFrame]:
    """All pushes of one WebSocket message, in order.

    Raises:
        ResponseMalformed: not a frame of this protocol, or a body that is not what its ``e`` says.
    """
    try:
        if subprotocol is Subprotocol.JSON:
            return [_decode_object(line) for line in content.split(b"\n") if line]
        if _is_outer_array(content):
            return [_decode_array(part) for part in _pack_parts_decoder.decode(content)]
        return [_decode_array(content)]
    except msgspec.DecodeError as exc:
        raise ResponseMalformed(
            f"a frame of {len(content)} bytes is not {subprotocol}: {exc}"
        ) from exc


def pushed_body(message: PushedJson | PushedPack) -> bytes:
    """The body's bytes; raises ResponseMalformed."""
    try:
        return message.body
    except (msgspec.DecodeError, binascii.Error) as exc:
        raise ResponseMalformed(f"cannot decode the body of message {message.id}: {exc}") from exc


def _decode_object(line: bytes) -> ServerFrame:
    if line == b"{}":
        return Ping()
    try:
        push: ServerFrame = _json_decoder.decode(line)
        return push
    except msgspec.ValidationError:
        if _json_op_decoder.decode(line).op in _json_ops:
            raise
        return Unknown()


def _decode_array(content: bytes | msgspec.Raw) -> ServerFrame:
    try:
        push: ServerFrame = _pack_decoder.decode(content)
        return push
    except msgspec.ValidationError:
        parts = _pack_parts_decoder.decode(content)
        if not parts or _pack_number_decoder.decode(parts[0]) in _pack_numbers:
            raise
        return Unknown()


def _is_outer_array(content: bytes) -> bool:
    """Whether the first element of the MessagePack array is an array itself."""
    if not content:
        return False
    # The header of an array: 0x90..0x9f in one byte, 0xdc with 2 and 0xdd with 4 bytes of length.
    header_bytes = {0xDC: 3, 0xDD: 5}.get(content[0], 1)
    first = content[header_bytes : header_bytes + 1]
    return bool(first) and (0x90 <= first[0] <= 0x9F or first[0] in (0xDC, 0xDD))
