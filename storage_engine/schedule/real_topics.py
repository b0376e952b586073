"""For which topics messages of the schedule are, many at once: what a listing need not read.

    physical offsets ──▶ [real_topics] ──▶ topic of each, or None: its record must be read

Only a help: nothing is verified, and a record that is not like those around it gives None.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

import numpy as np
from numpy.typing import NDArray

from storage_engine.disk.mapped_file import MappedFile
from storage_engine.log.commit_log import CommitLog
from storage_engine.reader.columns import HEAD_BYTES, Columns
from storage_engine.records.schedule_topic import REAL_TOPIC

_REAL_TOPIC: Final = REAL_TOPIC.encode()
_TOPIC_BYTES_MAX: Final = 127


def real_topics(commit_log: CommitLog, physical_offsets: NDArray[np.int64]) -> list[bytes | None]:
    """See the module's docstring. About 0.3 µs each, when there are hundreds."""
    found: list[bytes | None] = [None] * len(physical_offsets)
    segments = commit_log.segments()
    left = np.arange(len(physical_offsets))
    while len(left):
        at = bisect_right(segments, int(physical_offsets[left[0]]), key=_base_offset) - 1
        if at < 0:
            left = left[1:]  # gone from the log
            continue
        segment = segments[at]
        positions = physical_offsets[left] - segment.base_offset
        is_here = (positions >= 0) & (positions < segment.size_bytes)
        has_head = is_here & (positions <= segment.size_bytes - HEAD_BYTES)
        columns = Columns(segment.view, positions[has_head], segment.base_offset)
        topics = columns.values(_REAL_TOPIC, _TOPIC_BYTES_MAX)
        for row, topic in zip(left[has_head].tolist(), topics, strict=True):
            found[row] = topic
        is_here[0] = True  # also where it stands behind the last segment
        left = left[~is_here]
    return found


def real_topic(properties: bytes) -> bytes:
    """The topic that a scheduled record is for; empty when it does not say so."""
    _, head, rest = (b"\x02" + properties).partition(b"\x02" + _REAL_TOPIC + b"\x01")
    return rest.partition(b"\x02")[0] if head else b""


def _base_offset(segment: MappedFile) -> int:
    return segment.base_offset
