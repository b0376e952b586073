"""Properties of many records of the open log at once, so that they need not be read one by one.

    physical offsets ──▶ [property_values] ──▶ value of each, or None: its record must be read

Only a help: nothing is verified, and a record that is not like those around it gives None.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from storage_engine.disk.mapped_file import MappedFile
from storage_engine.log.commit_log import CommitLog
from storage_engine.reader.columns import HEAD_BYTES, Columns

Values = list[bytes | None]


def property_values(
    commit_log: CommitLog,
    physical_offsets: NDArray[np.int64],
    properties: Sequence[tuple[bytes, int]],
) -> list[Values]:
    """Of each property, given by its name and the most bytes its value has, the value in each
    record. About 0.3 µs a value, when there are hundreds.
    """
    count = len(physical_offsets)
    found: list[Values] = [[None] * count for _ in properties]
    segments = commit_log.segments()
    left = np.arange(count)
    while len(left):
        at = bisect_right(segments, int(physical_offsets[left[0]]), key=_base_offset) - 1
        if at < 0:
            left = left[1:]  # gone from the log
            continue
        segment = segments[at]
        if not segment.is_local:  # whole segments are not fetched for it
            left = left[physical_offsets[left] >= segment.base_offset + segment.size_bytes]
            continue
        positions = physical_offsets[left] - segment.base_offset
        is_here = (positions >= 0) & (positions < segment.size_bytes)
        has_head = is_here & (positions <= segment.size_bytes - HEAD_BYTES)
        columns = Columns(segment.view, positions[has_head], segment.base_offset)
        rows = left[has_head].tolist()
        for values, (name, bytes_max) in zip(found, properties, strict=True):
            for row, value in zip(rows, columns.values(name, bytes_max), strict=True):
                values[row] = value
        is_here[0] = True  # also where it stands behind the last segment
        left = left[~is_here]
    return found


def property_value(properties: bytes, name: bytes) -> bytes | None:
    """One property of a record's encoded list; None when it is not there."""
    _, head, rest = (b"\x02" + properties).partition(b"\x02" + name + b"\x01")
    return rest.partition(b"\x02")[0] if head else None  # RocketMQ ends the last one without it


def _base_offset(segment: MappedFile) -> int:
    return segment.base_offset
