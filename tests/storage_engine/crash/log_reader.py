"""Reads a store's files by the tables of its format alone, with none of the engine's code.

    commitlog/, consumequeue/ ──▶ [read_log, read_units] ──▶ records and units to compare

What the engine serves and what it rebuilds is judged against this.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Set
from pathlib import Path
from typing import Final, NamedTuple

_HEAD = struct.Struct(">IIIiiqqiq8sq8siqI")
_V1: Final = 0xDAA320A7
_BLANK: Final = 0xCBD43194
_CRC_PROPERTY_BYTES: Final = 20
_DIGITS: Final = 20
_SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
_UNIT = struct.Struct(">qiq")
Unit = tuple[int, int, int]


class LogRecord(NamedTuple):
    """One whole record of the log."""

    topic: str
    queue_id: int
    queue_offset: int
    body: bytes
    unit: Unit


class BadLog(Exception):
    """The log is not whole records, then zeros."""


def read_log(store: Path, damaged: Set[int] = frozenset()) -> list[LogRecord]:
    """Every record, in order. Raises ``BadLog`` when anything else than zeros follows the last.

    Of those that may be ``damaged``, by physical offset, the length at least must be right.
    """
    records: list[LogRecord] = []
    expected = None
    has_ended = False
    for base, content in _run(store / "commitlog"):
        if expected is not None and base != expected:
            raise BadLog(f"segment {base} should be {expected}")
        expected = base + len(content)
        at = 0
        while at < len(content):
            size_bytes, magic = struct.unpack_from(">II", content, at)
            if has_ended or size_bytes == magic == 0:
                if content.count(0, at) != len(content) - at:
                    raise BadLog(f"bytes behind the end of the log, from {base + at} on")
                has_ended = True
                break
            if magic == _BLANK:
                if at + size_bytes != len(content):
                    raise BadLog(f"BLANK of {size_bytes} bytes at {base + at}")
                break
            try:
                records.append(_record(content, at, base))
            except BadLog:
                if base + at not in damaged:
                    raise
            except (ValueError, IndexError, struct.error) as exc:
                raise BadLog(f"no record at {base + at}: {exc}") from exc
            at += size_bytes
            if len(content) - at < 8:
                break
    return records


def _record(content: bytes, at: int, base: int) -> LogRecord:
    fields = _HEAD.unpack_from(content, at)
    size_bytes, magic, body_crc, queue_id = fields[:4]
    queue_offset, physical_offset, body_bytes = fields[5], fields[6], fields[14]
    whole = content[at : at + size_bytes]
    if magic != _V1 or physical_offset != base + at or len(whole) != size_bytes:
        raise BadLog(f"no record at {base + at}")
    digits = whole[-11:-1][::-1]
    if int(digits) != zlib.crc32(whole[:-_CRC_PROPERTY_BYTES]) & 0x7FFF_FFFF:
        raise BadLog(f"the record at {base + at} does not match its CRC")
    body_at = _HEAD.size
    body = whole[body_at : body_at + body_bytes]
    if zlib.crc32(body) & 0x7FFF_FFFF != body_crc:
        raise BadLog(f"the body at {base + at} does not match its CRC")
    topic_at = body_at + body_bytes
    topic = whole[topic_at + 1 : topic_at + 1 + whole[topic_at]].decode()
    properties = whole[topic_at + 3 + whole[topic_at] :]
    values = dict(pair.partition(b"\x01")[::2] for pair in properties.split(b"\x02"))
    tag_hash = _java_hash(values.get(b"TAGS", b"").decode())
    if topic == _SCHEDULE_TOPIC:
        tag_hash = int(values.get(b"TIMER_DELIVER_MS", b"0"))
    unit = (physical_offset, size_bytes, tag_hash)
    return LogRecord(topic, queue_id, queue_offset, body, unit)


def read_units(store: Path, topic: str, queue_id: int, start: int, end: int) -> list[Unit]:
    """Units ``[start, end)`` of one consume queue, as they stand in its files."""
    if start == end:
        return []
    files = _run(store / "consumequeue" / topic / str(queue_id))
    content = b"".join(content for _, content in files)
    first = files[0][0]
    part = content[start * _UNIT.size - first : end * _UNIT.size - first]
    return list(_UNIT.iter_unpack(part))


def _run(directory: Path) -> list[tuple[int, bytes]]:
    """(base offset, content) of the files of a run, in order."""
    found = []
    for name in sorted(os.listdir(directory)) if directory.is_dir() else ():
        if len(name) == _DIGITS and name.isdigit():
            with open(f"{directory}/{name}", "rb", buffering=0) as file:
                found.append((int(name), file.readall()))
    return found


def _java_hash(text: str) -> int:
    """String.hashCode, for tags of one UTF-16 unit a character."""
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) & 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value
