"""Stored messages in responses that deliver nothing: browse, search, pull.

The fields are those of a received message without what a lease adds to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from mqservice.delivery.bodies import Base64Form, BodyForm, JsonForm, forms_of, split_json_mark
from mqservice.delivery.operation import MESSAGE_ID, STORED_AT
from mqservice.lib.timestamps import rfc3339
from mqservice.store import Record, shown_record


class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """One of the bodies is set; in MessagePack always ``body``, as bytes."""

    id: str
    tag: str | None
    keys: list[str]
    message_group: str | None
    properties: dict[str, str]
    queue: int
    offset: int
    born_at: str
    stored_at: str
    body: BodyForm = msgspec.UNSET
    body_json: JsonForm = msgspec.UNSET
    body_b64: Base64Form = msgspec.UNSET


EXAMPLE: Final = {
    "id": MESSAGE_ID, "tag": "created", "keys": ["order-42"], "message_group": None,
    "properties": {"source": "web"}, "queue": 0, "offset": 26146, "born_at": STORED_AT,
    "stored_at": STORED_AT, "body_json": {"order": 42},
}  # fmt: skip


def stored_messages(records: Iterable[Record], *, as_bytes: bool) -> list[StoredMessage]:
    """The messages of an answer, in the order of ``records``."""
    return [stored_message(record, as_bytes=as_bytes) for record in records]


def stored_message(record: Record, *, as_bytes: bool) -> StoredMessage:
    """One message as its producer made it, wherever it lies; ``as_bytes`` for MessagePack."""
    record = shown_record(record)
    is_json, properties = split_json_mark(record.properties)
    return StoredMessage(
        record.message_id,
        record.tag,
        record.keys,
        record.message_group,
        properties,
        record.queue_id,
        record.queue_offset,
        rfc3339(record.born_timestamp_ms),
        rfc3339(record.store_timestamp_ms),
        *forms_of(record.body, is_json=is_json, as_bytes=as_bytes),
    )
