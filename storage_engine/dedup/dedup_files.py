"""Request keys on disk, so that a start need not read the log over the whole window.

    checkpoint ── keys of durable records ──▶ dedup/00000001, 00000002, … ──▶ start

A file is a sequence of entries and only grows; a checkpoint counts the records below it as done, so
what they say is written and synced before. Records above the checkpoint are read from the log by
recovery. Only keys whose record the disk has are written: a power cut may take the others, and
their places are then used again. A write that failed is repeated in another file. Files go when
all in them is older than the window.

    offset  width  field
         0      4  entry_bytes  of all that follows the next field
         4      4  crc          CRC-32 of the rest
         8     16  key hash
        24      n  place        as ``dedup_index.pack`` has it

An entry that is cut short, or none, or fails its CRC ends its file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from isal.isal_zlib import crc32

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.dedup.dedup_index import PLACE_BYTES, DedupIndex, Stored, pack, unpack
from storage_engine.disk.files import Files
from storage_engine.disk.layout import DEDUP_DIR
from storage_engine.records.dedup_mark import KEY_HASH_BYTES

log = logging.getLogger(__name__)

_HEAD = struct.Struct(">II")
_FILE_BYTES_MAX: Final = 16 * 1024 * 1024
_NAME_DIGITS: Final = 8
_ENTRY_BYTES_MIN: Final = KEY_HASH_BYTES + PLACE_BYTES
_Entry = tuple[bytes, Stored]


class DedupFiles:
    """See the module's docstring. The loop thread uses it; what ``writer`` gives runs on another
    one, once at a time.
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
