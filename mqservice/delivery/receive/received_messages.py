"""Leased messages as a receive over REST answers them, each with its receipt.

    Received ── alike: by columns ─────┐
             └─ else one after other ──┴──▶ [messages_of] ──▶ ReceivedMessage, …

Both ways say the same. Messages of one answer mostly differ in nothing but place, time, id and
body; what is the same of all is then made once, and their receipts together.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import msgspec

from mqservice.delivery.bodies import Base64Form, BodyForm, JsonForm, forms_of, split_json_mark
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.tokens.receipt_columns import write_columns
from mqservice.groups.routes import GroupRoute
from mqservice.lib.timestamps import rfc3339
from mqservice.store import Received, RecordColumns, is_shown_as_it_is, shown_record


class ReceivedMessage(msgspec.Struct, frozen=True, gc=False):
    """A leased message. One of the bodies is set; in MessagePack always ``body``, as bytes."""

    id: str
    receipt: str
    tag: str | None
    keys: list[str]
    message_group: str | None
    properties: dict[str, str]
    queue: int
    offset: int
    attempt: int
    max_attempts: int | None
    born_at: str
    stored_at: str
    lease_until: str
    body: BodyForm = msgspec.UNSET
    body_json: JsonForm = msgspec.UNSET
    body_b64: Base64Form = msgspec.UNSET


def messages_of(
    context: DeliveryContext,
    received: Received,
    *,
    group: GroupRoute,
    as_bytes: bool,
    client_id: str = "",
) -> list[ReceivedMessage]:
    """The messages of an answer, each with its receipt."""
    head = received.head
    expires_ms = head.first_until_ms or head.lease_until_ms  # the same receipts when repeated
    lease_until = rfc3339(head.lease_until_ms)
    max_attempts = 1 if group.is_broadcast else group.max_reconsume_times + 1 or None
    columns = received.columns
    if columns is not None and is_shown_as_it_is(columns.properties):
        receipts = write_columns(
            context.receipts,
            columns.queue_ids,
            columns.queue_offsets,
            group=group.engine_name,
            topic=columns.topic,
            lease_generation=head.lease_generation,
            expires_ms=expires_ms,
            client_id=client_id,
        )
        same = max_attempts, lease_until
        return _by_columns(columns, receipts, head.attempts, same, as_bytes=as_bytes)
    write = context.receipts.writer(
        group=group.engine_name,
        lease_generation=head.lease_generation,
        expires_ms=expires_ms,
        client_id=client_id,
    )
    messages = []
    for stored, attempt in zip(received.records, head.attempts, strict=True):
        record = shown_record(stored)
        is_json, properties = split_json_mark(record.properties)
        body, body_json, body_b64 = forms_of(record.body, is_json=is_json, as_bytes=as_bytes)
        messages.append(
            ReceivedMessage(
                record.message_id,
                write(stored.topic, record.queue_id, record.queue_offset),
                record.tag,
                record.keys,
                record.message_group,
                properties,
                record.queue_id,
                record.queue_offset,
                attempt,
                max_attempts,
                rfc3339(record.born_timestamp_ms),
                rfc3339(record.store_timestamp_ms),
                lease_until,
                body,
                body_json,
                body_b64,
            )
        )
    return messages


def _by_columns(
    columns: RecordColumns,
    receipts: Iterable[str],
    attempts: Iterable[int],
    same: tuple[int | None, str],
    *,
    as_bytes: bool,
) -> list[ReceivedMessage]:
    """Messages that are alike; ``same``: their attempts at most, and until when they are leased."""
    max_attempts, lease_until = same
    is_json, properties = split_json_mark(columns.properties)
    return list(
        map(
            ReceivedMessage,
            columns.message_ids,
            receipts,
            repeat(columns.tag),
            repeat([]),
            repeat(None),
            repeat(properties),
            columns.queue_ids,
            columns.queue_offsets,
            attempts,
            repeat(max_attempts),
            map(rfc3339, columns.born_timestamps_ms),
            map(rfc3339, columns.store_timestamps_ms),
            repeat(lease_until),
            *_bodies_of(columns, is_json=is_json, as_bytes=as_bytes),
        )
    )


def _bodies_of(
    columns: RecordColumns, *, is_json: bool, as_bytes: bool
) -> tuple[Iterable[BodyForm], Iterable[JsonForm], Iterable[Base64Form]]:
    """A column for each of what ``forms_of`` returns."""
    unset = repeat(msgspec.UNSET)
    if as_bytes:
        return columns.bodies, unset, unset
    if is_json:
        return unset, map(msgspec.Raw, columns.bodies), unset
    try:
        return list(map(bytes.decode, columns.bodies)), unset, unset
    except UnicodeDecodeError:
        forms = [forms_of(body, is_json=False, as_bytes=False) for body in columns.bodies]
        bodies, jsons, b64s = zip(*forms, strict=True)
        return bodies, jsons, b64s
