"""Messages as producers send them, checked and turned into records.

    ProduceMessage (JSON) ─┐
    raw body + mq-* headers ┼▶ Offer ──▶ check_offer ──▶ encode_offer ──▶ bytes for ``Store.put``
    PackedMessage (socket) ─┘                │
                                             └▶ Fault(pointer, code) when a rule is broken

The rules are RocketMQ's proxy's: no control characters in tag, keys, group and properties, no ``|``
in a tag, no blank values, reserved property names refused. Nothing of a refused message reaches the
store.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mqservice.delivery.bodies import JSON_PROPERTY, JSON_VALUE, OWN_PROPERTIES
from mqservice.delivery.decoding import Fault
from mqservice.delivery.delivery_time import check_not_too_far, is_in_future, read_wait
from mqservice.delivery.limits import (
    KEY_BYTES_MAX,
    KEY_COUNT_MAX,
    MESSAGE_GROUP_CHARS_MAX,
    PROPERTIES_BYTES_MAX,
    PROPERTY_COUNT_MAX,
    TAG_BYTES_MAX,
)
from mqservice.delivery.request_keys import check_key
from mqservice.lib.queue_numbers import QUEUE_NOT_FOUND, queue_fault
from mqservice.protocol.messages import PackedMessage, ProduceMessage
from mqservice.store import (
    SYSTEM_PROPERTIES,
    RecordRefused,
    StoreMessage,
    Wait,
    encode_plain,
    encode_record,
    new_message_id,
    scheduled,
)
from mqservice.topics.routes import TopicRoute

RESERVED_PROPERTIES: Final = SYSTEM_PROPERTIES | OWN_PROPERTIES
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SPACE: Final = re.compile(r"\s")


class Offer(msgspec.Struct, frozen=True, gc=False):
    """A message on its way in, whatever road it came by. ``wait``: when it is to be delivered."""

    body: bytes
    is_json: bool
    tag: str | None
    keys: list[str]
    message_group: str | None
    properties: dict[str, str]
    queue: int | None
    wait: Wait | None
    dedup_id: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether its body is all that a record has to hold."""
        return not (
            self.is_json
            or self.tag is not None
            or self.keys
            or self.message_group is not None
            or self.properties
            or self.wait is not None
        )


def to_offer(message: ProduceMessage | PackedMessage) -> Offer:
    """Raises Fault unless there is exactly one body, and for a time that is none."""
    if isinstance(message, PackedMessage):
        body, is_json = message.body, False
    else:
        body, is_json = _body_of(message)
    return Offer(
        body,
        is_json,
        message.tag,
        message.keys,
        message.message_group,
        message.properties,
        message.queue,
        read_wait(message.delay_level, message.delay, message.delay_ms, message.deliver_at),
        message.dedup_id,
    )


def _body_of(message: ProduceMessage) -> tuple[bytes, bool]:
    """The body, and whether it came as JSON."""
    raw = message.body_json
    if message.body is not None:
        if message.body_b64 is None and not raw:
            return message.body.encode(), False
    elif message.body_b64 is not None:
        if not raw:
            return message.body_b64, False
    elif raw:
        content = bytes(raw)
        try:
            content.decode()
        except UnicodeDecodeError as exc:
            raise Fault(
                "/body_json",
                "BAD_REQUEST",
                f"byte {exc.start} of the value is not valid UTF-8",
                item_code="INVALID_JSON",
            ) from exc
        return content, True
    raise Fault(
        "",
        "BAD_REQUEST",
        "give exactly one of body, body_json and body_b64",
        item_code="BODY_COUNT",
    )


def check_offer(offer: Offer, route: TopicRoute) -> None:
    """Raises Fault for the first rule that is broken, pointing at the field of the JSON form."""
    body_bytes = len(offer.body)
    if body_bytes > route.body_bytes_max:
        raise Fault(
            "",
            "BODY_TOO_LARGE",
            f"the body has {body_bytes} bytes, but topic {route.name} takes at most "
            f"{route.body_bytes_max}",
        )
    if not body_bytes:
        raise Fault("", "BAD_REQUEST", "the body is empty", item_code="BODY_EMPTY")
    if offer.tag is not None:
        _check_tag(offer.tag)
    if offer.keys:
        _check_keys(offer.keys)
    if offer.properties:
        _check_properties(offer.properties)
    if offer.message_group is not None:
        _check_message_group(offer.message_group)
    if offer.queue is not None and (fault := queue_fault(offer.queue, route.queue_count)):
        raise Fault("/queue", QUEUE_NOT_FOUND, fault)
    if offer.dedup_id is not None:
        check_key("/dedup_id", offer.dedup_id, "dedup_id")
    if route.message_type != "mixed":
        _check_type(offer, route)


def _check_type(offer: Offer, route: TopicRoute) -> None:
    if route.message_type == "fifo" and offer.message_group is None:
        raise Fault(
            "/message_group",
            "MESSAGE_TYPE_CONFLICT",
            "a message to a fifo topic needs a message group",
        )
    if route.message_type == "normal" and offer.message_group is not None:
        raise Fault(
            "/message_group",
            "MESSAGE_TYPE_CONFLICT",
            "a normal topic takes no messages with a message group",
        )
    if route.message_type == "delay":
        if offer.wait is None:
            raise Fault(
                "",
                "MESSAGE_TYPE_CONFLICT",
                "a message to a delay topic needs one of delay_level, delay, "
                "delay_ms and deliver_at",
            )
    elif offer.wait is not None:
        raise Fault(
            "",
            "MESSAGE_TYPE_CONFLICT",
            f"a {route.message_type} topic takes no delayed messages; use a delay or mixed topic",
        )


def encode_offer(
    offer: Offer,
    route: TopicRoute,
    *,
    queue_id: int,
    born_ms: int,
    born_host: tuple[str, int],
    mark: dict[str, str] | None = None,
    message_id: str = "",
) -> tuple[str, bytes]:
    """The message's id, a new one unless it is given, and its record. ``mark``: what the engine is
    to know besides.

    Raises:
        Fault: properties, tag and keys together are more than a record holds; the time of delivery
            is too far ahead.
    """
    if not message_id:
        message_id = new_message_id()
        if offer.is_plain and not mark:
            return message_id, encode_plain(
                topic=route.engine_name,
                queue_id=queue_id,
                body=offer.body,
                message_id=message_id,
                born_timestamp_ms=born_ms,
                born_host=born_host,
            )
    properties = offer.properties
    if offer.is_json:
        properties = {**properties, JSON_PROPERTY: JSON_VALUE}
    if mark:
        properties = {**mark, **properties}
    message = StoreMessage(
        topic=route.engine_name,
        queue_id=queue_id,
        body=offer.body,
        message_id=message_id,
        born_timestamp_ms=born_ms,
        born_host=born_host,
        tag=offer.tag,
        keys=offer.keys,
        message_group=offer.message_group,
        properties=properties,
    )
    if offer.wait is not None and is_in_future(offer.wait, born_ms):
        check_not_too_far(offer.wait, born_ms)
        message = scheduled(message, offer.wait)
    try:
        return message_id, encode_record(message)
    except RecordRefused as exc:
        raise Fault("/properties", "PROPERTIES_TOO_LARGE", str(exc)) from exc


def _fault_of_text(text: str, bytes_max: int) -> str | None:
    if not text or text.isspace():
        return "must not be blank"
    if not text.isprintable() and _CONTROL.search(text):
        return "must not contain control characters"
    if len(text) > bytes_max or (not text.isascii() and len(text.encode()) > bytes_max):
        return f"must have at most {bytes_max} bytes in UTF-8"
    return None


def tag_fault(tag: str) -> str | None:
    """What is wrong with a tag, as the end of a sentence that begins with it; None if nothing."""
    fault = _fault_of_text(tag, TAG_BYTES_MAX)
    if fault is None and "|" in tag:
        fault = "must not contain |, which separates tags in a filter"
    return fault


def key_fault(key: str) -> str | None:
    """What is wrong with a message key; otherwise like ``tag_fault``."""
    fault = _fault_of_text(key, KEY_BYTES_MAX)
    if fault is None and _SPACE.search(key):
        fault = "must not contain white space, which separates keys in the store"
    return fault


def _check_tag(tag: str) -> None:
    fault = tag_fault(tag)
    if fault is not None:
        raise Fault("/tag", "ILLEGAL_TAG", f"a tag {fault}")


def _check_keys(keys: list[str]) -> None:
    if len(keys) > KEY_COUNT_MAX:
        raise Fault(
            "/keys", "ILLEGAL_KEY", f"a message has at most {KEY_COUNT_MAX} keys, found {len(keys)}"
        )
    for index, key in enumerate(keys):
        fault = key_fault(key)
        if fault is not None:
            raise Fault(f"/keys/{index}", "ILLEGAL_KEY", f"a key {fault}")


def _check_message_group(group: str) -> None:
    fault = _fault_of_text(group, 4 * MESSAGE_GROUP_CHARS_MAX)
    if fault is None and len(group) > MESSAGE_GROUP_CHARS_MAX:
        fault = f"must have at most {MESSAGE_GROUP_CHARS_MAX} characters"
    if fault is not None:
        raise Fault(
            "/message_group",
            "BAD_REQUEST",
            f"a message group {fault}",
            item_code="ILLEGAL_MESSAGE_GROUP",
        )


def _check_properties(properties: dict[str, str]) -> None:
    if len(properties) > PROPERTY_COUNT_MAX:
        raise Fault(
            "/properties",
            "PROPERTIES_TOO_LARGE",
            f"a message has at most {PROPERTY_COUNT_MAX} properties, found {len(properties)}",
        )
    total_bytes = 0
    for name, value in properties.items():
        pointer = "/properties/" + name.replace("~", "~0").replace("/", "~1")
        if not name or name.isspace():
            raise Fault(pointer, "ILLEGAL_PROPERTY", "a property's name must not be blank")
        if name in RESERVED_PROPERTIES:
            raise Fault(pointer, "ILLEGAL_PROPERTY", "this property name is reserved")
        if not (name.isprintable() and value.isprintable()) and (
            _CONTROL.search(name) or _CONTROL.search(value)
        ):
            raise Fault(
                pointer, "ILLEGAL_PROPERTY", "a property must not contain control characters"
            )
        total_bytes += len(name.encode()) + len(value.encode())
    if total_bytes > PROPERTIES_BYTES_MAX:
        raise Fault(
            "/properties",
            "PROPERTIES_TOO_LARGE",
            f"the names and values take {total_bytes} bytes, at most {PROPERTIES_BYTES_MAX} fit",
        )
