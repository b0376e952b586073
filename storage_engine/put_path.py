"""The way of a PUT frame into the log: check each record, append all good ones together.

    payload ──▶ [PutPath.put] ── entries ──▶ commit_log.append ──▶ dispatcher.follow
                     └─ a record that breaks a rule: its code in the reply, the others go on

Only the engine's own rules are checked here (layout, topic, queue, body size); names, rights and
quotas are the caller's. Loop thread only.
"""

from __future__ import annotations

from typing import NamedTuple

from storage_engine.commit_log import CommitLog, Entry
from storage_engine.config import StoreConfig
from storage_engine.consume_queue import ConsumeQueue
from storage_engine.dispatcher import Dispatcher
from storage_engine.errors import BadRequest, QueueNotFound, RecordRefused, TopicNotFound
from storage_engine.record import (
    BODY_LENGTH_AT,
    CRC_PROPERTY_BYTES,
    FIXED_BYTES,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    LENGTH_4,
    MAGIC_V1,
    MAGIC_V2,
    PEEK,
    SYSFLAG_BORN_HOST_V6,
)
from storage_engine.tag_hash import tag_hash_of

_SYSFLAGS_ALLOWED = frozenset({0, SYSFLAG_BORN_HOST_V6})
_V6_MORE = HOST_V6_BYTES - HOST_V4_BYTES


class Route(NamedTuple):
    """Where records of a topic go. ``queues`` may be longer than what is writable."""

    queues: list[ConsumeQueue]
    writable_count: int
    is_sync: bool


class Appended(NamedTuple):
    """Outcome of a PUT frame, before anything is durable.

    ``offsets`` has (queue_offset, physical_offset) or (-code, 0) for each record, in order.
    """

    offsets: list[tuple[int, int]]
    end_offset: int
    must_sync: bool


class PutPath:
    """See the module's docstring. ``routes`` is keyed by the topic's UTF-8 bytes."""

    def __init__(self, config: StoreConfig, commit_log: CommitLog, dispatcher: Dispatcher) -> None:
        self._config = config
        self._commit_log = commit_log
        self._dispatcher = dispatcher
        self.routes: dict[bytes, Route] = {}

    def put(self, payload: bytes) -> Appended:
        """Append the records of a PUT frame.

        Raises:
            BadRequest: the payload is not a sequence of records; nothing is appended.
            DiskFull: no segment can be added; nothing is appended.
        """
        entries: list[Entry] = []
        codes: list[int] = []  # 0, or why the record at this place was refused
        must_sync = False
        at, size = 0, len(payload)
        if not size:
            raise BadRequest("PUT without a record")
        while at < size:
            if size - at < FIXED_BYTES:
                raise BadRequest(f"PUT ends with {size - at} bytes that are no record")
            record_bytes, magic, queue_id, sysflag = PEEK.unpack_from(payload, at)
            if not FIXED_BYTES <= record_bytes <= size - at:
                raise BadRequest(f"record claims {record_bytes} bytes, {size - at} are there")
            code, entry, is_sync = self._check(payload, at, record_bytes, magic, queue_id, sysflag)
            codes.append(code)
            if entry is not None:
                entries.append(entry)
                must_sync = must_sync or is_sync
            at += record_bytes
        if not entries:
            return Appended([(-code, 0) for code in codes], 0, False)
        if len(entries) < len(codes):
            payload, entries = _without_refused(payload, entries)
        appended = self._append(payload, entries)
        if len(entries) < len(codes):
            good = iter(appended)
            appended = [(-code, 0) if code else next(good) for code in codes]
        return Appended(appended, self._commit_log.append_offset, must_sync)

    def _check(
        self, payload: bytes, at: int, record_bytes: int, magic: int, queue_id: int, sysflag: int
    ) -> tuple[int, Entry | None, bool]:
        is_v6 = sysflag == SYSFLAG_BORN_HOST_V6
        body_at = at + BODY_LENGTH_AT + (_V6_MORE if is_v6 else 0)
        end = at + record_bytes
        if sysflag not in _SYSFLAGS_ALLOWED or body_at + 4 > end:
            return RecordRefused.code, None, False
        (body_bytes,) = LENGTH_4.unpack_from(payload, body_at)
        topic_at = body_at + 4 + body_bytes
        if topic_at + 2 > end or body_bytes > self._config.body_bytes_max:
            return RecordRefused.code, None, False
        if magic == MAGIC_V1:
            properties_at = topic_at + 3 + payload[topic_at]
            topic = payload[topic_at + 1 : properties_at - 2]
        elif magic == MAGIC_V2:
            properties_at = topic_at + 4 + ((payload[topic_at] << 8) | payload[topic_at + 1])
            topic = payload[topic_at + 2 : properties_at - 2]
        else:
            return RecordRefused.code, None, False
        if (
            properties_at + CRC_PROPERTY_BYTES > end
            or (payload[properties_at - 2] << 8) | payload[properties_at - 1] != end - properties_at
        ):
            return RecordRefused.code, None, False
        route = self.routes.get(topic)
        if route is None:
            return TopicNotFound.code, None, False
        if not 0 <= queue_id < route.writable_count:
            return QueueNotFound.code, None, False
        tag_hash = tag_hash_of(payload[properties_at:end])
        return 0, Entry(at, record_bytes, route.queues[queue_id], is_v6, tag_hash), route.is_sync

    def _append(self, payload: bytes, entries: list[Entry]) -> list[tuple[int, int]]:
        if len(payload) + 8 <= self._config.segment_bytes:
            offsets = self._commit_log.append(payload, entries)
            self._dispatcher.follow(self._commit_log.append_offset, entries, offsets)
            return offsets
        # More than a segment holds: record by record. Only configurations with tiny segments do
        # this.
        offsets = []
        for entry in entries:
            record = payload[entry.at : entry.at + entry.record_bytes]
            if len(record) + 8 > self._config.segment_bytes:
                offsets.append((-RecordRefused.code, 0))
                continue
            alone = [entry._replace(at=0)]
            placed = self._commit_log.append(record, alone)
            self._dispatcher.follow(self._commit_log.append_offset, alone, placed)
            offsets += placed
        return offsets


def _without_refused(payload: bytes, entries: list[Entry]) -> tuple[bytes, list[Entry]]:
    """The good records alone, back to back, and their entries at the new positions."""
    parts, moved, at = [], [], 0
    for entry in entries:
        parts.append(payload[entry.at : entry.at + entry.record_bytes])
        moved.append(entry._replace(at=at))
        at += entry.record_bytes
    return b"".join(parts), moved
