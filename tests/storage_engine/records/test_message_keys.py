"""Which keys a message has: the same while it is put and when it is read from the log later."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import msgspec
import pytest

from storage_engine.index.index_file import ENTRY_BYTES
from storage_engine.records.message_keys import keys_of
from storage_engine.records.record import StoreMessage, encode_record
from storage_engine.records.record_parts import parts_of, store_timestamp_of
from tests.storage_engine.doubles import OpenStore, message
from tests.storage_engine.index.keyed import index_files, keyed

ID = "0" * 34
CRC = b"__CRC32#\x010000000000\x02"
LISTS: dict[bytes, list[bytes]] = {
    b"UNIQ_KEY\x01%b\x02" % ID.encode(): [ID.encode()],
    b"UNIQ_KEY\x01short\x02": [b"short"],
    b"TAGS\x01t\x02UNIQ_KEY\x01%b\x02" % ID.encode(): [ID.encode()],
    b"KEYS\x01a  b \x02UNIQ_KEY\x01%b\x02" % ID.encode(): [ID.encode(), b"a", b"b"],
    b"KEYS\x01\x02UNIQ_KEY\x01%b\x02" % ID.encode(): [ID.encode()],
    b"MYKEYS\x01a\x02UNIQ_KEY\x01%b\x02" % ID.encode(): [ID.encode()],
    b"KEYS\x01a\x02KEYS\x01b\x02UNIQ_KEY\x01%b\x02" % ID.encode(): [ID.encode(), b"b"],
    b"UNIQ_KEY\x01%b\x02KEYS\x01a\x02" % ID.encode(): [ID.encode(), b"a"],
    b"MY_UNIQ_KEY\x01%b\x02" % ID.encode(): [],
    b"KEYS\x01a b\x02": [b"a", b"b"],
    b"": [],
}


@pytest.mark.parametrize("properties", LISTS)
def test_keys_are_those_of_the_property_list(properties: bytes) -> None:
    buffer = b"before\x02" + properties + CRC

    assert keys_of(buffer, 7, len(buffer)) == LISTS[properties]


@pytest.mark.parametrize("properties", LISTS)
async def test_collected_keys_are_those_read_from_the_log(
    tmp_path: Path, properties: bytes
) -> None:
    """One store collects them while it puts, another indexes the log it finds."""
    async with OpenStore(tmp_path) as store:
        store.topic()
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        put = _with_properties(message(b"x"), properties)
        store.store.put(put, lambda *_: answered.set_result(None))
        await answered  # visible from then on
        await store.store.checkpoint()
        store.store.tick()
        found = [path.read_bytes() for path in _files(tmp_path)]
        assert sum(map(_entry_count, found)) == len(LISTS[properties])
    for path in _files(tmp_path):
        path.unlink()

    async with OpenStore(tmp_path):
        assert [path.read_bytes() for path in _files(tmp_path)] == found


@pytest.mark.parametrize("born", [("10.0.0.1", 5), ("2001:db8::1", 5)])
@pytest.mark.parametrize("topic", ["t", "t" * 200])
def test_parts_of_a_record_are_found_in_every_layout(born: tuple[str, int], topic: str) -> None:
    plain = keyed("id", ["k"], topic=topic)
    record = encode_record(msgspec.structs.replace(plain, born_host=born))

    buffer = bytearray(b"..." + record)
    struct.pack_into(">q", buffer, 3 + 56 + (12 if ":" in born[0] else 0), 1_700_000_000_123)
    struct.pack_into(">q", buffer, 3 + 20, 41)

    view = memoryview(buffer)
    parts = parts_of(view, 3)

    assert parts.topic == topic.encode()
    assert keys_of(parts.tail, parts.properties_at, len(parts.tail)) == [b"id", b"k"]
    assert (parts.record_bytes, parts.queue_id, parts.queue_offset) == (len(record), 0, 41)
    assert parts.store_timestamp_ms == store_timestamp_of(view, 3) == 1_700_000_000_123


def _with_properties(plain: StoreMessage, properties: bytes) -> bytes:
    """The record of a message with another property list."""
    record = encode_record(plain)
    old_bytes = len(b"UNIQ_KEY\x01" + ID.encode() + b"\x02" + CRC)
    head = record[: -old_bytes - 2]
    new = properties + CRC
    size = len(head) + 2 + len(new)
    return size.to_bytes(4) + head[4:] + len(new).to_bytes(2) + new


def _files(store_dir: Path) -> list[Path]:
    return index_files(store_dir) if (store_dir / "index").is_dir() else []


def _entry_count(content: bytes) -> int:
    entries = content[60:]
    rows = [entries[at : at + ENTRY_BYTES] for at in range(0, len(entries), ENTRY_BYTES)]
    return sum(row.strip(b"\0") != b"" for row in rows)
