"""Finding the messages of a topic that have a key, newest first, page by page without an end.

    store ── look_up(request) ──▶ [key_lookup] ── chains of index files ──▶ candidates
                                       └── text and CRC of each record in the log ──▶ page, cursor

Only a hash is in the index: each candidate's topic and key are compared as text, so that keys of
one hash ("Aa" and "BB") are kept apart. The window is on store time, both ends included. A cursor
names the entry to go on with and the last record given; whatever is stored later does not move it,
and when the index has been built anew it goes on by that record. Work per call is bounded, so a
page may be short or empty and still have a cursor. Loop thread only; changes nothing.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from storage_engine.config import StoreConfig
from storage_engine.errors import BadRequest, CursorInvalid, StoreCorrupt
from storage_engine.index.index_file import SECONDS_MAX, IndexFile
from storage_engine.index.index_files import IndexFiles
from storage_engine.log.commit_log import CommitLog
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.key_hash import key_hash
from storage_engine.records.message_keys import keys_of
from storage_engine.records.record import LENGTH_4, RecordHead, verify_record
from storage_engine.wire.reads import LookUpHead, LookUpRequest

# About 10 ms: an entry that is passed over costs 1, one whose record must be read 8.
_WORK_MAX: Final = 8_192
_RECORD_WORK: Final = 8
_CURSOR = struct.Struct(">BIqiqq")  # version, key hash, file, entry, its record, below
_CURSOR_CRC = struct.Struct(">I")
_CURSOR_VERSION: Final = 1
IsRemoved = Callable[[str, int, int], bool]  # topic, queue id, queue offset
_NO_BOUND: Final = (1 << 63) - 1


class _Place(NamedTuple):
    """Entry ``number`` of the file named ``name_ms`` comes next; it is of ``physical_offset``.

    Only records below ``below`` have not been given yet.
    """

    name_ms: int
    number: int
    physical_offset: int
    below: int


class _Page:
    """What one call has found, and what it may still spend."""

    def __init__(self, config: StoreConfig, request: LookUpRequest) -> None:
        self.records: list[bytes] = []
        self._messages_max = request.messages_max
        self._bytes_left = min(request.bytes_max, config.receive_bytes_max)
        self._read_bytes_left = 2 * config.receive_bytes_max
        self._work_left = _WORK_MAX

    @property
    def is_full(self) -> bool:
        return (
            len(self.records) >= self._messages_max
            or self._work_left <= 0
            or self._read_bytes_left <= 0
        )

    def walked(self) -> None:
        self._work_left -= 1

    def read(self, record_bytes: int) -> None:
        self._work_left -= _RECORD_WORK
        self._read_bytes_left -= record_bytes

    def add(self, record: bytes) -> bool:
        """False when it does not fit any more; the first one always does."""
        if self.records and len(record) > self._bytes_left:
            return False
        self.records.append(record)
        self._bytes_left -= len(record)
        return True


class KeyLookup:
    """One look-up; ``page`` gives the records and where to go on."""

    def __init__(
        self,
        config: StoreConfig,
        index: IndexFiles,
        commit_log: CommitLog,
        queues: list[ConsumeQueue],
        request: LookUpRequest,
        is_gone: IsRemoved,
    ) -> None:
        """``is_gone`` names dead letters that are none any more.

        Raises ``BadRequest``: a limit or the window is out of range, or the key is empty."""
        if not 1 <= request.messages_max <= config.receive_messages_max:
            raise BadRequest(
                f"messages_max is {request.messages_max}, it must be 1 to "
                f"{config.receive_messages_max}"
            )
        if not request.key:
            raise BadRequest("the key is empty")
        if request.from_ms > request.to_ms:
            raise BadRequest(f"from_ms {request.from_ms} is after to_ms {request.to_ms}")
        self._config = config
        self._files = index.files
        self._commit_log = commit_log
        self._queues = queues
        self._request = request
        self._is_removed = is_gone
        self._topic = request.topic.encode()
        self._key = request.key.encode()
        self._hash = key_hash(self._topic, self._key)

    def page(self, *, is_complete: bool) -> tuple[LookUpHead, bytes]:
        """(head, records back to back). ``is_complete``: the index has all visible records.

        Raises ``CursorInvalid``.
        """
        page = _Page(self._config, self._request)
        place = self._walk(page)
        cursor = "" if place is None else self._encode(place)
        return LookUpHead(cursor=cursor, is_complete=is_complete), b"".join(page.records)

    def _walk(self, page: _Page) -> _Place | None:
        """Fill the page; where it stopped, None at the end."""
        below = _NO_BOUND
        start = self._decode() if self._request.cursor else None
        files = self._files[::-1]
        number = 0
        if start is not None:
            below = start.below
            number = self._number_of(start)
            if number:
                files = [file for file in files if file.name_ms <= start.name_ms]
        for file in files:
            if not number:
                if file.last_timestamp_ms < self._request.from_ms:
                    return None
                if (
                    file.first_timestamp_ms > self._request.to_ms
                    or file.first_physical_offset >= below
                ):
                    continue
                number = file.newest_number(self._hash)
            while number:
                entry = file.entry(number)
                if page.is_full:
                    return _Place(file.name_ms, number, entry.physical_offset, below)
                page.walked()
                if entry.key_hash == self._hash and entry.physical_offset < below:
                    if self._is_too_old(file, entry.seconds):
                        return None
                    record = self._match(page, file, entry.seconds, entry.physical_offset)
                    if record is not None:
                        if not page.add(record):
                            return _Place(file.name_ms, number, entry.physical_offset, below)
                        below = entry.physical_offset
                number = entry.previous_number if entry.previous_number < number else 0
        return None

    def _is_too_old(self, file: IndexFile, seconds: int) -> bool:
        """True when this record and with it all older ones are before the window."""
        if seconds >= SECONDS_MAX or file.first_timestamp_ms <= 0:
            return False
        return file.first_timestamp_ms + seconds * 1_000 + 999 < self._request.from_ms

    def _match(
        self, page: _Page, file: IndexFile, seconds: int, physical_offset: int
    ) -> bytes | None:
        """The record, when it is whole, in the window, readable, and really has the key."""
        request = self._request
        if file.first_timestamp_ms + seconds * 1_000 > request.to_ms:
            return None
        record = self._read(physical_offset)
        page.read(len(record))
        try:
            head = verify_record(record)
        except StoreCorrupt:
            return None
        if (
            head.physical_offset != physical_offset
            or head.topic != self._topic
            or not request.from_ms <= head.store_timestamp_ms <= request.to_ms
            or self._key not in keys_of(record, head.properties_at, head.record_bytes)
            or not self._is_readable(head)
        ):
            return None
        return record

    def _is_readable(self, head: RecordHead) -> bool:
        """Retention may have taken it from its queue, though not from the log yet."""
        if head.queue_id >= len(self._queues):
            return False
        if head.queue_offset < self._queues[head.queue_id].min_offset:
            return False
        return not self._is_removed(self._request.topic, head.queue_id, head.queue_offset)

    def _read(self, physical_offset: int) -> bytes:
        """The bytes of a record, unverified; none when its place has no record any more."""
        try:
            length = self._commit_log.read_many([(physical_offset, LENGTH_4.size)])
            if len(length) < LENGTH_4.size:
                return b""
            record_bytes = LENGTH_4.unpack(length)[0]
            if record_bytes > self._config.frame_bytes_max:
                return b""
            return self._commit_log.read_many([(physical_offset, record_bytes)])
        except StoreCorrupt:
            return b""

    # Cursor ---------------------------------------------------------------------------------

    def _number_of(self, place: _Place) -> int:
        """The entry a cursor names; 0 when the index has been built anew since."""
        for file in self._files:
            if file.name_ms == place.name_ms and 0 < place.number <= file.entry_count:
                entry = file.entry(place.number)
                if entry.physical_offset == place.physical_offset:
                    return place.number if file.shares_slot(entry, self._hash) else 0
        return 0

    def _encode(self, place: _Place) -> str:
        body = _CURSOR.pack(_CURSOR_VERSION, self._hash, *place)
        return base64.urlsafe_b64encode(body + _CURSOR_CRC.pack(crc32(body))).decode()

    def _decode(self) -> _Place:
        cursor = self._request.cursor
        try:
            content = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            content = b""
        if len(content) != _CURSOR.size + _CURSOR_CRC.size:
            raise CursorInvalid("the cursor was not made by this engine")
        body = content[: _CURSOR.size]
        version, key_hash_, *place = _CURSOR.unpack(body)
        if version != _CURSOR_VERSION or content[_CURSOR.size :] != _CURSOR_CRC.pack(crc32(body)):
            raise CursorInvalid("the cursor was not made by this engine")
        if key_hash_ != self._hash:
            raise CursorInvalid("the cursor was made for another topic or key")
        return _Place(*place)
