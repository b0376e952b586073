"""The store's log as a Spark data source, named ``mqlog``; batch and streaming.

    spark.read.format("mqlog").option("path", store).load()       a snapshot of the log
    spark.readStream.format("mqlog").option("path", store)…       offset = physical offset

Driver: [LogSource] finds the segments and makes a partition of each that may hold what is wanted.
Executors: ``scan.scan_part``, which leaves out the other rows before Spark sees them. A frame is a
snapshot from its first use on.

    path                store directory, the same on all executors
    columns             comma-separated; all but ``body``, which is read only when it is named
    fromMs, toMs        store times, half-open          topics    engine names, comma-separated
    endOffset           of a snapshot, else the checkpoint's
    withTail            true: also what a power cut may still take
    checkCrcs           true: of every record; always when bodies are read
    showDamage          true: a row without a topic for each damaged range
    startOffset         of a stream that begins

Filters are options and not Spark's ``pushFilters``, tried with 4.3.0: Spark keeps what was pushed
with the loaded frame, so that a second query of the same frame without the filter lacks rows. Spark
also asks a Python source for all columns of its schema, whatever a query uses.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from analytics.scan import TIME_MAX_MS, Part, Scan, scan_part
from analytics.schemas import BODY, RECORDS
from storage_engine.reader import (
    Extent,
    OffsetOutOfRange,
    StoreError,
    find_extent,
    first_store_ms,
    store_ms_at,
)

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "mqlog"
OFFSET: Final = "physical_offset"
__all__ = [
    "FORMAT",
    "Extent",
    "LogSource",
    "StoreError",
    "find_extent",
    "first_store_ms",
    "store_ms_at",
]


class LogPartition(InputPartition):
    """One segment's part of what is read."""

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self.part = part


class LogSource(DataSource):
    """See the module's docstring."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        named = self.options.get("columns", "")
        names = [name.strip() for name in named.split(",") if name.strip()]
        if not names:
            names = [name for name in RECORDS.names if name != BODY]
        _check(names)
        return StructType([RECORDS[name] for name in names])

    def reader(self, schema: StructType) -> LogReader:
        return LogReader(self.options, schema)

    def streamReader(self, schema: StructType) -> LogStreamReader:
        return LogStreamReader(self.options, schema)


class LogReader(DataSourceReader):
    """The log as it is when partitions are asked for."""

    def __init__(self, options: MutableMapping[str, str], schema: StructType) -> None:
        self._store = _path(options)
        self._end_offset = _number(options, "endOffset")
        self._with_tail = _is_on(options, "withTail")
        self._scan = _scan(options, schema)

    def partitions(self) -> Sequence[LogPartition]:
        extent = find_extent(self._store, end_offset=self._end_offset, with_tail=self._with_tail)
        return [LogPartition(part) for part in parts_of(extent, self._scan)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there are no partitions Spark makes one of its own, tried with 4.3.0.
        if not isinstance(partition, LogPartition):
            return iter(())
        return scan_part(partition.part, self._scan)


class LogStreamReader(DataSourceStreamReader):
    """What has become durable since the batch before; only checkpointed records, so that no crash
    takes back what was read.
    """

    def __init__(self, options: MutableMapping[str, str], schema: StructType) -> None:
        self._store = _path(options)
        self._start_offset = _number(options, "startOffset")
        self._scan = _scan(options, schema)

    def initialOffset(self) -> dict[str, int]:
        extent = find_extent(self._store, with_tail=False)
        return {OFFSET: self._start_offset or extent.start_offset}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        """All there is; Any: Spark's kinds of limits, of which none is asked for."""
        extent = find_extent(self._store, with_tail=False)
        return {OFFSET: max(extent.end_offset, start[OFFSET])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[LogPartition]:
        if start[OFFSET] == end[OFFSET]:
            return []
        extent = find_extent(self._store, end_offset=end[OFFSET])
        if extent.start_offset > start[OFFSET]:
            raise OffsetOutOfRange(
                f"retention has deleted the log below {extent.start_offset}, but the "
                f"stream had only read up to {start[OFFSET]}: start it again from "
                "there, or retain messages longer"
            )
        parts = parts_of(extent, self._scan, start_offset=start[OFFSET])
        return [LogPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogPartition)
        return scan_part(partition.part, self._scan)

    def commit(self, end: dict[str, int]) -> None:
        """The engine keeps no progress of streams; Spark's checkpoint does."""


def parts_of(extent: Extent, scan: Scan, start_offset: int = 0) -> list[Part]:
    """The segments that may hold what is wanted. One read of 100 bytes a segment.

    ``start_offset``: a border of records, from which on they are read. Store times never decrease
    along the log, so that the first record of a segment bounds all before it.
    """
    firsts = [first_store_ms(segment) for segment in extent.segments]
    parts: list[Part] = []
    since_ms = 0
    for index, segment in enumerate(extent.segments):
        first_ms = firsts[index]
        next_ms = next((each for each in firsts[index + 1 :] if each is not None), None)
        start = max(segment.base_offset, start_offset)
        end = min(segment.end_offset, extent.end_offset)
        is_wanted = (
            (first_ms is None or first_ms < scan.to_ms)
            and (next_ms is None or next_ms >= scan.from_ms)
            and end > start
        )
        since_ms = since_ms if first_ms is None else first_ms
        if is_wanted:
            parts.append(Part(segment, start, end, since_ms))
    return parts


def _scan(options: MutableMapping[str, str], schema: StructType) -> Scan:
    _check(schema.names)
    topics = {name.strip() for name in options.get("topics", "").split(",") if name.strip()}
    to_ms = _number(options, "toMs")
    return Scan(
        columns=list(schema.names),
        from_ms=_number(options, "fromMs") or 0,
        to_ms=TIME_MAX_MS if to_ms is None else to_ms,
        topics=topics or None,
        checks_crcs=_is_on(options, "checkCrcs") or BODY in schema.names,
        shows_damage=_is_on(options, "showDamage"),
    )


def _check(names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in RECORDS.names]
    if unknown:
        raise ValueError(f"{FORMAT} has no columns {unknown}; its columns are {RECORDS.names}")


def _path(options: MutableMapping[str, str]) -> Path:
    path = options.get("path", "")
    if not path:
        raise ValueError(f"{FORMAT} needs the store's directory: .load(directory)")
    return Path(path.removeprefix("file://"))


def _number(options: MutableMapping[str, str], name: str) -> int | None:
    text = options.get(name, "")
    if text and not text.isdigit():
        raise ValueError(f"option {name} is {text!r}, it must be a number")
    return int(text) if text else None


def _is_on(options: MutableMapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise ValueError(f"option {name} is {text!r}, it must be true or false")
    return text == "true"
