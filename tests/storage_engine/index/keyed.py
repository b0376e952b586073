"""Messages with keys, and ways to look them up and to look at index files with ``struct`` alone."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from storage_engine.records.record import Record, StoreMessage
from storage_engine.records.record_run import decode_records
from storage_engine.wire.reads import LookUpHead, LookUpRequest
from tests.storage_engine.doubles import OpenStore, message

SLOTS = 5
ENTRIES = 8  # of one file; number 0 is never used, so seven fit
FILE_BYTES = 40 + SLOTS * 4 + ENTRIES * 20
PAGES_MAX = 10_000


def keyed(
    message_id: str, keys: Sequence[str] = (), *, topic: str = "t", body: bytes = b"x"
) -> StoreMessage:
    plain = message(body, topic=topic)
    return msgspec.structs.replace(plain, message_id=message_id, keys=list(keys))


def look_up(
    store: OpenStore, key: str, *, topic: str = "t", messages_max: int = 100, **more: object
) -> tuple[LookUpHead, list[Record]]:
    """One page."""
    values: dict[str, object] = {
        "topic": topic,
        "key": key,
        "messages_max": messages_max,
        "bytes_max": 1 << 20,
        **more,
    }
    head, content = store.store.queries.look_up(msgspec.convert(values, LookUpRequest))
    return head, decode_records(content)


def pages(
    store: OpenStore,
    key: str,
    cursor: str = "",
    *,
    topic: str = "t",
    messages_max: int = 100,
    **more: object,
) -> list[Record]:
    """All pages, one after another, from a cursor on."""
    found: list[Record] = []
    for _ in range(PAGES_MAX):
        head, records = look_up(
            store, key, topic=topic, messages_max=messages_max, cursor=cursor, **more
        )
        found += records
        cursor = head.cursor
        if not cursor:
            assert head.is_complete
            return found
    raise AssertionError(f"{PAGES_MAX} pages and no end")


def java_hash(text: str) -> int:
    """The table of ``String.hashCode`` once more, as its definition says: s[0]*31^(n-1) + …"""
    units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
    total: int = sum(unit * 31 ** (len(units) - 1 - index) for index, unit in enumerate(units))
    return (total + 2**31) % 2**32 - 2**31


def index_hash(topic: str, key: str) -> int:
    value = java_hash(f"{topic}#{key}")
    return 0 if value == -(2**31) else abs(value)


class Parsed(NamedTuple):
    """An index file by hand."""

    header: tuple[int, ...]
    slots: tuple[int, ...]
    entries: list[tuple[int, int, int, int]]


def parse(path: Path) -> Parsed:
    content = path.read_bytes()
    assert len(content) == FILE_BYTES
    entries_at = 40 + SLOTS * 4
    return Parsed(
        struct.unpack(">qqqqii", content[:40]),
        struct.unpack(f">{SLOTS}i", content[40:entries_at]),
        [struct.unpack(">iqii", content[at : at + 20]) for at in range(entries_at, FILE_BYTES, 20)],
    )


def index_files(store_dir: Path) -> list[Path]:
    return sorted((store_dir / "index").iterdir())
