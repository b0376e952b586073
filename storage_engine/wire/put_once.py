"""Idempotent puts: each record names its request, and is stored once however often it is sent."""

from __future__ import annotations

import msgspec

from storage_engine.wire.struct import Wire


class PutOnceRequest(Wire, frozen=True, kw_only=True):
    """Records as in a PUT, back to back; those with a mark (``__DEDUP``) are stored once.

    ``window_ms``: how old their first ones are at most, or an eighth of the store's own window
    older; 0: as old as the store knows them.
    """

    records: bytes
    window_ms: int = 0


class PutOncePlace(msgspec.Struct, frozen=True, array_like=True):
    """Where a record is, or was put by an earlier request with its key (``is_duplicate``).

    ``code``: of the error for a refused record, else 0. ``queue_id`` is the queue of the message's
    own topic, ``queue_offset`` its place there or, of one that was sent to wait, in the schedule.
    ``due_ms``: as of a put's result.
    """

    code: int
    queue_id: int = 0
    queue_offset: int = -1
    physical_offset: int = -1
    store_timestamp_ms: int = 0
    message_id: str = ""
    is_duplicate: bool = False
    is_waiting: bool = False
    due_ms: int = 0


class PutOnceReply(Wire, frozen=True, kw_only=True):
    """One place for each record, in order."""

    places: list[PutOncePlace]
