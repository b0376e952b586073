"""Frames of the WebSocket: each is one class of fields, worn twice.

    class Ack            the fields, what the session works with
    class JsonAck(Ack)   {"op": "ack", ...}
    class PackAck(Ack)   [7, ...]               positions never change, new fields join at the end

Commands come from the client; pushes and answers from the server. Fields whose capability comes
later hold their position and take null only.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mqservice.delivery.limits import (
    CREDIT_BYTES_DEFAULT,
    CREDIT_BYTES_MAX,
    CREDIT_MSGS_DEFAULT,
    CREDIT_MSGS_MAX,
    FRAME_BYTES_MAX,
    PING_MS,
    PONG_MS,
)
from mqservice.delivery.messages import PackedMessage, ProduceMessage

# Commands ---------------------------------------------------------------------------------------


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what a client sends. Answered if it has an ``id``."""

    id: int | None = None


class Credit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much the client takes, in messages and in bytes of bodies."""

    msgs: int = CREDIT_MSGS_DEFAULT
    bytes: int = CREDIT_BYTES_DEFAULT


class PackCredit(Credit, frozen=True, array_like=True):
    pass


class NackItem(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An array in both subprotocols: [tag, delay_ms, reason], the last two may be left out."""

    t: int
    delay_ms: int = 0
    reason: str | None = None


class Hello(Command, frozen=True, kw_only=True):
    """``max_frame``: the largest frame in bytes that the client takes."""

    client: str | None = None
    resume: None = None
    max_frame: int | None = None


class Publish(Command, frozen=True, kw_only=True):
    """Produce. The form of the messages, ``m``, differs between the subprotocols."""

    topic: str


class Subscribe(Command, frozen=True, kw_only=True):
    """``sid`` is the client's number for the subscription, unique within its session."""

    sid: int
    topic: str
    group: str
    filter: str | None = None
    mode: str | None = None
    lease_ms: int | None = None
    auto_extend_ms: None = None
    credit: Credit | None = None
    from_: None = msgspec.field(default=None, name="from")


class AddCredit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Permits on top of those there are. ``id`` stands last: it is rarely given."""

    sid: int
    msgs: int = 0
    bytes: int = 0
    id: int | None = None


class Ack(Command, frozen=True, kw_only=True):
    """Settle the tags in ``t``, and all up to ``upto``."""

    sid: int
    t: list[int] | None = None
    upto: int | None = None


class Nack(Command, frozen=True, kw_only=True):
    """Give messages back."""

    sid: int
    t: list[NackItem]


class Extend(Command, frozen=True, kw_only=True):
    """Let the leases of ``t`` end ``ms`` from now."""

    sid: int
    t: list[int]
    ms: int


class Unsubscribe(Command, frozen=True, kw_only=True):
    """With ``drain`` outstanding messages may still be settled, else they are given back."""

    sid: int
    drain: bool = False


class Ping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Pong(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class JsonHello(Hello, frozen=True, tag_field="op", tag="hello"):
    pass


class JsonPublish(Publish, frozen=True, kw_only=True, tag_field="op", tag="pub"):
    m: list[ProduceMessage]
    key: None = None


class JsonSubscribe(Subscribe, frozen=True, tag_field="op", tag="sub"):
    pass


class JsonAddCredit(AddCredit, frozen=True, tag_field="op", tag="credit"):
    pass


class JsonAck(Ack, frozen=True, tag_field="op", tag="ack"):
    pass


class JsonNack(Nack, frozen=True, tag_field="op", tag="nack"):
    pass


class JsonExtend(Extend, frozen=True, tag_field="op", tag="extend"):
    pass


class JsonUnsubscribe(Unsubscribe, frozen=True, tag_field="op", tag="unsub"):
    pass


class JsonPing(Ping, frozen=True, tag_field="op", tag="ping"):
    pass


class JsonPong(Pong, frozen=True, tag_field="op", tag="pong"):
    pass


class PackHello(Hello, frozen=True, array_like=True, tag=1):
    pass


class PackPublish(Publish, frozen=True, kw_only=True, array_like=True, tag=3):
    m: list[PackedMessage]
    key: None = None


class PackSubscribe(Subscribe, frozen=True, kw_only=True, array_like=True, tag=4):
    credit: PackCredit | None = None


class PackAddCredit(AddCredit, frozen=True, array_like=True, tag=5):
    pass


class PackAck(Ack, frozen=True, array_like=True, tag=7):
    pass


class PackNack(Nack, frozen=True, array_like=True, tag=8):
    pass


class PackExtend(Extend, frozen=True, array_like=True, tag=9):
    pass


class PackUnsubscribe(Unsubscribe, frozen=True, array_like=True, tag=15):
    pass


class PackPing(Ping, frozen=True, array_like=True, tag=16):
    pass


class PackPong(Pong, frozen=True, array_like=True, tag=17):
    pass


JsonCommand = (
    JsonHello
    | JsonPublish
    | JsonSubscribe
    | JsonAddCredit
    | JsonAck
    | JsonNack
    | JsonExtend
    | JsonUnsubscribe
    | JsonPing
    | JsonPong
)
PackCommand = (
    PackHello
    | PackPublish
    | PackSubscribe
    | PackAddCredit
    | PackAck
    | PackNack
    | PackExtend
    | PackUnsubscribe
    | PackPing
    | PackPong
)
AnyCommand = JsonCommand | PackCommand

# Pushes and answers -------------------------------------------------------------------------------


class Limits(msgspec.Struct, frozen=True):
    credit_msgs: int = CREDIT_MSGS_MAX
    credit_bytes: int = CREDIT_BYTES_MAX
    max_frame: int = FRAME_BYTES_MAX


class PackLimits(Limits, frozen=True, array_like=True):
    pass


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to hello. ``resume_token`` is null until sessions can be resumed."""

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


class JsonDelivered(Delivered, frozen=True, gc=False):
    """``e`` says what ``b`` is: text, json (the value itself) or b64."""

    b: str | bytes | msgspec.Raw
    e: str


class PackDelivered(Delivered, frozen=True, gc=False, array_like=True):
    """The body is binary, as it is."""

    b: bytes


class Lost(msgspec.Struct, frozen=True):
    """These tags are no longer the client's; ``why`` is lease_expired for now."""

    sid: int
    t: list[int]
    why: str


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


class JsonWelcome(Welcome, frozen=True, tag_field="op", tag="welcome"):
    pass


class JsonMessages(msgspec.Struct, frozen=True, tag_field="op", tag="msgs"):
    sid: int
    m: list[JsonDelivered]


class JsonLost(Lost, frozen=True, tag_field="op", tag="lost"):
    pass


class JsonOk(Ok, frozen=True, tag_field="op", tag="ok"):
    pass


class JsonErr(Err, frozen=True, tag_field="op", tag="err"):
    pass


class JsonGoaway(Goaway, frozen=True, tag_field="op", tag="goaway"):
    pass


class PackWelcome(Welcome, frozen=True, kw_only=True, array_like=True, tag=2):
    limits: Limits = PackLimits()


class PackMessages(msgspec.Struct, frozen=True, array_like=True, tag=6):
    sid: int
    m: list[PackDelivered]


class PackLost(Lost, frozen=True, array_like=True, tag=11):
    pass


class PackOk(Ok, frozen=True, array_like=True, tag=18):
    pass


class PackErr(Err, frozen=True, array_like=True, tag=19):
    pass


class PackGoaway(Goaway, frozen=True, array_like=True, tag=20):
    pass


# Results in ``Ok.r``; maps in both subprotocols ---------------------------------------------------


class TagFailure(msgspec.Struct, frozen=True):
    t: int
    code: str


class Settled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of ack, nack and extend; the count that belongs to the command is there."""

    failed: list[TagFailure]
    acked: int | None = None
    nacked: int | None = None
    extended: int | None = None


class Subscribed(msgspec.Struct, frozen=True):
    """Result of sub and credit: what may be delivered from now on."""

    credit: Credit


class Unsubscribed(msgspec.Struct, frozen=True):
    outstanding: int
