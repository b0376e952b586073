"""The checkpoint's bytes, and which ones are believed."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from storage_engine.disk.files import Files
from storage_engine.log.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

MARK = Checkpoint(
    flushed_offset=0x1234,
    dispatched_offset=0x1200,
    unit_count=7,
    indexed_offset=0x1100,
    index_entry_count=5,
    store_timestamp_ms=0x99,
)
USED_BYTES = 76


def test_golden_bytes_of_a_checkpoint(tmp_path: Path) -> None:
    write_checkpoint(Files(), tmp_path / "checkpoint", MARK)
    body = struct.pack(">6qI", 0x99, 0x99, 0, 0x1234, 0x1200, 7, 3)
    head = body + struct.pack(">I", zlib.crc32(body)) + struct.pack(">2q", 0x1100, 5)
    expected = head + struct.pack(">I", zlib.crc32(head)) + bytes(4_096 - USED_BYTES)
    assert (tmp_path / "checkpoint").read_bytes() == expected
    assert read_checkpoint(tmp_path / "checkpoint") == MARK


def test_a_checkpoint_of_version_1_has_no_index(tmp_path: Path) -> None:
    body = struct.pack(">6qI", 0x99, 0x99, 0, 0x1234, 0x1200, 7, 1)
    content = body + struct.pack(">I", zlib.crc32(body)) + bytes(4_096 - 56)
    (tmp_path / "checkpoint").write_bytes(content)

    read = read_checkpoint(tmp_path / "checkpoint")

    assert read == Checkpoint(
        flushed_offset=0x1234, dispatched_offset=0x1200, unit_count=7, store_timestamp_ms=0x99
    )


def test_no_flipped_bit_of_a_checkpoint_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    write_checkpoint(Files(), path, MARK)
    content = path.read_bytes()
    for bit in range(USED_BYTES * 8):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(damaged))
        assert read_checkpoint(path) is None


def test_a_missing_or_short_checkpoint_is_none(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    assert read_checkpoint(path) is None
    write_checkpoint(Files(), path, MARK)
    content = path.read_bytes()
    for length in range(USED_BYTES):
        path.write_bytes(content[:length])
        assert read_checkpoint(path) is None
