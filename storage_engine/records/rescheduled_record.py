"""The record that makes a scheduled message due at another time; pure functions."""

from __future__ import annotations

from typing import Final

from storage_engine.records.record_draft import read_draft
from storage_engine.records.retry_record import forwarded_record
from storage_engine.records.schedule_topic import (
    DELAY_LEVEL,
    DELAY_MS,
    DUE_HOLE,
    PROPERTY_DELIVER_AT,
)
from storage_engine.records.settles import Settles

_OLD_DELAY: Final = frozenset({DELAY_LEVEL.encode(), DELAY_MS.encode()})


def rescheduled_record(record: bytes, *, due_ms: int, queue_id: int, settles: Settles) -> bytes:
    """The same message, due at ``due_ms`` in a queue of the schedule topic, in the place of the one
    that ``settles`` names.

    Raises:
        RecordRefused: its properties leave no room, see ``PROPERTIES_RESERVE_BYTES``.
        StoreCorrupt: it is no record.
    """
    draft = read_draft(forwarded_record(record, settles=settles))
    draft.drop(_OLD_DELAY)
    draft.set(PROPERTY_DELIVER_AT.encode(), b"%0*d" % (len(DUE_HOLE), due_ms))
    draft.queue_id = queue_id
    return draft.encode()
