"""The message of a schedule in the forms of the API, the row, the put and the page.

    {"body": …, "tag": …} ──▶ read_message ──▶ Offer ──▶ keep ──▶ row ──▶ offer_of ──▶ a produce
                                                                   └────▶ bodies_of ──▶ JSON

It is what a produce takes, without what says when it is delivered and without a key of its own:
the schedule says both.
"""

from __future__ import annotations

import base64
import contextlib
from typing import Final

import msgspec

from mqservice.delivery.decoding import Fault, decode
from mqservice.delivery.messages import Offer, check_offer, to_offer
from mqservice.protocol.messages import ProduceMessage
from mqservice.schedules.limits import BODY_BYTES_MAX
from mqservice.schedules.models import Schedule
from mqservice.topics.routes import TopicRoute

POINTER: Final = "/message"
_FIELDS: Final = ("is_json", "tag", "keys", "message_group", "properties", "queue")
_NOT_HERE: Final = ("delay_level", "delay", "delay_ms", "deliver_at", "dedup_id")
_decode: Final = msgspec.json.Decoder(ProduceMessage).decode


def read_message(content: bytes) -> Offer:
    """``content``: the JSON of the field ``message``. Raises Fault, whose place is in the body."""
    try:
        message = decode(_decode, content)
        for name in _NOT_HERE:
            if getattr(message, name) is not None:
                raise Fault(
                    f"/{name}", "BAD_REQUEST", "is not allowed in the message of a schedule"
                )
        offer = to_offer(message)
        if len(offer.body) > BODY_BYTES_MAX:
            raise Fault(
                "",
                "BODY_TOO_LARGE",
                f"the body has {len(offer.body)} bytes, a schedule's message has at "
                f"most {BODY_BYTES_MAX}",
            )
    except Fault as fault:
        raise fault.under(POINTER) from None
    return offer


def check_message(offer: Offer, route: TopicRoute) -> None:
    """As a produce to that topic checks it. Raises Fault, whose place is in the body."""
    try:
        check_offer(offer, route)
    except Fault as fault:
        raise fault.under(POINTER) from None


def set_message(schedule: Schedule, offer: Offer) -> bool:
    """Make it the message of ``schedule``, which is not saved; whether that changes anything."""
    if offer == offer_of(schedule):
        return False
    schedule.body = offer.body
    for name in _FIELDS:
        setattr(schedule, name, getattr(offer, name))
    return True


def offer_of(schedule: Schedule) -> Offer:
    return Offer(
        bytes(schedule.body),
        schedule.is_json,
        schedule.tag,
        schedule.keys,
        schedule.message_group,
        schedule.properties,
        schedule.queue,
        None,
    )


def bodies_of(schedule: Schedule) -> tuple[str | None, object, str | None]:
    """``body``, ``body_json`` and ``body_b64``, one of which is there, that would make it again."""
    body = bytes(schedule.body)
    if schedule.is_json:
        with contextlib.suppress(msgspec.DecodeError):  # a number that is out of Python's range
            value: object = msgspec.json.decode(body)
            if value is not None:
                return None, value, None
    try:
        return body.decode(), None, None
    except UnicodeDecodeError:
        return None, None, base64.b64encode(body).decode()
