"""The path of a PUT frame into the log: check each record, append all valid ones together.

    payload ──▶ [PutPath.put] ── entries ──▶ commit_log.append ── keys ──▶ dispatcher.follow
                     └─ a record that breaks a rule: its code in the reply, the others go on

Only the engine's own rules are checked here (layout, topic, queue, body size); names, rights and
quotas are the caller's. Loop thread only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from storage_engine.config import StoreConfig
from storage_engine.errors import (
    BadRequest,
    RecordRefused,
    StoreError,
    TopicNotFound,
)
from storage_engine.log.commit_log import BLANK_BYTES, CommitLog, Entry
from storage_engine.puts.delay_clock import DelayClock
from storage_engine.puts.delayed_puts import Delayed, DelayedPuts
from storage_engine.puts.dispatcher import Dispatcher
from storage_engine.puts.route import BUFFERED, Route
from storage_engine.records.message_keys import (
    ID_BACK,
    ID_END_BACK,
    ID_HEAD,
    ID_HEAD_BACK,
    KEYS_HEAD,
    PAIR_END,
    KeyBatch,
    empty_batch,
    keys_of,
)
from storage_engine.records.record import (
    BODY_LENGTH_AT,
    CRC_DIGITS,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_HEAD,
    FIXED_BYTES,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    LENGTH_4,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_BYTES_MAX,
    STORE_TIMESTAMP_AT,
    SYSFLAG_BORN_HOST_V6,
)
from storage_engine.records.retry_record import PROPERTIES_RESERVE_BYTES
from storage_engine.records.schedule_topic import SCHEDULE_QUEUES, SCHEDULE_TOPIC_BYTES
from storage_engine.records.settles import SETTLES_HEAD
from storage_engine.records.tag_hash import tag_hash_of

_SYSFLAGS_ALLOWED: Final = frozenset({0, SYSFLAG_BORN_HOST_V6})
_MAGICS_ALLOWED: Final = frozenset({MAGIC_V1, MAGIC_V2})
_V6_MORE: Final = HOST_V6_BYTES - HOST_V4_BYTES
_TAG: Final = b"TAGS\x01"
_STAMP_AT_V6: Final = STORE_TIMESTAMP_AT + HOST_V6_BYTES - HOST_V4_BYTES
_TOPIC_AT: Final = BODY_LENGTH_AT + 4  # less the body
# A message must be able to fail: its retries and its dead letter say more than it did.
_PROPERTIES_MAX: Final = PROPERTIES_BYTES_MAX - PROPERTIES_RESERVE_BYTES
_PAIR_ENDS: Final = bytes([PAIR_END])
_BEHIND_ID: Final = _PAIR_ENDS + CRC_PROPERTY_HEAD
_DIGITS_BACK: Final = CRC_DIGITS + 1
# Least that follows the body: topic length, properties length, CRC property.
_AFTER_BODY_BYTES: Final = 1 + 2 + CRC_PROPERTY_BYTES
_peek = struct.Struct(">II4xi20xi44xI").unpack_from  # size, magic, queue id, sysflag, body (v4)
_length_4 = LENGTH_4.unpack_from


_NO_ROUTE: Final = Route([], 0, awaits=BUFFERED, is_schedule=False, topic_hash=0)


class Appended(NamedTuple):
    """Outcome of a PUT frame, before anything is durable.

    ``offsets`` has queue_offset and physical_offset of each record in turn, flat; of a refused one,
    -code and 0. ``due_ms``: when the delays of records end that were counted from here, by the
    record's place among all.
    """

    offsets: list[int]
    stored_count: int
    end_offset: int
    awaits: int
    due_ms: Mapping[int, int] = {}


# What the last plain record had from its topic to its id, its magic, tag hash and route. A record
# that has the same bytes there has the same of all, and all its lengths fit.
_Likeness = tuple[bytes | None, int, int, Route]
_LIKE_NONE: Final[_Likeness] = (None, 0, 0, _NO_ROUTE)


class _Frame:
    """One PUT frame and what was read of it. ``holes`` are by index in ``entries``."""

    __slots__ = ("awaits", "count", "entries", "holes", "keys", "likeness", "payload", "refused")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.count = 0
        self.entries: list[Entry] = []
        self.keys = empty_batch()
        self.refused: list[tuple[int, int]] = []  # (index of the record, code)
        self.holes: dict[int, Delayed] = {}
        self.awaits = BUFFERED
        self.likeness = _LIKE_NONE

    def add_keys(self, properties_at: int, end: int) -> bytes | None:
        """Note the keys of the last entry for the index; its id, if it has that and nothing else.

        As ``keys_of`` would find it: most records have an id and no keys.
        """
        payload = self.payload
        _, keys, counts, _, _ = self.keys
        head_at = end - ID_HEAD_BACK
        if (
            head_at >= properties_at
            and payload.startswith(ID_HEAD, head_at)
            and payload[end - ID_END_BACK] == PAIR_END
            and (
                head_at == properties_at
                or (
                    payload[head_at - 1] == PAIR_END
                    and payload.find(KEYS_HEAD, properties_at, head_at) < 0
                )
            )
        ):
            message_id = payload[end - ID_BACK : end - ID_END_BACK]
            keys.append(message_id)
            return message_id
        own = keys_of(payload, properties_at, end)
        keys += own
        if len(own) != 1:
            counts.append((len(self.entries) - 1, len(own)))
        return None


class PutPath:
    """See the module's docstring. ``routes`` is keyed by the topic's UTF-8 bytes.

    ``make_schedule()`` makes the schedule topic, when the first message for it comes.
    """

    def __init__(
        self,
        config: StoreConfig,
        delay_clock: DelayClock,
        commit_log: CommitLog,
        dispatcher: Dispatcher,
        make_schedule: Callable[[], object],
    ) -> None:
        self._config = config
        self._commit_log = commit_log
        self._dispatcher = dispatcher
        self._make_schedule = make_schedule
        self.routes: dict[bytes, Route] = {}
        self._delayed = DelayedPuts(delay_clock, self.routes.get)

    def put(self, payload: bytes) -> Appended:
        """Append the records of a PUT frame.

        Raises:
            BadRequest: the payload is not a sequence of records; nothing is appended.
            DiskFull: no segment can be added; nothing is appended.
        """
        if not payload:
            raise BadRequest("PUT has no record")
        frame = _Frame(payload)
        self._read(frame)
        entries, refused, count = frame.entries, frame.refused, frame.count
        due_ms: dict[int, int] = {}
        if frame.holes:
            self._commit_log.make_room(len(payload), entries)
            payload, entries, due_ms = self._delayed.fill(payload, entries, frame.holes)
        awaits = frame.awaits
        if refused:
            good = self._put_valid_records(
                payload, entries, frame.keys, refused, count, awaits=awaits
            )
        else:
            good = self._append(payload, entries, frame.keys, awaits=awaits)
        return good._replace(due_ms=_by_record(due_ms, refused, count)) if due_ms else good

    def _read(self, frame: _Frame) -> None:
        """Check all records. Those like the last plain one cost one comparison of bytes each."""
        payload, entries = frame.payload, frame.entries
        topic_hashes, keys, _, _, _ = frame.keys
        body_bytes_max = self._config.body_bytes_max
        like, like_magic, like_tag_hash, like_route = frame.likeness
        at, size, count = 0, len(payload), 0
        while at < size:
            if size - at < FIXED_BYTES:
                raise BadRequest(f"PUT ends with {size - at} bytes that are not a record")
            record_bytes, magic, queue_id, sysflag, body_bytes = _peek(payload, at)
            end = at + record_bytes
            if record_bytes < FIXED_BYTES or end > size:
                raise BadRequest(
                    f"a record of PUT says it has {record_bytes} bytes, but only "
                    f"{size - at} are left"
                )
            id_at = end - ID_BACK
            if (
                not sysflag
                and magic == like_magic
                and payload[at + _TOPIC_AT + body_bytes : id_at] == like
                and payload[end - ID_END_BACK : end - _DIGITS_BACK] == _BEHIND_ID
                and payload[end - 1] == PAIR_END
                and 0 <= queue_id < like_route.writable_count
                and body_bytes <= body_bytes_max
                and _PAIR_ENDS not in (message_id := payload[id_at : end - ID_END_BACK])
            ):
                queue = like_route.queues[queue_id]
                entries.append((at, record_bytes, queue, STORE_TIMESTAMP_AT, like_tag_hash))
                topic_hashes.append(like_route.topic_hash)
                keys.append(message_id)
            else:
                refusal = self._read_unlike(frame, at, end, magic, queue_id, sysflag, body_bytes)
                if refusal:
                    frame.refused.append((count, refusal))
                like, like_magic, like_tag_hash, like_route = frame.likeness
            count += 1
            at = end
        frame.count = count

    def _read_unlike(
        self,
        frame: _Frame,
        at: int,
        end: int,
        magic: int,
        queue_id: int,
        sysflag: int,
        body_bytes: int,
    ) -> int:
        """Check a record by all rules and take it in; the code of its refusal, or 0.

        Its head comes as six arguments: a tuple of them would cost half as much as all the rest.
        """
        payload = frame.payload
        stamp_at, topic_at = STORE_TIMESTAMP_AT, at + _TOPIC_AT + body_bytes
        if sysflag:
            stamp_at, topic_at, body_bytes = _places_v6(payload, at, end)
        if topic_at + _AFTER_BODY_BYTES > end or body_bytes > self._config.body_bytes_max:
            return RecordRefused.code
        if magic == MAGIC_V1:
            properties_at = topic_at + 3 + payload[topic_at]
            topic = payload[topic_at + 1 : properties_at - 2]
        else:
            properties_at = topic_at + 4 + ((payload[topic_at] << 8) | payload[topic_at + 1])
            topic = payload[topic_at + 2 : properties_at - 2]
        if (
            sysflag not in _SYSFLAGS_ALLOWED
            or magic not in _MAGICS_ALLOWED
            or not _may_be_put(payload, properties_at, end)
        ):
            return RecordRefused.code
        route = self._route_of(topic, queue_id)
        if route is None:
            return TopicNotFound.code
        if not 0 <= queue_id < route.writable_count:
            return route.refusal
        delayed = self._delayed.read(payload, properties_at, end) if route.is_schedule else None
        if delayed and delayed.refusal:
            return delayed.refusal
        tag_hash = 0
        if delayed:
            tag_hash = delayed.due_ms
            frame.awaits |= delayed.awaits
            if delayed.hole_at >= 0:
                frame.holes[len(frame.entries)] = delayed
        elif payload.find(_TAG, properties_at, end) >= 0:
            tag_hash = tag_hash_of(payload[properties_at:end])
        frame.entries.append((at, end - at, route.queues[queue_id], stamp_at, tag_hash))
        frame.keys.topic_hashes.append(route.topic_hash)
        message_id = frame.add_keys(properties_at, end)
        if message_id is not None and not sysflag and not delayed and _PAIR_ENDS not in message_id:
            frame.likeness = payload[topic_at : end - ID_BACK], magic, tag_hash, route
        frame.awaits |= route.awaits
        return 0

    def _route_of(self, topic: bytes, queue_id: int) -> Route | None:
        if topic == SCHEDULE_TOPIC_BYTES:
            return self._schedule_route(queue_id)
        return self.routes.get(topic)

    def _schedule_route(self, queue_id: int) -> Route:
        """With all its queues, if need be: an older store may have fewer of them."""
        route = self.routes.get(SCHEDULE_TOPIC_BYTES)
        if route is None or route.writable_count <= queue_id < SCHEDULE_QUEUES:
            self._make_schedule()
            route = self.routes[SCHEDULE_TOPIC_BYTES]
        return route

    def _put_valid_records(
        self,
        payload: bytes,
        entries: list[Entry],
        keys: KeyBatch,
        refused: list[tuple[int, int]],
        count: int,
        *,
        awaits: int,
    ) -> Appended:
        good = Appended([], 0, 0, BUFFERED)
        if entries:
            good_payload, moved = _without_rejected(payload, entries)
            good = self._append(good_payload, moved, keys, awaits=awaits)
        offsets = iter(good.offsets)
        codes = dict(refused)
        merged: list[int] = []
        for index in range(count):
            merged += (-codes[index], 0) if index in codes else (next(offsets), next(offsets))
        return good._replace(offsets=merged)

    def _append(
        self, payload: bytes, entries: list[Entry], keys: KeyBatch, *, awaits: int
    ) -> Appended:
        log = self._commit_log
        if len(payload) + BLANK_BYTES <= self._config.segment_bytes:
            offsets = log.append(payload, entries)
            keys.physical_offsets.extend(offsets[1::2])
            keys.stamps.extend([log.store_timestamp_ms] * len(entries))
            self._dispatcher.follow(log.append_offset, entries, keys)
            return Appended(offsets, len(entries), log.append_offset, awaits)
        # More than a segment holds: record by record. Only tiny segments make that happen.
        offsets = []
        for at, record_bytes, queue, stamp_at, tag_hash in entries:
            if record_bytes + BLANK_BYTES > self._config.segment_bytes:
                offsets += (-RecordRefused.code, 0)
                continue
            alone = [(0, record_bytes, queue, stamp_at, tag_hash)]
            try:
                offsets += log.append(payload[at : at + record_bytes], alone)
            except StoreError as exc:
                offsets += (-exc.code, 0)
                continue
            self._dispatcher.follow(log.append_offset, alone, None)
        stored_count = sum([offset >= 0 for offset in offsets[::2]])
        return Appended(offsets, stored_count, log.append_offset, awaits)


def _places_v6(payload: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Of a record with addresses of version 6: where its store time is in the record, where its
    topic begins, and the bytes of its body. Where there is no room for its head, the topic begins
    at the end, which nothing fits behind.
    """
    if end - at < FIXED_BYTES + _V6_MORE:
        return _STAMP_AT_V6, end, 0
    (body_bytes,) = _length_4(payload, at + BODY_LENGTH_AT + _V6_MORE)
    return _STAMP_AT_V6, at + _TOPIC_AT + _V6_MORE + body_bytes, body_bytes


def _may_be_put(payload: bytes, properties_at: int, end: int) -> bool:
    """Whether the properties of a record fit its length, end with the CRC, and are a sender's."""
    return (
        properties_at + CRC_PROPERTY_BYTES <= end
        and (payload[properties_at - 2] << 8) | payload[properties_at - 1] == end - properties_at
        and end - properties_at <= _PROPERTIES_MAX
        and payload.startswith(CRC_PROPERTY_HEAD, end - CRC_PROPERTY_BYTES)
        and payload[end - 1] == PAIR_END
        and payload.find(SETTLES_HEAD, properties_at, end) < 0  # the engine's own
    )


def holds_one_record(payload: bytes) -> bool:
    """True when a PUT payload is exactly one record, by its own length field."""
    size = len(payload)
    return size >= FIXED_BYTES and _length_4(payload)[0] == size


def _by_record(
    due_ms: dict[int, int], refused: list[tuple[int, int]], count: int
) -> dict[int, int]:
    """From places among the good records to places among all ``count``."""
    codes = dict(refused)
    places = [index for index in range(count) if index not in codes]
    return {places[at]: due for at, due in due_ms.items()}


def _without_rejected(payload: bytes, entries: list[Entry]) -> tuple[bytes, list[Entry]]:
    """The good records alone, back to back, and their entries at the new positions."""
    parts: list[bytes] = []
    moved: list[Entry] = []
    to = 0
    for at, record_bytes, queue, stamp_at, tag_hash in entries:
        parts.append(payload[at : at + record_bytes])
        moved.append((to, record_bytes, queue, stamp_at, tag_hash))
        to += record_bytes
    return b"".join(parts), moved
