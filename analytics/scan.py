"""One segment of the log as Arrow batches: the work of one Spark task, without Spark itself.

    Scan (columns, filters), Part (a segment's range) ──▶ [scan_part] ──▶ RecordBatch …

Runs on the executors, in processes that Spark forks: no threads, no connections here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from storage_engine.reader import Columns, Segment, read_columns

log = logging.getLogger(__name__)

TIME_MAX_MS: Final = 1 << 62
_ARROW: Final = {
    "physical_offset": pa.int64(),
    "record_bytes": pa.int64(),
    "topic": pa.string(),
    "queue_id": pa.int32(),
    "queue_offset": pa.int64(),
    "flag": pa.int32(),
    "born_ms": pa.int64(),
    "store_ms": pa.int64(),
    "reconsume_times": pa.int32(),
    "body_bytes": pa.int64(),
    "properties": pa.binary(),
    "body": pa.binary(),
}


@dataclass
class Scan:
    """What is wanted of the log; store times are half-open, ``topics`` None is all."""

    columns: list[str]
    checks_crcs: bool = False
    shows_damage: bool = False
    from_ms: int = 0
    to_ms: int = TIME_MAX_MS
    topics: set[str] | None = None

    def schema(self) -> pa.Schema:
        return pa.schema([(name, _ARROW[name]) for name in self.columns])


@dataclass
class Part:
    """Records of one segment that begin in ``[start_offset, end_offset)``; borders of records.

    ``since_ms``: when the last record before the segment was stored, as far as that is known.
    """

    segment: Segment
    start_offset: int
    end_offset: int
    since_ms: int


def scan_part(part: Part, scan: Scan) -> Iterator[pa.RecordBatch]:
    """The batches of one part. Memory: one batch of the reader, and its copy.

    Raises ``OffsetOutOfRange`` when retention has deleted the segment.
    """
    schema = scan.schema()
    damages: list[tuple[int, int]] = []

    def damaged(start: int, end: int, reason: str) -> None:
        log.warning("Skipped a damaged record from %d to %d: %s", start, end, reason)
        damages.append((start, end))

    last_ms = part.since_ms
    for columns in read_columns(
        part.segment,
        part.start_offset,
        part.end_offset,
        checks_crcs=scan.checks_crcs,
        damaged=damaged,
    ):
        if damages and scan.shows_damage:
            yield from _damage_batch(damages, last_ms, scan, schema)
        damages.clear()
        last_ms = int(columns.store_ms[-1])
        batch = _batch(columns, scan, schema)
        if batch is not None:
            yield batch
    if damages and scan.shows_damage:
        yield from _damage_batch(damages, last_ms, scan, schema)


def _batch(columns: Columns, scan: Scan, schema: pa.Schema) -> pa.RecordBatch | None:
    wanted = (columns.store_ms >= scan.from_ms) & (columns.store_ms < scan.to_ms)
    if not wanted.all():
        columns = columns.select(wanted)
    topics: pa.Array | None = None
    if scan.topics is not None or "topic" in scan.columns:
        indexes, names = columns.topics()
        if scan.topics is not None:
            wanted = np.array([name in scan.topics for name in names], bool)[indexes]
            columns, indexes = columns.select(wanted), indexes[wanted]
        topics = pa.array(names, pa.string()).take(pa.array(indexes))
    if not len(columns):
        return None
    arrays = []
    for name in scan.columns:
        if name == "topic":
            arrays.append(topics)
        elif name in ("properties", "body"):
            texts = columns.properties() if name == "properties" else columns.bodies()
            borders, content = pa.py_buffer(texts.borders), pa.py_buffer(texts.content)
            arrays.append(
                pa.Array.from_buffers(pa.binary(), len(columns), [None, borders, content])
            )
        else:
            values: NDArray[np.int64] = getattr(columns, name)
            arrays.append(pa.array(values, schema.field(name).type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _damage_batch(
    damages: list[tuple[int, int]], store_ms: int, scan: Scan, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    if scan.topics is not None or not scan.from_ms <= store_ms < scan.to_ms:
        return
    known = {
        "physical_offset": [start for start, _ in damages],
        "record_bytes": [end - start for start, end in damages],
        "store_ms": [store_ms] * len(damages),
    }
    unknown = [None] * len(damages)
    arrays = [pa.array(known.get(name, unknown), _ARROW[name]) for name in scan.columns]
    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
