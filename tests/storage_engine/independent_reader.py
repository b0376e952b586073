"""Reads a store from its format page alone: shares no line with the engine.

    commitlog/*            ──▶ [read_log]    ──▶ every record, checked, in log order
    consumequeue/<t>/<q>/* ──▶ [read_queues] ──▶ (topic, queue id) → units
    index/*                ──▶ [IndexFile]   ──▶ physical offsets of a key's hash
    config/consumerOffset.json, offsets.journal ──▶ [read_consumer_offsets]

Whatever is not as the page says raises ``NotAsWritten`` with file and place.
"""

from __future__ import annotations

import hashlib
import ipaddress
import itertools
import json
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class NotAsWritten(Exception):
    """The bytes contradict the format page."""


class StoredRecord(NamedTuple):
    """All fields of one record; of the body its length and SHA-256."""

    physical_offset: int
    record_bytes: int
    version: int
    queue_id: int
    flag: int
    queue_offset: int
    sysflag: int
    born_timestamp_ms: int
    born_host: tuple[str, int]
    store_timestamp_ms: int
    store_host: tuple[str, int]
    reconsume_times: int
    prepared_transaction_offset: int
    body_bytes: int
    body_sha256: bytes
    topic: str
    properties: dict[str, str]


class Unit(NamedTuple):
    physical_offset: int
    record_bytes: int
    tag_code: int


class _Cursor:
    """Takes big-endian fields off a record one after the other."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def take(self, width: int) -> bytes:
        taken = self.content[self.at : self.at + width]
        if len(taken) != width:
            raise NotAsWritten(f"a field of {width} bytes runs out of the record")
        self.at += width
        return taken

    def unsigned(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def signed(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big", signed=True)

    def host(self, *, is_v6: bool) -> tuple[str, int]:
        address = self.take(16 if is_v6 else 4)
        return str(ipaddress.ip_address(address)), self.unsigned(4)


def read_log(store: Path) -> Iterator[StoredRecord]:
    """Every record of all segments; each ends in a BLANK, the log in zeros.

    Segments that were made ahead of use hold nothing but zeros.
    """
    segments = sorted((store / "commitlog").iterdir())
    for number, path in enumerate(segments):
        content = path.read_bytes()
        base = int(path.name)
        if number and base != int(segments[number - 1].name) + len(content):
            raise NotAsWritten(f"{path} does not begin where the segment before it ends")
        at = 0
        while True:
            total, magic = struct.unpack_from(">II", content, at)
            if magic == 0xCBD43194:
                if at + total != len(content):
                    raise NotAsWritten(f"BLANK at {base + at} does not reach the segment's end")
                break
            if total == 0 and magic == 0:
                ahead = b"".join(each.read_bytes() for each in segments[number + 1 :])
                if (content[at:] + ahead).strip(b"\0"):
                    raise NotAsWritten(f"zeros at {base + at} are not the end of the log")
                return
            try:
                record = read_record(content[at : at + total])
            except (NotAsWritten, UnicodeDecodeError) as exc:
                raise NotAsWritten(f"record at {base + at}: {exc}") from exc
            if record.physical_offset != base + at:
                raise NotAsWritten(f"record at {base + at} says {record.physical_offset}")
            yield record
            at += total


def read_record(content: bytes) -> StoredRecord:
    """One record, with the CRC of its body and the one of the whole checked."""
    fields = _Cursor(content)
    total, magic = fields.unsigned(4), fields.unsigned(4)
    versions = {0xDAA320A7: 1, 0xDAA320AB: 2}
    if magic not in versions or total != len(content):
        raise NotAsWritten(f"magic {magic:#x}, {total} bytes of {len(content)}")
    body_crc = fields.unsigned(4)
    queue_id, flag = fields.signed(4), fields.signed(4)
    queue_offset, physical_offset = fields.signed(8), fields.signed(8)
    sysflag = fields.signed(4)
    born_timestamp_ms = fields.signed(8)
    born_host = fields.host(is_v6=bool(sysflag & 16))
    store_timestamp_ms = fields.signed(8)
    store_host = fields.host(is_v6=bool(sysflag & 32))
    reconsume_times, prepared = fields.signed(4), fields.signed(8)
    body = fields.take(fields.unsigned(4))
    if zlib.crc32(body) & 0x7FFFFFFF != body_crc:
        raise NotAsWritten("BODYCRC does not fit the body")
    version = versions[magic]
    topic = fields.take(fields.unsigned(version)).decode()
    properties = fields.take(fields.unsigned(2))
    if fields.at != total:
        raise NotAsWritten(f"{total - fields.at} bytes too many")
    pairs = properties.decode().split("\x02")
    if pairs.pop():
        raise NotAsWritten("the properties do not end with their separator")
    names = dict(pair.split("\x01") for pair in pairs)
    if len(names) != len(pairs) or not pairs[-1].startswith("__CRC32#\x01"):
        raise NotAsWritten("a property stands twice, or the CRC is not the last one")
    before_crc = total - len(pairs[-1]) - 1
    crc = zlib.crc32(content[:before_crc]) & 0x7FFFFFFF
    if names.pop("__CRC32#") != str(crc).zfill(10)[::-1]:
        raise NotAsWritten("__CRC32# does not fit the record")
    return StoredRecord(
        physical_offset,
        total,
        version,
        queue_id,
        flag,
        queue_offset,
        sysflag,
        born_timestamp_ms,
        born_host,
        store_timestamp_ms,
        store_host,
        reconsume_times,
        prepared,
        len(body),
        hashlib.sha256(body).digest(),
        topic,
        names,
    )


def read_queues(store: Path) -> dict[tuple[str, int], list[Unit]]:
    """The units of every consume queue, from its first file's first unit to its end."""
    queues: dict[tuple[str, int], list[Unit]] = {}
    for directory in sorted((store / "consumequeue").glob("*/*")):
        files = sorted(directory.iterdir())
        content = b"".join(path.read_bytes() for path in files)
        for before, path in itertools.pairwise(files):
            if int(before.name) + before.stat().st_size != int(path.name):
                raise NotAsWritten(f"{path} does not follow {before}")
        units = [Unit(*fields) for fields in struct.iter_unpack(">qiq", content)]
        while units and units[-1] == (0, 0, 0):
            units.pop()
        queues[directory.parent.name, int(directory.name)] = units
    return queues


def java_hash_code(text: str) -> int:
    """``s[0]*31^(n-1) + ... + s[n-1]`` over UTF-16 units, as a signed 32-bit number."""
    value = 0
    for unit in struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be")):
        value = value * 31 + unit
    value %= 1 << 32
    return value - (1 << 32) if value >= 1 << 31 else value


def rocketmq_json(path: Path) -> Any:  # Any: as JSON has it
    """A file of ``config/``; fastjson writes no quotes around keys that are integers."""
    return json.loads(re.sub(r"([{,]\s*)(\d+)(\s*:)", r'\1"\2"\3', path.read_text()))


def read_consumer_offsets(store: Path) -> dict[tuple[str, str, int], int]:
    """(group, topic, queue id) → next queue offset, from ``consumerOffset.json``.

    A client of a broadcast group stands for itself, as ``group@client``.
    """
    table = rocketmq_json(store / "config" / "consumerOffset.json")["offsetTable"]
    offsets = {}
    for name, by_queue in table.items():
        topic, group = name.split("@", 1)
        for queue_id, offset in by_queue.items():
            offsets[group, topic, int(queue_id)] = offset
    return offsets


def key_hash(topic: str, key: str) -> int:
    """What index files keep of a key: the Java hash without its sign."""
    value = abs(java_hash_code(f"{topic}#{key}"))
    return 0 if value > 0x7FFFFFFF else value  # Math.abs of the least int stays negative


class IndexFile:
    """One hash index: header of 40 bytes, ``slot_count`` slots of 4, entries of 20 from number 1.

    The file does not say how many slots it has.
    """

    def __init__(self, path: Path, slot_count: int) -> None:
        self._content = path.read_bytes()
        self._slot_count = slot_count
        (
            self.first_store_timestamp_ms,
            self.last_store_timestamp_ms,
            self.first_physical_offset,
            self.last_physical_offset,
            self.used_slot_count,
            self.next_entry,
        ) = struct.unpack_from(">qqqqii", self._content)

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """(key hash, physical offset, seconds since the file's first, entry before)."""
        at = 40 + self._slot_count * 4 + number * 20
        hash_, offset, seconds, before = struct.unpack_from(">iqii", self._content, at)
        return hash_, offset, seconds, before

    def find(self, wanted: int) -> list[int]:
        """Physical offsets of records that have a key of this hash, newest first."""
        slot_at = 40 + wanted % self._slot_count * 4
        (number,) = struct.unpack_from(">i", self._content, slot_at)
        found = []
        while 0 < number < self.next_entry:
            hash_, offset, _, before = self.entry(number)
            if hash_ == wanted:
                found.append(offset)
            if before >= number:
                raise NotAsWritten(f"entry {number} points forward, to {before}")
            number = before
        return found
