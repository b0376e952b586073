"""Everything the engine remembers of request keys: in memory, in files, in records of the log.

    once_puts ── stored ──▶ [Dedup] ──▶ index, files
    recovery ── record ───▶ [Dedup]

The truth is the record itself: its mark is written with the message, in the same bytes under the
same CRC, so whatever becomes of the message becomes of its key. Loop thread only.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import struct
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.disk.files import Files
from storage_engine.disk.layout import DEDUP_DIR
from storage_engine.errors import StoreBusy
from storage_engine.records.dedup_mark import (
    FINGERPRINT_BYTES,
    KEY_HASH_BYTES,
    dedup_mark_of,
    key_hash_of,
)
from storage_engine.records.message_keys import keys_of
from storage_engine.records.record_parts import RecordParts
from storage_engine.records.schedule_topic import REAL_QUEUE_ID, REAL_TOPIC, SCHEDULE_TOPIC_BYTES
from storage_engine.records.settles import SETTLES_HEAD

log = logging.getLogger(__name__)

_REAL_TOPIC_HEAD = f"{REAL_TOPIC}\x01".encode()
_REAL_QUEUE_HEAD = f"{REAL_QUEUE_ID}\x01".encode()
_SLICES: Final = 8
_NAMESPACE_SHARE: Final = 4  # no namespace has more than one part in so many
_PLACE = struct.Struct(f">{FINGERPRINT_BYTES}sqi?qq8s")
NAMESPACE_HASH_BYTES: Final = 8
PLACE_BYTES: Final = _PLACE.size  # less the id of the message, which follows
_HEAD = struct.Struct(">II")
_FILE_BYTES_MAX: Final = 16 * 1024 * 1024
_NAME_DIGITS: Final = 8
_ENTRY_BYTES_MIN: Final = KEY_HASH_BYTES + PLACE_BYTES


class DedupFiles:
    """Request keys on disk, so that a start need not read the log over the whole window.

        checkpoint ── keys of durable records ──▶ dedup/00000001, 00000002, … ──▶ start

    A file is a sequence of entries and only grows; a checkpoint counts the records below it as
    done, so what they say is written and synced before. Records above the checkpoint are read
    from the log by recovery. Only keys whose record the disk has are written: a power cut may
    take the others, and their places are then used again. A write that failed is repeated in
    another file. Files go when all in them is older than the window.

    offset  width  field
         0      4  entry_bytes  of all that follows the next field
         4      4  crc          CRC-32 of the rest
         8     16  key hash
        24      n  place        as ``pack`` has it

    An entry that is cut short, or none, or fails its CRC ends its file.

    The loop thread uses it; what ``writer`` gives runs on another one, once at a time.
    """

    def __init__(self, config: StoreConfig, files: Files, clock: Clock, index: DedupIndex) -> None:
        self._window_ms = config.dedup_window_ms
        self._dir = config.store_path / DEDUP_DIR
        self._files = files
        self._clock = clock
        self._index = index
        self._pending: list[_Entry] = []  # not written yet
        self._written = True  # what the last ``writer`` took
        self._taken: list[_Entry] = []
        self._number = 0
        self._size_bytes = 0  # of the file that is written
        self._newest_ms: dict[Path, int] = {}  # monotonic, of each file

    def load(self) -> None:
        """Put what is on disk into the index, and files of old keys away. Before recovery."""
        if not self._dir.is_dir():
            return
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        for path in sorted(self._dir.iterdir()):
            if not path.name.isdecimal():
                continue
            self._number = max(self._number, int(path.name))
            age_min_ms = self._window_ms
            for key_hash, stored in _entries_of(path.read_bytes()):
                # A clock that was set back makes no key older than it is.
                age_ms = max(0, wall_ms - stored.store_timestamp_ms)
                age_min_ms = min(age_min_ms, age_ms)
                self._index.add(key_hash, stored, age_ms)
            self._newest_ms[path] = now_ms - age_min_ms

    def add(self, key_hash: bytes, stored: Stored) -> None:
        """Write it with the next checkpoint for which it is durable."""
        self._pending.append((key_hash, stored))

    def writer(self, flushed_offset: int) -> Callable[[], None]:
        """What writes the keys of records below ``flushed_offset``, durable on return."""
        if not self._written:
            self._pending = self._taken + self._pending
            self._number += 1  # what the failed write left may end that file
            self._size_bytes = 0
        taken = [entry for entry in self._pending if entry[1].physical_offset < flushed_offset]
        if len(taken) == len(self._pending):
            self._pending = []
        else:
            held = [entry for entry in self._pending if entry[1].physical_offset >= flushed_offset]
            self._pending = held
        self._taken, self._written = taken, not taken
        old = self._pop_expired()
        if not (taken or old):
            return _nothing
        content = b"".join([_encoded(key_hash, stored) for key_hash, stored in taken])
        if taken and (not self._size_bytes or self._size_bytes + len(content) > _FILE_BYTES_MAX):
            self._number += 1
            self._size_bytes = 0
        path = self._dir / f"{self._number:0{_NAME_DIGITS}d}"
        if taken:
            self._newest_ms[path] = self._clock.monotonic_ms()
            self._size_bytes += len(content)
        return lambda: self._write(path, content, old)

    def _pop_expired(self) -> list[Path]:
        """Files in which all is older than the window; they are known no more."""
        limit_ms = self._clock.monotonic_ms() - self._window_ms
        old = [path for path, newest_ms in self._newest_ms.items() if newest_ms < limit_ms]
        for path in old:
            del self._newest_ms[path]
            if int(path.name) == self._number:
                self._size_bytes = 0  # another file comes next
        return old

    def _write(self, path: Path, content: bytes, old: list[Path]) -> None:
        if content:
            is_new = not path.exists()
            if is_new:
                self._files.make_dirs(self._dir)
            descriptor = self._files.open_append(path)
            try:
                self._files.append(descriptor, path, content)
                self._files.sync_file(descriptor, path)
            finally:
                os.close(descriptor)
            if is_new:
                self._files.sync_dir(self._dir)
                self._files.sync_dir(self._dir.parent)
            self._written = True
        for gone in old:
            with contextlib.suppress(OSError):  # it is tried again by the next start
                self._files.unlink(gone)


def _encoded(key_hash: bytes, stored: Stored) -> bytes:
    content = key_hash + pack(stored)
    return _HEAD.pack(len(content), crc32(content)) + content


def _entries_of(content: bytes) -> Iterator[_Entry]:
    at = 0
    while at + _HEAD.size <= len(content):
        entry_bytes, crc = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        entry = content[at : at + entry_bytes]
        at += entry_bytes
        # A power cut may leave zeros, which are an empty entry with the right CRC.
        if not _ENTRY_BYTES_MIN <= entry_bytes == len(entry) or crc32(entry) != crc:
            log.warning(
                "A file of request keys ends in a damaged entry; ignored the rest of it",
                extra={"action": "request_keys_truncated", "offset": at},
            )
            return
        yield entry[:KEY_HASH_BYTES], unpack(entry[KEY_HASH_BYTES:])


def _nothing() -> None:
    """There is nothing to write."""


class Stored(NamedTuple):
    """The message that a request has stored. ``queue_id`` is what its sender was told;
    ``queue_offset`` is in the schedule when it ``is_waiting``.
    """

    fingerprint: bytes
    physical_offset: int
    queue_id: int
    is_waiting: bool
    queue_offset: int
    store_timestamp_ms: int
    namespace_hash: bytes
    message_id: bytes


_Entry = tuple[bytes, Stored]


class _Slice:
    __slots__ = ("counts", "end_ms", "entries")

    def __init__(self, end_ms: int) -> None:
        self.end_ms = end_ms
        self.entries: dict[bytes, bytes] = {}
        self.counts: Counter[bytes] = Counter()  # by namespace


class DedupIndex:
    """Which requests have already stored their message, and where; within the configured window.

        once_puts ── add, find ──▶ [DedupIndex] ◀── recovery, dedup_files

    Entries lie in slices of an eighth of the window; a slice is dropped whole, so that
    forgetting costs nothing. They are packed: some 250 bytes each. Nothing is forgotten before
    its time: when there is no room, new requests with a key are refused. Times are of the
    monotonic clock.
    """

    def __init__(self, config: StoreConfig, clock: Clock) -> None:
        self._window_ms = config.dedup_window_ms
        self._slice_ms = max(1, config.dedup_window_ms // _SLICES)
        self._count_max = config.dedup_count_max
        self._clock = clock
        self._slices: deque[_Slice] = deque()  # the oldest first

    def __len__(self) -> int:
        return sum(len(part.entries) for part in self._slices)

    def find(self, key_hash: bytes, window_ms: int = 0) -> Stored | None:
        """What was stored under the key within the window, or a little before. ``window_ms``: a
        shorter one.
        """
        self._drop_old()
        old_ms = self._clock.monotonic_ms() - window_ms
        for part in reversed(self._slices):
            if window_ms and part.end_ms <= old_ms:
                continue
            packed = part.entries.get(key_hash)
            if packed is not None:
                return unpack(packed)
        return None

    def require_room(self, namespace_hash: bytes, count: int) -> None:
        """Raises ``StoreBusy`` when so many keys of the namespace cannot be remembered."""
        self._drop_old()
        total = len(self) + count
        own = count + sum(part.counts[namespace_hash] for part in self._slices)
        if total > self._count_max or own > max(1, self._count_max // _NAMESPACE_SHARE):
            raise StoreBusy(
                f"{len(self)} request keys are remembered for {self._window_ms} ms "
                f"each; the limit is {self._count_max}, of which one namespace may "
                "use a quarter; try again later"
            )

    def add(self, key_hash: bytes, stored: Stored, age_ms: int = 0) -> bool:
        """Remember a message that was stored so long ago; False when that is too long, or it is
        known already. It takes the place of an older one with this key, which cannot be read any
        more: else it would not have been stored.
        """
        known = self.find(key_hash)
        if age_ms >= self._window_ms or (
            known is not None and known.physical_offset >= stored.physical_offset
        ):
            return False
        if known is not None:
            self._forget(key_hash, known.namespace_hash)
        part = self._slice_of(self._clock.monotonic_ms() - age_ms)
        part.entries[key_hash] = pack(stored)
        part.counts[stored.namespace_hash] += 1
        return True

    def _forget(self, key_hash: bytes, namespace_hash: bytes) -> None:
        for part in self._slices:
            if part.entries.pop(key_hash, None) is not None:
                part.counts[namespace_hash] -= 1

    def _slice_of(self, at_ms: int) -> _Slice:
        """The slice for what was stored at ``at_ms``: one that ends later."""
        for part in self._slices:
            if at_ms < part.end_ms:
                return part
        part = _Slice(at_ms + self._slice_ms)
        self._slices.append(part)
        return part

    def _drop_old(self) -> None:
        now_ms = self._clock.monotonic_ms()
        while self._slices and self._slices[0].end_ms + self._window_ms <= now_ms:
            self._slices.popleft()


def pack(stored: Stored) -> bytes:
    return _PLACE.pack(*stored[:-1]) + stored.message_id


def unpack(packed: bytes) -> Stored:
    return Stored._make((*_PLACE.unpack_from(packed), packed[_PLACE.size :]))


assert KEY_HASH_BYTES == FINGERPRINT_BYTES


class Dedup:
    """See the module's docstring."""

    def __init__(self, config: StoreConfig, files: Files, clock: Clock) -> None:
        self.index = DedupIndex(config, clock)
        self._files = DedupFiles(config, files, clock, self.index)
        self._clock = clock
        self.load = self._files.load

    def remember(self, key_hash: bytes, stored: Stored) -> None:
        """A request has stored its message just now."""
        if self.index.add(key_hash, stored):
            self._files.add(key_hash, stored)

    def found(self, physical_offset: int, parts: RecordParts) -> None:
        """Recovery has found a record with a mark. One that was moved is not what was sent."""
        if SETTLES_HEAD in parts.tail:
            return
        properties = parts.tail[parts.properties_at :]
        mark = dedup_mark_of(properties)
        if mark is None:
            return
        topic, queue_id = real_place(parts.topic, parts.queue_id, properties)
        stored = Stored(
            mark.fingerprint,
            physical_offset,
            queue_id,
            parts.topic == SCHEDULE_TOPIC_BYTES,
            parts.queue_offset,
            parts.store_timestamp_ms,
            namespace_hash_of(topic),
            next(iter(keys_of(properties, 0, len(properties))), b""),
        )
        age_ms = max(0, self._clock.now_ms() - parts.store_timestamp_ms)
        key_hash = key_hash_of(topic, mark.key)
        if self.index.add(key_hash, stored, age_ms):
            self._files.add(key_hash, stored)

    def writer(self, flushed_offset: int) -> Callable[[], None]:
        """See ``DedupFiles.writer``."""
        return self._files.writer(flushed_offset)


def real_place(topic: bytes, queue_id: int, properties: bytes) -> tuple[bytes, int]:
    """Where the sender sent a message, also one that waits in the schedule."""
    if topic != SCHEDULE_TOPIC_BYTES:
        return topic, queue_id
    real_queue = _value(properties, _REAL_QUEUE_HEAD)
    return _value(properties, _REAL_TOPIC_HEAD), int(real_queue) if real_queue.isdigit() else 0


def namespace_hash_of(topic: bytes) -> bytes:
    namespace = topic.partition(b"%")[0]
    return hashlib.blake2b(namespace, digest_size=NAMESPACE_HASH_BYTES).digest()


def _value(properties: bytes, head: bytes) -> bytes:
    at = properties.find(head)
    if at < 0 or (at > 0 and properties[at - 1] != 2):
        return b""
    end = properties.find(b"\x02", at)
    return properties[at + len(head) : end if end >= 0 else None]
