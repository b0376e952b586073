"""Compares the keys of requests in ``dedup/`` with the marks of the records in the log.

    dedup/* ── entries ──▶ [RequestCheck] ◀── LogBatch.marks
                                 └─ what differs ──▶ Report

Files hold the keys of the last minutes in the order of the log, and go as a whole, the oldest
first. So behind the first record that any of them names every mark has its entry, up to where the
engine says that all were written. The start of an engine ends a file at the first entry that is not
whole: a kill may leave such an end, and what stood there is written again elsewhere. It is a
finding only when keys are missing. Only reads.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from storage_engine.disk.layout import DEDUP_DIR
from storage_engine.records.dedup_mark import FINGERPRINT_BYTES, KEY_HASH_BYTES
from storage_engine.tools.verify.log import LogBatch, LogCheck
from storage_engine.tools.verify.report import Kind, Report

_HEAD: Final = struct.Struct(">II")  # bytes of the rest, their CRC-32
_FIXED: Final = struct.Struct(
    f">{KEY_HASH_BYTES}s{FINGERPRINT_BYTES}sq"
)  # and its place in the log


class _Entry(NamedTuple):
    path: str
    at: int
    key_hash: bytes
    fingerprint: bytes


class RequestCheck:
    """See the module's docstring. ``below``: records above it may have no entry yet."""

    def __init__(self, store: Path, report: Report, log: LogCheck, *, below: int) -> None:
        self._report = report
        self._log = log
        self._below = below
        self._entries: dict[int, _Entry] = {}  # by the record's physical offset
        self._cut: list[tuple[str, int]] = []  # where files end that are not whole
        self._missing: list[int] = []
        directory = store / DEDUP_DIR
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            if path.name.isdecimal():
                self._read(path)
        self._first = min(self._entries, default=None)

    def follow(self, batch: LogBatch) -> None:
        """Compare the marks of a batch."""
        if self._first is None:
            return
        for mark in batch.marks:
            entry = self._entries.pop(mark.physical_offset, None)
            if entry is None:
                if self._first < mark.physical_offset < self._below:
                    self._missing.append(mark.physical_offset)
            elif (entry.key_hash, entry.fingerprint) != (mark.key_hash, mark.fingerprint):
                what = f"is not the key of the record at {mark.physical_offset}"
                self._report.add(Kind.REQUEST_KEY_WRONG, entry.path, entry.at, what)

    def finish(self) -> None:
        """Tell what is missing, and which entries lead to no record with a key."""
        for physical_offset, entry in self._entries.items():
            if self._log.start_offset <= physical_offset < self._log.end_offset:
                what = f"there is no record with a key at {physical_offset}"
                self._report.add(Kind.REQUEST_KEY_WRONG, entry.path, entry.at, what)
        if not self._missing:
            return
        what = (
            f"{len(self._missing)} keys of records from {self._missing[0]} to "
            f"{self._missing[-1]} are missing from the files"
        )
        if not self._cut:
            self._report.add(Kind.REQUEST_KEY_MISSING, DEDUP_DIR, None, what)
        for path, at in self._cut:
            self._report.add(Kind.REQUEST_KEY_MISSING, path, at, what)

    def _read(self, path: Path) -> None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return  # its keys are old now: the engine beside us has deleted it
        name = f"{DEDUP_DIR}/{path.name}"
        count = self._report.count("request keys")
        count.file_count += 1
        count.byte_count += len(content)
        at = 0
        while at < len(content):
            start = at + _HEAD.size
            size, crc = _HEAD.unpack_from(content.ljust(start, b"\0"), at)
            entry = content[start : start + size]
            if not _FIXED.size <= size == len(entry) or crc32(entry) != crc:
                self._cut.append((name, at))
                return
            key_hash, fingerprint, physical_offset = _FIXED.unpack_from(entry)
            self._entries[physical_offset] = _Entry(name, at, key_hash, fingerprint)
            count.item_count += 1
            at = start + size
