"""Commands on the WebSocket: each is one class of fields, worn twice.

    class Ack            the fields, what the session works with
    class JsonAck(Ack)   {"op": "ack", ...}
    class PackAck(Ack)   [7, ...]               positions never change, new fields join at the end

These are the commands, which come from the client; ``pushes.py`` has what the server sends. Fields
whose capability comes later hold their position and take null only.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from mqservice.delivery.filters import FilterForm
from mqservice.delivery.limits import (
    CREDIT_BYTES_DEFAULT,
    CREDIT_MSGS_DEFAULT,
    LIST_COUNT_HARD_MAX,
)
from mqservice.delivery.messages import PackedMessage, ProduceMessage

T = TypeVar("T")
# In MessagePack a list says how long it is, and is refused before any of it is decoded.
Bounded = Annotated[list[T], msgspec.Meta(max_length=LIST_COUNT_HARD_MAX)]


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


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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


class AddCredit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class JsonHello(Hello, frozen=True, tag_field="op", tag="hello"):
    pass


class JsonPublish(Publish, frozen=True, kw_only=True, tag_field="op", tag="pub"):
    m: Bounded[ProduceMessage]
    key: str | None = None


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


class JsonDeadLetter(DeadLetter, frozen=True, tag_field="op", tag="dlq"):
    pass


class JsonUnsubscribe(Unsubscribe, frozen=True, tag_field="op", tag="unsub"):
    pass


class JsonPing(Ping, frozen=True, tag_field="op", tag="ping"):
    pass


class JsonPong(Pong, frozen=True, tag_field="op", tag="pong"):
    pass


class PackHello(Hello, frozen=True, kw_only=True, array_like=True, tag=1):
    resume: PackResume | None = None


class PackPublish(Publish, frozen=True, kw_only=True, array_like=True, tag=3):
    m: Bounded[PackedMessage]
    key: str | None = None


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


class PackDeadLetter(DeadLetter, frozen=True, array_like=True, tag=10):
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
    | JsonDeadLetter
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
    | PackDeadLetter
    | PackUnsubscribe
    | PackPing
    | PackPong
)
AnyCommand = JsonCommand | PackCommand
