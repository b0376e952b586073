"""Frames of the WebSocket: each is one class of fields in two forms.

    class Ack            the fields; what the service and clients work with
    JsonAck              {"op": "ack", ...}
    PackAck              [7, ...]               positions never change, new fields join at the end

A row of ``COMMANDS``, what clients send, or of ``PUSHES``, what the service sends, has the three of
them with the op and its number. Fields whose capability comes later hold their position and take
null only.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeVar, cast

import msgspec

from .limits import (
    CREDIT_BYTES_DEFAULT,
    CREDIT_BYTES_MAX,
    CREDIT_MSGS_DEFAULT,
    CREDIT_MSGS_MAX,
    FRAME_BYTES_MAX,
    FRAME_COMMANDS_MAX,
    LIST_COUNT_HARD_MAX,
    PING_MS,
    PONG_MS,
)
from .messages import FilterForm, PackedMessage, ProduceMessage
from .str_enum import StrEnum


class Subprotocol(StrEnum):
    """JSON: one object per frame, or several joined by newlines; ping and pong may be {}.
    MSGPACK: one array per frame, or an array of arrays; pong may be an empty array.
    """

    JSON = "mq.v1.json"
    MSGPACK = "mq.v1.msgpack"


class FrameBroken(Exception):
    """Bytes that are no frame of this subprotocol."""


T = TypeVar("T")
# In MessagePack a list says how long it is, and is refused before any of it is decoded.
Bounded = Annotated[list[T], msgspec.Meta(max_length=LIST_COUNT_HARD_MAX)]


class Command(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Base of what a client sends. Answered if it has an ``id``."""

    id: int | None = None


class Credit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much the client takes, in messages and in bytes of bodies."""

    msgs: int = CREDIT_MSGS_DEFAULT
    bytes: int = CREDIT_BYTES_DEFAULT


class PackCredit(Credit, frozen=True, array_like=True):
    pass


class NackItem(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An array in both subprotocols: [tag, delay_ms, reason], the last two may be left out.

    Without a delay the group's retry policy decides.
    """

    t: int
    delay_ms: int | None = None
    reason: str | None = None


class DeadLetterItem(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An array in both subprotocols: [tag, reason], the reason may be left out."""

    t: int
    reason: str | None = None


class Have(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An array in both subprotocols: [sid, upto, [tag, ...]].

    The client has the messages of this subscription up to the tag ``upto``, and those in ``t``.
    """

    sid: int
    upto: int = 0
    t: Bounded[int] = []


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which session to go on with. With ``have``, what it leaves out is sent again."""

    session: str
    token: str
    have: Bounded[Have] | None = None


class PackResume(Resume, frozen=True, array_like=True):
    pass


class Hello(Command, frozen=True, kw_only=True):
    """``max_frame``: the largest frame in bytes that the client takes. ``resume_ttl_ms``: how long
    the session is kept for it while it is away; 0: not at all.
    """

    client: str | None = None
    resume: Resume | None = None
    max_frame: int | None = None
    resume_ttl_ms: int | None = None


class Publish(Command, frozen=True, kw_only=True):
    """Produce. The form of the messages, ``m``, differs between the subprotocols."""

    topic: str


class Subscribe(Command, frozen=True, kw_only=True):
    """``sid`` is the client's number for the subscription, unique within its session.

    ``client_id``: which client of a broadcast group it is, in all its sessions. ``consumer_id``:
    subscriptions with the same one are one member of the group, else each is its own.
    """

    sid: int
    topic: str
    group: str
    filter: FilterForm | None = None
    mode: str | None = None
    lease_ms: int | None = None
    auto_extend_ms: int | None = None
    credit: Credit | None = None
    from_: None = msgspec.field(default=None, name="from")
    client_id: str | None = None
    consumer_id: str | None = None
    consumer_zone: str | None = None


class AddCredit(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Permits on top of those there are. ``id`` stands last: it is rarely given."""

    sid: int
    msgs: int = 0
    bytes: int = 0
    id: int | None = None


class Ack(Command, frozen=True, kw_only=True):
    """Settle the tags in ``t``, and all up to ``upto``."""

    sid: int
    t: Bounded[int] | None = None
    upto: int | None = None


class Nack(Command, frozen=True, kw_only=True):
    """Give messages back."""

    sid: int
    t: Bounded[NackItem]


class DeadLetter(Command, frozen=True, kw_only=True):
    """Give messages up: they go to the group's DLQ."""

    sid: int
    t: Bounded[DeadLetterItem]


class Extend(Command, frozen=True, kw_only=True):
    """Let the leases of ``t`` end ``ms`` from now."""

    sid: int
    t: Bounded[int]
    ms: int


class Unsubscribe(Command, frozen=True, kw_only=True):
    """With ``drain`` outstanding messages may still be settled, else they are given back."""

    sid: int
    drain: bool = False


class Ping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Pong(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Limits(msgspec.Struct, frozen=True):
    credit_msgs: int = CREDIT_MSGS_MAX
    credit_bytes: int = CREDIT_BYTES_MAX
    max_frame: int = FRAME_BYTES_MAX
    max_commands: int = FRAME_COMMANDS_MAX


class PackLimits(Limits, frozen=True, array_like=True):
    pass


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to hello. ``resume_token`` is null when the session is not kept for the client.

    ``resumed``: it is the session asked for, with all its subscriptions; else a new one.
    """

    id: int | None
    session: str
    resume_token: str | None = None
    resumed: bool = False
    ping_ms: int = PING_MS
    pong_ms: int = PONG_MS
    limits: Limits = Limits()


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """A message on its way out, without its body.

    t tag, id message id, q queue, o queue offset, s store time in ms, a attempt from 1, tag, keys,
    g message group, p properties.
    """

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


if TYPE_CHECKING:
    JsonBody = str | bytes | msgspec.Raw  # what is written, bytes as base64
else:
    JsonBody = msgspec.Raw  # what is read: only ``e`` says how


class JsonDelivered(Delivered, frozen=True, gc=False):
    """``e`` says what ``b`` is: text, json (the value itself) or b64."""

    b: JsonBody
    e: str


class PackDelivered(Delivered, frozen=True, gc=False, array_like=True):
    """The body is binary, as it is."""

    b: bytes


class Lost(msgspec.Struct, frozen=True):
    """These tags are no longer the client's.

    ``why``: lease_expired; reset, offsets were set; revoked, others read the queue since the
    assignment number ``generation``; deleted.
    """

    sid: int
    t: list[int]
    why: str
    generation: int | None = None


class Flow(msgspec.Struct, frozen=True):
    """Why a subscription gets no messages: ``credit`` is used up, its group is ``paused``, or the
    tenant has used up its ``quota`` of what it may read; it, or its group on a queue, has as many
    messages ``inflight`` as it may; or ``open`` again.
    """

    sid: int
    state: str


class Ok(msgspec.Struct, frozen=True):
    """``r`` depends on the command."""

    id: int
    r: Any  # Any: each command has its own struct of results


class Err(msgspec.Struct, frozen=True):
    id: int | None
    code: str
    retryable: bool
    msg: str


class Goaway(msgspec.Struct, frozen=True):
    """The server is about to close; reconnect after ``retry_ms``."""

    why: str
    grace_ms: int
    retry_ms: int


class Messages(msgspec.Struct, frozen=True):
    sid: int


# Results in ``Ok.r``; maps in both subprotocols ---------------------------------------------------


class TagFailure(msgspec.Struct, frozen=True):
    t: int
    code: str


class Settled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of ack, nack, dlq and extend; the count that belongs to the command is there."""

    failed: list[TagFailure]
    acked: int | None = None
    nacked: int | None = None
    dead_lettered: int | None = None
    extended: int | None = None


class Subscribed(msgspec.Struct, frozen=True):
    """Result of sub and credit: what may be delivered from now on."""

    credit: Credit


class Unsubscribed(msgspec.Struct, frozen=True):
    outstanding: int


# The forms of each frame -------------------------------------------------------------------------

F = TypeVar("F", bound=msgspec.Struct)


def _json(fields: type[F], op: str) -> type[F]:
    """The JSON form of a frame: its fields under ``op``."""
    form = msgspec.defstruct(
        f"Json{fields.__name__}", [], bases=(fields,), module=__name__, tag_field="op", tag=op
    )
    return cast("type[F]", form)


def _pack(fields: type[F], number: int) -> type[F]:
    """The MessagePack form of a frame: its number, then its fields."""
    form = msgspec.defstruct(
        f"Pack{fields.__name__}",
        [],
        bases=(fields,),
        module=__name__,
        array_like=True,
        tag=number,
    )
    return cast("type[F]", form)


class JsonPublish(Publish, frozen=True, kw_only=True, tag_field="op", tag="pub"):
    m: Bounded[ProduceMessage]
    key: str | None = None


class PackPublish(Publish, frozen=True, kw_only=True, array_like=True, tag=3):
    m: Bounded[PackedMessage]
    key: str | None = None


class PackHello(Hello, frozen=True, kw_only=True, array_like=True, tag=1):
    resume: PackResume | None = None


class PackSubscribe(Subscribe, frozen=True, kw_only=True, array_like=True, tag=4):
    credit: PackCredit | None = None


class PackWelcome(Welcome, frozen=True, kw_only=True, array_like=True, tag=2):
    limits: PackLimits = PackLimits()


class JsonMessages(Messages, frozen=True, tag_field="op", tag="msgs"):
    m: list[JsonDelivered]


class PackMessages(Messages, frozen=True, array_like=True, tag=6):
    m: list[PackDelivered]


class Frame(NamedTuple):
    """A frame in both forms; ``fields`` is the class that they have in common."""

    op: str
    number: int
    fields: type[msgspec.Struct]
    json: type[msgspec.Struct]
    pack: type[msgspec.Struct]


def _frame(
    op: str,
    number: int,
    fields: type[msgspec.Struct],
    json: type[msgspec.Struct] | None = None,
    pack: type[msgspec.Struct] | None = None,
) -> Frame:
    return Frame(op, number, fields, json or _json(fields, op), pack or _pack(fields, number))


_PING: Final = _frame("ping", 16, Ping)
_PONG: Final = _frame("pong", 17, Pong)
COMMANDS: Final = (
    _frame("hello", 1, Hello, pack=PackHello),
    _frame("pub", 3, Publish, JsonPublish, PackPublish),
    _frame("sub", 4, Subscribe, pack=PackSubscribe),
    _frame("credit", 5, AddCredit),
    _frame("ack", 7, Ack),
    _frame("nack", 8, Nack),
    _frame("extend", 9, Extend),
    _frame("dlq", 10, DeadLetter),
    _frame("unsub", 15, Unsubscribe),
    _PING,
    _PONG,
)
PUSHES: Final = (
    _frame("welcome", 2, Welcome, pack=PackWelcome),
    _frame("msgs", 6, Messages, JsonMessages, PackMessages),
    _frame("lost", 11, Lost),
    _frame("flow", 12, Flow),
    _frame("ok", 18, Ok),
    _frame("err", 19, Err),
    _frame("goaway", 20, Goaway),
    _PING,
    _PONG,
)
_ALL: Final = {frame.fields: frame for frame in (*COMMANDS, *PUSHES)}
AnyCommand = (
    Hello
    | JsonPublish
    | PackPublish
    | Subscribe
    | AddCredit
    | Ack
    | Nack
    | Extend
    | DeadLetter
    | Unsubscribe
    | Ping
    | Pong
)


def json_form(fields: type[F]) -> type[F]:
    """The JSON form of a frame, by the class of its fields."""
    return cast("type[F]", _ALL[fields].json)


def pack_form(fields: type[F]) -> type[F]:
    """The MessagePack form of a frame, by the class of its fields."""
    return cast("type[F]", _ALL[fields].pack)


def union_of(forms: Iterable[type[msgspec.Struct]]) -> Any:  # Any: a union made at run time
    """What a decoder takes to read any of these."""
    return functools.reduce(operator.or_, forms)


def array_length(content: bytes) -> int:
    """What the head of a MessagePack array says, before any of it is decoded."""
    if content[0] == 0xDC:
        return int.from_bytes(content[1:3], "big")
    if content[0] == 0xDD:
        return int.from_bytes(content[1:5], "big")
    return content[0] & 0x0F


def is_array_of_arrays(content: bytes) -> bool:
    """Whether this is a MessagePack array whose first element is an array as well."""
    # The head of an array is one byte, with a 16-bit length three and with a 32-bit length five.
    head_bytes = {0xDC: 3, 0xDD: 5}.get(content[0], 1) if content else 0
    if not head_bytes or (head_bytes == 1 and not 0x90 <= content[0] <= 0x9F):
        return False
    first = content[head_bytes : head_bytes + 1]
    return bool(first) and (0x90 <= first[0] <= 0x9F or first[0] in (0xDC, 0xDD))
