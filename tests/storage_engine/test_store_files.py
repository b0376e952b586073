"""Golden files: the bytes of segments and consume queues that a store of three messages has."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from storage_engine.records.record import encode_record
from storage_engine.records.tag_hash import java_hash
from tests.storage_engine.doubles import SEGMENT_BYTES, OpenStore, message

STORE_HOST = bytes((127, 0, 0, 1)) + (10_911).to_bytes(4)


def stored(record: bytes, queue_offset: int, physical_offset: int, stamp_ms: int) -> bytes:
    """What the engine makes of a producer's record; written from the format's table."""
    whole = bytearray(record)
    whole[20:36] = struct.pack(">qq", queue_offset, physical_offset)
    whole[56:72] = struct.pack(">q", stamp_ms) + STORE_HOST
    crc = zlib.crc32(whole[:-20]) & 0x7FFF_FFFF
    whole[-11:-1] = f"{crc:010d}"[::-1].encode()
    return bytes(whole)


async def test_golden_files_of_a_store_that_rolled(tmp_path: Path) -> None:
    messages = [
        message(b"a" * 1_500, tag="x"),
        message(b"b" * 1_500, queue_id=1),
        message(b"c" * 1_500),
    ]
    records = [encode_record(each) for each in messages]
    store = OpenStore(tmp_path).open()
    store.topic(queues=2)
    stamp = store.clock.now_ms()
    await store.put(*messages[:2])
    store.clock.wall_ms -= 1_000_000  # store times never go back along the log
    await store.put(messages[2])
    await store.close()

    end = len(records[0]) + len(records[1])
    first = (
        stored(records[0], 0, 0, stamp)
        + stored(records[1], 0, len(records[0]), stamp)
        + struct.pack(">II", SEGMENT_BYTES - end, 0xCBD43194)
    )
    segments = {path.name: path.read_bytes() for path in (tmp_path / "commitlog").iterdir()}
    assert segments == {
        f"{0:020d}": first.ljust(SEGMENT_BYTES, b"\0"),
        f"{SEGMENT_BYTES:020d}": stored(records[2], 1, SEGMENT_BYTES, stamp).ljust(
            SEGMENT_BYTES, b"\0"
        ),
    }
    queue = tmp_path / "consumequeue" / "t"
    assert (queue / "0" / f"{0:020d}").read_bytes() == (
        struct.pack(">qiq", 0, len(records[0]), java_hash("x"))
        + struct.pack(">qiq", SEGMENT_BYTES, len(records[2]), 0)
    ).ljust(80, b"\0")
    assert (queue / "1" / f"{0:020d}").read_bytes() == struct.pack(
        ">qiq", len(records[0]), len(records[1]), 0
    ).ljust(80, b"\0")


async def test_a_negative_tag_hash_is_extended_to_eight_bytes(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await store.put(message(b"x", tag="polygenelubricants"))
    unit = (tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}").read_bytes()[:20]
    assert unit[12:] == b"\xff\xff\xff\xff\x80\x00\x00\x00"


async def test_a_whole_batch_goes_to_the_next_segment(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await store.put_bodies(bytes(1_500))
        put = await store.put(message(bytes(900)), message(bytes(900)), message(bytes(900)))
        assert [offset // SEGMENT_BYTES for _, offset in put.offsets] == [1, 1, 1]


async def test_a_record_fits_when_exactly_the_blank_has_room_behind_it(tmp_path: Path) -> None:
    bare = len(encode_record(message(b"")))
    for spare, segments in ((8, 1), (7, 2)):
        directory = tmp_path / str(spare)
        async with OpenStore(directory) as store:
            store.topic()
            await store.put_bodies(bytes(1_000))
            used = store.store.stats(0).append_offset
            await store.put_bodies(bytes(SEGMENT_BYTES - used - bare - spare - 2_000))
            await store.put_bodies(bytes(2_000 - bare))
            assert store.store.stats(0).append_offset % SEGMENT_BYTES == (
                SEGMENT_BYTES - 8 if segments == 1 else 2_000
            )
            await store.put_bodies(b"next")
        async with OpenStore(directory) as store:
            assert store.pull_bodies()[-1] == b"next"


async def test_queue_files_roll_every_four_units_and_are_read_across_files(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        bodies = [b"%d" % i for i in range(11)]
        await store.put_bodies(*bodies)
        names = sorted(path.name for path in (tmp_path / "consumequeue" / "t" / "0").iterdir())
        assert names == [f"{base:020d}" for base in (0, 80, 160)]
        for start in range(12):
            assert store.pull_bodies(queue_offset=start) == bodies[start:]
