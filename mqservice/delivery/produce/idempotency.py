"""Idempotent requests: their keys, how their messages are compared, and their results.

    Idempotency-Key: K        the request's key; message i of a batch has ``K`` and i
    dedup_id of a message     its own key, which wins over the request's
    key, fingerprint ──▶ property of the record ──▶ store.put_once ──▶ stored now, or by the first

The engine remembers a key as long as it says (10 minutes), as durably as the message itself. Keys
belong to a topic. A request without a key takes the other road and pays nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from mqservice.delivery.http import Request
from mqservice.delivery.messages import Offer
from mqservice.delivery.request_keys import check_key
from mqservice.lib.trace_context import TRACEPARENT, TRACESTATE
from mqservice.store import (
    PROPERTY_DEDUP,
    PutOncePlace,
    PutResult,
    dedup_value,
    error_from_code,
)

IDEMPOTENCY_KEY: Final = b"idempotency-key"
_REQUEST: Final = "r"  # so that no key of a request is one of a message
_MESSAGE: Final = "m"
_COPY: Final = "c"
_OF_TRACES: Final = frozenset({TRACEPARENT, TRACESTATE})
REQUEST_OF_SCHEDULE: Final = "s"  # the same of both
_encode = msgspec.msgpack.Encoder().encode


def request_key(request: Request) -> str:
    """What ``Idempotency-Key``, which is there, says; Fault unless it is a key."""
    text = request.headers[IDEMPOTENCY_KEY].decode("latin-1")
    check_key("", text, "Idempotency-Key")
    return text


def marks_of(key: str | None, offers: Sequence[Offer], *, is_batch: bool) -> list[dict[str, str]]:
    """For each message the property that makes the engine store it once; none without a key.

    The number of messages belongs to what is compared: a part of a batch is another request.
    """
    marks = []
    for index, offer in enumerate(offers):
        if offer.dedup_id is not None:
            mark = {PROPERTY_DEDUP: dedup_value(_fingerprint(offer, 1), _MESSAGE + offer.dedup_id)}
        elif key is None:
            mark = {}
        else:
            own = f"{_REQUEST}{index}.{key}" if is_batch else f"{_REQUEST}.{key}"
            mark = {PROPERTY_DEDUP: dedup_value(_fingerprint(offer, len(offers)), own)}
        marks.append(mark)
    return marks


def copy_mark(key: str, message_id: str, offer: Offer) -> dict[str, str]:
    """The same for a copy of a message: its key is also of that message, since a search that is
    repeated may find others before it.
    """
    own = f"{_COPY}{message_id}.{key}"
    return {PROPERTY_DEDUP: dedup_value(_fingerprint(offer, 1), own)}


def _fingerprint(offer: Offer, message_count: int) -> bytes:
    """Of all but its trace: a client that tries again does so in another span."""
    if not offer.properties.keys().isdisjoint(_OF_TRACES):
        kept = {name: text for name, text in offer.properties.items() if name not in _OF_TRACES}
        offer = msgspec.structs.replace(offer, properties=kept)
    content = _encode((message_count, offer))
    return hashlib.blake2b(content, digest_size=16).digest()


def result_of(place: PutOncePlace) -> PutResult:
    """As of a put."""
    if place.code:
        return PutResult(-1, -1, 0, error_from_code(place.code, "rejected by the storage engine"))
    return PutResult(
        place.queue_offset, place.physical_offset, place.store_timestamp_ms, due_ms=place.due_ms
    )
