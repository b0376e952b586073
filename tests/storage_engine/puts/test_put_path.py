"""One frame of many records or many frames of one: the same bytes in every file of the store.

Records that are like the one before them take a short way through ``PutPath``; frames of one record
never do, and neither does recovery.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_engine.errors import RecordRefused
from storage_engine.records.record import CRC_PROPERTY_BYTES, StoreMessage, encode_record
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from tests.sizes import sized
from tests.storage_engine.doubles import ManualClock, OpenStore, fingerprint, message

LONG_TOPIC = "t" * 200  # its records are V2
ID = "01" * 17
# What looks like the end of one property and the start of another, where an id stands.
CRAFTED_IDS = [b"\x02TAGS\x01c\x02".ljust(34, b"."), b"\x02KEYS\x01k\x02".ljust(34, b".")]

PLAIN = message(b"a")
DESTINATION = {"REAL_TOPIC": "u", "REAL_QID": "1"}
FIELDS: dict[str, list[object]] = {
    "topic": ["t", "u", LONG_TOPIC, SCHEDULE_TOPIC, SCHEDULE_TOPIC, "none"],
    "queue_id": [1, 9, -1],
    "body": [b"", b"b" * 100, b"c" * 3_000],
    "message_id": ["02" * 17, "short"],
    "born_host": [("2001:db8::1", 5)],
    "tag": ["a", "b"],
    "keys": [["k"], ["k", "l"]],
    "properties": [
        {"p": "1"},
        {"TIMER_DELIVER_MS": "1700000009000"},
        {"TIMER_DELIVER_MS": "1700000009000", **DESTINATION},
        {"TIMER_DELIVER_MS": "0" * 13, "TIMER_DELAY_MS": "5000", **DESTINATION},
        {**DESTINATION, "DELAY": "99", "TIMER_DELIVER_MS": "0" * 13},
        {"TIMER_DELIVER_MS": "0" * 13, **DESTINATION},
    ],
}
# Each is of a byte that the engine checks or does not mind, never of a length: the last one, in the
# digits, in the name of the CRC property, before it, in the id, in its name, in MAGICCODE, SYSFLAG.
FLIPS = [-1, -15, -20, -21, -25, -56, -60, 7, 39]
# Most records of a frame are alike: each differs from the first in little.
field_changes = [(name, value) for name, values in FIELDS.items() for value in values]
changes = st.sampled_from(
    [
        ("same", None),
        *field_changes,
        *[("id", value) for value in CRAFTED_IDS],
        *[("flip", value) for value in FLIPS],
    ]
)


def record_of(like: StoreMessage, change: tuple[str, Any]) -> bytes:  # Any: of that field
    name, value = change
    changed = msgspec.structs.replace(like, **{name: value}) if name in FIELDS else like
    record = bytearray(encode_record(changed))
    if name == "id":
        record = record.replace(ID.encode(), value)
    elif name == "flip":
        record[value] ^= 0x0C if value == 7 else 0x01  # V1 and V2 differ in those bits
    return bytes(record)


@pytest.mark.sized
@settings(max_examples=sized(25, torture=1000), deadline=None)
@given(
    base=st.lists(st.sampled_from(field_changes), max_size=1),
    following=st.lists(changes, min_size=1, max_size=8),
)
def test_one_frame_or_many_the_files_are_the_same(
    base: list[tuple[str, Any]],  # Any: of each field
    following: list[tuple[str, Any]],
) -> None:
    like = msgspec.structs.replace(PLAIN, **dict(base))
    every = [record_of(like, change) for change in [("same", None), *following]]
    base_dir = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        together, codes = asyncio.run(_put(base_dir / "a", [b"".join(every)]))
        apart, codes_apart = asyncio.run(_put(base_dir / "b", every))
        assert codes == codes_apart
        assert together == apart
        for derived in ("consumequeue", "index"):
            shutil.rmtree(base_dir / "a" / derived, ignore_errors=True)
        again, _ = asyncio.run(_put(base_dir / "a", []))
        assert again == together
    finally:
        shutil.rmtree(base_dir)


async def test_more_properties_than_the_format_holds_are_refused(tmp_path: Path) -> None:
    record = encode_record(PLAIN)
    old_bytes = len(b"UNIQ_KEY\x01" + ID.encode() + b"\x02") + CRC_PROPERTY_BYTES
    properties = b"p\x01" + b"x" * 40_000 + b"\x02" + record[-old_bytes:]
    body = record[4 : -old_bytes - 2] + len(properties).to_bytes(2) + properties
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        answered: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        store.store.put(
            (len(body) + 4).to_bytes(4) + body, lambda put, *_: answered.set_result(put.offsets)
        )
        assert await answered == [-RecordRefused.code, 0]


async def _put(store_dir: Path, payloads: list[bytes]) -> tuple[dict[str, bytes], list[int]]:
    """The files that records and queues are in, and the code of each refused record."""
    codes: list[int] = []
    limits = {"segment_bytes": 1 << 20, "consume_queue_units": 64, "index_entries": 256}
    async with OpenStore(store_dir, clock=ManualClock(), limits=limits) as store:
        for topic in ("t", "u", LONG_TOPIC, SCHEDULE_TOPIC):
            store.topic(topic, queues=2)
        for payload in payloads:
            answered: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
            store.store.put(payload, lambda put, *_, to=answered: to.set_result(put.offsets))
            offsets = await answered
            codes += [min(offset, 0) for offset in offsets[::2]]
    directories = ("commitlog", "consumequeue", "index")
    files = {
        f"{name}/{path}": content
        for name in directories
        for path, content in fingerprint(store_dir / name).items()
    }
    return files, codes
