"""Recovery, verify, dump and the reader judge the same bytes alike, whatever the damage.

store (state) ── damage ──▶ copies ──▶ engine's start, verify, dump, reader: compared
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import struct
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from storage_engine.disk.files import Files
from storage_engine.errors import StoreCorrupt
from storage_engine.reader import find_extent, read_columns
from storage_engine.records.record import encode_record
from storage_engine.records.record_check import fault_at, whole_run
from storage_engine.store import Store
from storage_engine.tools.dump import dump
from storage_engine.tools.verify.report import Severity
from storage_engine.tools.verify.verification import Verification
from tests.sizes import IS_TORTURE, in_torture, sized
from tests.storage_engine.doubles import (
    SEGMENT_BYTES,
    FaultyFiles,
    ManualClock,
    OpenStore,
    copy_store,
    message,
    tiny_config,
)
from tests.storage_engine.recovering import BODIES, log_path, poke
from tests.storage_engine.rocketmq_store import RocketmqStore, rocketmq_record

# Findings of verify that say: the engine refuses to start on this log.
REFUSALS: Final = frozenset(
    {"segment_missing", "segment_truncated", "log_too_short", "log_rejected"}
)
Places = list[tuple[int, int]]  # physical offset and size of each record


class Place(NamedTuple):
    """Where a record is, whole, in a log without damage."""

    physical_offset: int
    record_bytes: int
    body_bytes: int


class Verdict(NamedTuple):
    """What becomes of a log that is not refused.

    ``damaged``: ranges without a whole record; ``cut_at``: what follows is cut off.
    """

    damaged: list[tuple[int, int]]
    cut_at: int | None


def same_boot(store_dir: Path) -> FaultyFiles:
    files = FaultyFiles()
    files.medium = Files().medium_id(store_dir.parent)
    return files


async def started(store_dir: Path) -> tuple[Verdict, Places, int] | None:
    """What a start makes of it, the records that it serves, and where it began to read; None where
    it refuses.
    """
    before = {int(path.name): path.read_bytes() for path in (store_dir / "commitlog").iterdir()}
    store = Store(tiny_config(store_dir), ManualClock(), same_boot(store_dir))
    try:
        recovered = store.open(asyncio.get_running_loop())
    except StoreCorrupt:
        return None
    damaged = joined([damage[:2] for damage in recovered.damaged], recovered.start_offset)
    served = sorted(
        (place, record_bytes)
        for queue in store.parts.queues
        for place, record_bytes, _ in map(queue.unit, range(queue.min_offset, queue.max_offset))
        if place >= recovered.start_offset
        and record_bytes > 90  # else the unit of a message that nothing knows any more
        and not any(start <= place < end for start, end in damaged)
    )
    assert not store.parts.commit_log.damaged(served)
    await store.close()
    end = recovered.end_offset
    was_used = any(any(content[max(end - base, 0) :]) for base, content in before.items())
    return Verdict(damaged, end if was_used else None), served, recovered.start_offset


def places(store_dir: Path) -> Places:
    """The records in the order of the log, as ``dump`` shows them."""
    found = []
    for path in sorted((store_dir / "commitlog").iterdir()):
        for line in dump(path):
            if match := re.match(r" *(\d+) (\d+) bytes ", line):
                found.append((int(match[1]), int(match[2])))
    return found


def records_of(store_dir: Path) -> list[Place]:
    found = []
    for offset, record_bytes in places(store_dir):
        file, start = log_path(store_dir, offset)
        found.append(
            Place(offset, record_bytes, *struct.unpack_from(">I", file.read_bytes(), start + 84))
        )
    return found


def joined(ranges: list[tuple[int, int]], above: int) -> list[tuple[int, int]]:
    """Those above an offset, with those that follow each other in one."""
    found: list[tuple[int, int]] = []
    for start, end in ranges:
        if found and found[-1][1] == max(start, above):
            found[-1] = (found[-1][0], end)
        elif end > above:
            found.append((max(start, above), end))
    return found


def verified(store_dir: Path, *, above: int) -> tuple[Verdict, set[Severity], set[str]]:
    """What verify says of the log from an offset on, how bad, and why a start would refuse it."""
    verification = Verification(store_dir, index_slots=tiny_config(store_dir).index_slots)
    list(verification.run())
    damaged, cut_at, refusals = [], None, set()
    for found in verification.report.findings:
        offset = found.offset or 0
        if found.kind == "record_damaged":
            damaged.append((offset, offset + int(found.what.split()[0])))
        elif found.kind == "log_tail":
            cut_at = offset
        elif found.kind in REFUSALS and not (found.kind == "log_rejected" and offset < above):
            refusals.add(found.what)
    severities = {found.severity for found in verification.report.findings}
    return Verdict(joined(damaged, above), cut_at), severities, refusals


def read(store_dir: Path) -> Places:
    extent = find_extent(store_dir)
    found = []
    for segment in extent.segments:
        for columns in read_columns(
            segment, extent.start_offset, extent.end_offset,
            checks_crcs=True, damaged=lambda *_: None,
        ):  # fmt: skip
            found += list(
                zip(columns.physical_offset.tolist(), columns.record_bytes.tolist(), strict=True)
            )
    return found


# States -----------------------------------------------------------------------------------------


async def in_order(path: Path) -> None:
    store = OpenStore(path, files=same_boot(path)).open()
    store.topic(queues=2)
    for index, body in enumerate(BODIES):
        await store.put_bodies(body, queue_id=index % 2)
    await store.close()


async def killed(path: Path) -> None:
    """Half of the records are below the checkpoint's watermark."""
    store = OpenStore(path.with_name("running"), files=same_boot(path)).open()
    store.topic(queues=2)
    for index, body in enumerate(BODIES):
        if index == len(BODIES) // 2:
            await store.store.checkpoint()
        await store.put_bodies(body, queue_id=index % 2)
    copy_store(store.store_dir, path)
    await store.close()


async def power_cut(path: Path) -> None:
    await killed(path)
    (path / "abort").write_text("1\nanother boot\n")


async def without_checkpoint(path: Path) -> None:
    await killed(path)
    (path / "checkpoint").unlink()


async def without_queues(path: Path) -> None:
    await killed(path)
    for file in (path / "consumequeue").rglob("0*"):
        if file.is_file():
            file.unlink()


async def rocketmq(path: Path) -> None:
    store = RocketmqStore(queue_file_units=4)
    for index, body in enumerate(BODIES):
        store.add(body, queue_id=index % 2)
    store.write(path)


STATES: Final = [
    killed, rocketmq, *in_torture(in_order, power_cut, without_checkpoint, without_queues),
]  # fmt: skip

# Damages ----------------------------------------------------------------------------------------

FIELDS: Final = {
    "size": 3, "magic": 7, "body CRC": 11, "queue": 15, "queue offset": 27, "place": 35,
    "sysflag": 39, "store time": 63, "body length": 87, "body": 88,
}  # fmt: skip
Damage = Callable[[Path, list[Place], int], None]


def flip(at: int) -> Damage:
    def hurt(path: Path, records: list[Place], victim: int) -> None:
        file, start = log_path(path, records[victim].physical_offset + at)
        poke(path, records[victim].physical_offset + at, bytes([file.read_bytes()[start] ^ 0x10]))

    return hurt


def content_of(path: Path, record: Place) -> bytearray:
    file, start = log_path(path, record.physical_offset)
    return bytearray(file.read_bytes()[start : start + record.record_bytes])


def flip_from_end(back: int) -> Damage:
    def hurt(path: Path, records: list[Place], victim: int) -> None:
        flip(records[victim].record_bytes - back)(path, records, victim)

    return hurt


def sealed(at: int, value: int, width: int = 1) -> Damage:
    """Another value, and a CRC that covers it: what only a faulty writer leaves."""

    def hurt(path: Path, records: list[Place], victim: int) -> None:
        content = content_of(path, records[victim])
        content[at : at + width] = value.to_bytes(width)
        if b"__CRC32#" in content:
            crc = zlib.crc32(content[:-20]) & 0x7FFF_FFFF
            content[-11:-1] = f"{crc:010d}"[::-1].encode()
        poke(path, records[victim].physical_offset, bytes(content))

    return hurt


def zero(path: Path, records: list[Place], victim: int) -> None:
    poke(path, records[victim].physical_offset, bytes(records[victim].record_bytes))


def zero_head(path: Path, records: list[Place], victim: int) -> None:
    poke(path, records[victim].physical_offset, bytes(8))


def zero_from_here(path: Path, records: list[Place], victim: int) -> None:
    poke(path, records[victim].physical_offset, bytes(SEGMENT_BYTES))


def zero_the_segment(path: Path, records: list[Place], victim: int) -> None:
    at = records[victim].physical_offset
    poke(path, at - at % SEGMENT_BYTES, bytes(SEGMENT_BYTES))


def truncate(path: Path, records: list[Place], victim: int) -> None:
    file, start = log_path(path, records[victim].physical_offset)
    os.truncate(file, start + 10)


def truncate_before(path: Path, records: list[Place], victim: int) -> None:
    file, start = log_path(path, records[victim].physical_offset)
    os.truncate(file, max(start, 10))


def remove_segment(path: Path, records: list[Place], victim: int) -> None:
    """Not the first: without a checkpoint of ours nobody knows what retention has deleted."""
    log_path(path, records[max(victim, 14)].physical_offset)[0].unlink()


def empty_segment(path: Path, records: list[Place], victim: int) -> None:
    os.truncate(log_path(path, records[victim].physical_offset)[0], 0)


def overlap(path: Path, records: list[Place], victim: int) -> None:
    """Another record, whole, that belongs elsewhere."""
    poke(path, records[victim].physical_offset, bytes(content_of(path, records[victim - 3])[:700]))


def shifted(path: Path, records: list[Place], victim: int) -> None:
    poke(path, records[victim].physical_offset + 8, bytes(content_of(path, records[victim])))


def blank(path: Path, records: list[Place], victim: int) -> None:
    at = records[victim].physical_offset
    room = SEGMENT_BYTES - at % SEGMENT_BYTES
    poke(path, at, struct.pack(">II", room, 0xCBD4_3194))


def blank_of_another_size(path: Path, records: list[Place], victim: int) -> None:
    poke(path, records[victim].physical_offset, struct.pack(">II", 100, 0xCBD4_3194))


def two_in_a_row(path: Path, records: list[Place], victim: int) -> None:
    flip(3)(path, records, victim)
    flip(7)(path, records, victim - 1)


def record_in_a_body(path: Path, records: list[Place], victim: int) -> None:
    """The victim's body holds a whole record that says it stands there; its own CRC is wrong."""
    longest = max(records, key=lambda each: each.body_bytes)
    place = longest.physical_offset
    inner = rocketmq_record(body=b"inner", physical_offset=place + 100, queue_offset=10)
    poke(path, place + 100, inner)
    del victim


def inner_batch(path: Path, records: list[Place], victim: int) -> None:
    """A record as RocketMQ writes it, of a kind that nobody here reads."""
    size = records[victim].record_bytes
    place = records[victim].physical_offset
    spare = len(rocketmq_record(body=b"", properties="a\x01b"))
    record = rocketmq_record(
        body=bytes(size - spare), properties="a\x01b", sysflag=1 << 7, physical_offset=place
    )
    poke(path, place, record)


def garbage_behind(path: Path, records: list[Place], victim: int) -> None:
    poke(path, records[-1].physical_offset + records[-1].record_bytes + victim, b"garbage")


def garbage_in_the_next_segment(path: Path, records: list[Place], victim: int) -> None:
    following = (records[-1].physical_offset // SEGMENT_BYTES + 1) * SEGMENT_BYTES
    log_path(path, following)[0].write_bytes(bytes(SEGMENT_BYTES))
    poke(path, following + 100 + victim, b"garbage")


def random_bytes(seed: int) -> Damage:
    def hurt(path: Path, records: list[Place], victim: int) -> None:
        chance = random.Random(seed * 100 + victim)
        end = records[-1].physical_offset + records[-1].record_bytes
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(end)
            poke(path, at, chance.randbytes(chance.choice((1, 4, 60, 1_500))))

    return hurt


DAMAGES: Final[dict[str, Damage]] = {
    **{f"{name} flipped": flip(at) for name, at in FIELDS.items()},
    "topic length flipped": lambda path, records, victim: flip(88 + records[victim].body_bytes)(
        path, records, victim
    ),
    "CRC digit flipped": flip_from_end(5),
    "CRC property's name flipped": flip_from_end(15),
    "body CRC wrong, sealed": sealed(11, 0x55),
    "body length wrong, sealed": sealed(86, 0x55),
    "version 2, sealed": sealed(7, 0xAB),
    "version 3, sealed": sealed(7, 0xAC),
    "IPv6 hosts, sealed": sealed(39, 0x30),
    "size wrong, sealed": sealed(2, 0x7F, 2),
    "record zeros": zero,
    "head zeros": zero_head,
    "zeros from here": zero_from_here,
    "segment zeros": zero_the_segment,
    "segment cut in a record": truncate,
    "segment cut before a record": truncate_before,
    "segment removed": remove_segment,
    "segment emptied": empty_segment,
    "overlapped": overlap,
    "shifted": shifted,
    "a BLANK": blank,
    "a BLANK of another size": blank_of_another_size,
    "two in a row": two_in_a_row,
    "a record in a body": record_in_a_body,
    "an inner batch": inner_batch,
    "garbage behind the end": garbage_behind,
    "garbage in the next segment": garbage_in_the_next_segment,
    **{f"random {seed}": random_bytes(seed) for seed in range(sized(3, torture=60))},
}
# Around the watermark of ``killed``, and everywhere.
VICTIMS: Final = (3, 9, 10, 14, 19) if IS_TORTURE else (9, 14)


@pytest.mark.sized
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("state", STATES)
async def test_every_reader_judges_damage_as_recovery_does(
    tmp_path: Path, state: Callable[[Path], Awaitable[None]], damage: str
) -> None:
    await state(tmp_path / "s")
    records = records_of(tmp_path / "s")
    for victim in VICTIMS:
        store_dir = copy_store(tmp_path / "s", tmp_path / f"damaged {victim}")
        DAMAGES[damage](store_dir, records, victim)
        start = await started(copy_store(store_dir, tmp_path / f"start {victim}"))
        if start is None:
            assert Severity.ERROR in verified(store_dir, above=0)[1], victim
            continue
        verdict, served, offset = start
        assert verified(store_dir, above=offset)[::2] == (verdict, set()), victim
        if damage == "a BLANK" and records[victim].physical_offset < offset:
            continue  # where the start has not looked
        if state is rocketmq and damage == "queue offset flipped":
            continue  # which no CRC covers, so that the record is whole and its unit is not
        end = verdict.cut_at or 1 << 62
        assert [each for each in places(store_dir) if offset <= each[0] < end] == served, victim
        assert [each for each in read(store_dir) if offset <= each[0]] == served, victim


@pytest.mark.sized
def test_the_judgement_of_many_is_that_of_each() -> None:
    """Whatever changes in a record, and whether or not a CRC covers that."""
    chance = random.Random(20)
    sizes = {"whole": 0, "not": 0}
    for _ in range(sized(2_000, torture=200_000)):
        topic = "t" * chance.choice((1, 30, 130))
        stored = bytearray(encode_record(message(bytes(chance.randrange(40)), topic=topic)))
        if chance.random() < 0.3:
            stored = bytearray(rocketmq_record(body=b"body", topic=topic))
        end = len(stored)
        for _ in range(chance.randrange(3)):
            at = chance.choice(
                (*range(92), *range(end - 60, end), 88 + int.from_bytes(stored[84:88]))
            )
            stored[min(at, end - 1)] ^= chance.choice((1, 4, 0x10, 0x80, 0xFF))
        if chance.random() < 0.8 and stored[-20:-11] == b"__CRC32#\x01":
            crc = zlib.crc32(stored[:-20]) & 0x7FFF_FFFF
            stored[-11:-1] = f"{crc:010d}"[::-1].encode()
        view = memoryview(bytes(stored))
        is_whole = whole_run(view, 0, 0).record_count == 1
        assert (fault_at(view, 0, 0) is None) == is_whole, stored
        sizes["whole" if is_whole else "not"] += 1
    assert min(sizes.values()) > 100
