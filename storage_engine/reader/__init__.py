"""The engine's log as files, for processes that only read it.

    store directory ──▶ [find_extent] ──▶ Extent: segments, first and last offset
    Segment ──▶ [read_columns] ──▶ Columns: some thousand records at a time, as arrays

Takes no lock, asks no engine, changes nothing; works beside a running engine and on a stopped one.
What lies below ``Extent.end_offset`` stays as it is. Whoever reads beside a running engine holds a
snapshot (``snapshots.py``), or retention may delete a segment under him.
"""

from __future__ import annotations

from storage_engine.errors import OffsetOutOfRange, StoreCorrupt, StoreError
from storage_engine.reader.columns import Columns
from storage_engine.reader.extent import Extent, Segment, find_extent, first_store_ms, store_ms_at
from storage_engine.reader.segment_reader import Damaged, read_columns
from storage_engine.records.causes import cause_of
from storage_engine.records.record import NAME_VALUE, PROPERTY_END
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.records.topic_names import DLQ_PREFIX, RETRY_PREFIX

__all__ = [
    "DLQ_PREFIX",
    "NAME_VALUE",
    "PROPERTY_END",
    "RETRY_PREFIX",
    "SCHEDULE_TOPIC",
    "Columns",
    "Damaged",
    "Extent",
    "OffsetOutOfRange",
    "Segment",
    "StoreCorrupt",
    "StoreError",
    "cause_of",
    "find_extent",
    "first_store_ms",
    "read_columns",
    "store_ms_at",
]
