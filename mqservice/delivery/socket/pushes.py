"""What the server sends on the WebSocket: pushes, replies, and the results in them.

Each is one class of fields, worn twice, as in ``frames.py``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mqservice.delivery.limits import (
    CREDIT_BYTES_MAX,
    CREDIT_MSGS_MAX,
    FRAME_BYTES_MAX,
    FRAME_COMMANDS_MAX,
    PING_MS,
    PONG_MS,
)
from mqservice.delivery.socket.frames import Credit


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


class JsonDelivered(Delivered, frozen=True, gc=False):
    """``e`` says what ``b`` is: text, json (the value itself) or b64."""

    b: str | bytes | msgspec.Raw
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


class JsonWelcome(Welcome, frozen=True, tag_field="op", tag="welcome"):
    pass


class JsonMessages(msgspec.Struct, frozen=True, tag_field="op", tag="msgs"):
    sid: int
    m: list[JsonDelivered]


class JsonLost(Lost, frozen=True, tag_field="op", tag="lost"):
    pass


class JsonFlow(Flow, frozen=True, tag_field="op", tag="flow"):
    pass


class JsonOk(Ok, frozen=True, tag_field="op", tag="ok"):
    pass


class JsonErr(Err, frozen=True, tag_field="op", tag="err"):
    pass


class JsonGoaway(Goaway, frozen=True, tag_field="op", tag="goaway"):
    pass


class PackWelcome(Welcome, frozen=True, kw_only=True, array_like=True, tag=2):
    limits: PackLimits = PackLimits()


class PackMessages(msgspec.Struct, frozen=True, array_like=True, tag=6):
    sid: int
    m: list[PackDelivered]


class PackLost(Lost, frozen=True, array_like=True, tag=11):
    pass


class PackFlow(Flow, frozen=True, array_like=True, tag=12):
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
