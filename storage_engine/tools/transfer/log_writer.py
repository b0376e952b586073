"""Writes the segments of a new log that no process has open, front to back.

    record with holes, queue offset, store time ──▶ [LogWriter] ── fallocate, write ──▶ commitlog/*

The records and the BLANK at the end of a segment are those of ``record.py``. Nothing is durable
before ``finish``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from isal.isal_zlib import crc32

from storage_engine.disk.layout import segment_name
from storage_engine.errors import DiskFull, RecordRefused
from storage_engine.records.record import (
    BLANK,
    CRC_DIGITS,
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_HEAD,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    MAGIC_BLANK,
    OFFSETS,
    STORE_TIMESTAMP_AT,
    STORED_BY,
    SYSFLAG_AT,
    SYSFLAG_BORN_HOST_V6,
    crc_digits,
)

_QUEUE_OFFSET_AT: Final = 20
_DIGITS_FROM: Final = CRC_PROPERTY_BYTES - len(CRC_PROPERTY_HEAD)
_BUFFER_BYTES: Final = 4 << 20


class LogWriter:
    """See the module's docstring. ``end_offset``: physical, of what was appended."""

    def __init__(
        self, directory: Path, *, segment_bytes: int, start_offset: int, store_host: bytes
    ) -> None:
        assert start_offset % segment_bytes == 0
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._store_host = store_host
        self.end_offset = start_offset
        self._room = 0  # in the open segment
        self._descriptor = -1
        self._buffer = bytearray()

    def append(
        self, record: bytes, *, queue_offset: int, stored_ms: int, is_covered: bool = True
    ) -> int:
        """Append a record; its physical offset. ``is_covered``: it ends with a CRC property.

        Raises:
            RecordRefused: no segment is long enough for it.
            DiskFull: there is no room for another segment.
        """
        if len(record) + BLANK.size > self._segment_bytes:
            raise RecordRefused(
                f"a record of {len(record)} bytes does not fit into a segment of "
                f"{self._segment_bytes} bytes"
            )
        if self._room < len(record) + BLANK.size:
            self._roll()
        place = self.end_offset
        whole = bytearray(record)
        OFFSETS.pack_into(whole, _QUEUE_OFFSET_AT, queue_offset, place)
        sysflag = int.from_bytes(whole[SYSFLAG_AT : SYSFLAG_AT + 4])
        stamp_at = STORE_TIMESTAMP_AT
        stamp_at += HOST_V6_BYTES - HOST_V4_BYTES if sysflag & SYSFLAG_BORN_HOST_V6 else 0
        STORED_BY.pack_into(whole, stamp_at, stored_ms, self._store_host)
        if is_covered:
            crc = crc32(memoryview(whole)[:-CRC_PROPERTY_BYTES]) & CRC_MASK
            whole[-_DIGITS_FROM : CRC_DIGITS - _DIGITS_FROM] = crc_digits(crc)
        self._write(whole)
        return place

    def finish(self) -> None:
        """Make all of it durable. Raises ``OSError``."""
        if self._descriptor >= 0:
            self._close()

    def abandon(self) -> None:
        """Let go of the open segment, whatever is in it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, content: bytes | bytearray) -> None:
        self._buffer += content
        self.end_offset += len(content)
        self._room -= len(content)
        if len(self._buffer) >= _BUFFER_BYTES:
            self._flush()

    def _roll(self) -> None:
        if self._descriptor >= 0:
            blank_bytes = self._room
            self._write(BLANK.pack(blank_bytes, MAGIC_BLANK))
            self.end_offset += self._room
            self._close()
        path = self._directory / segment_name(self.end_offset)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(self._descriptor, 0, self._segment_bytes)
        except OSError as exc:
            raise DiskFull(
                f"no room for {path.name} of {self._segment_bytes} bytes: {exc.strerror}"
            ) from exc
        self._room = self._segment_bytes

    def _flush(self) -> None:
        view = memoryview(self._buffer)
        while view:
            view = view[os.write(self._descriptor, view) :]
        view.release()
        self._buffer = bytearray()

    def _close(self) -> None:
        self._flush()
        os.fsync(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1


assert _DIGITS_FROM == CRC_DIGITS + 1
