"""Columns of the log against a reader that shares no line with the engine, and against damage."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from storage_engine.errors import OffsetOutOfRange, StoreCorrupt
from storage_engine.reader import Columns, Extent, find_extent, first_store_ms, read_columns
from tests.storage_engine.doubles import SEGMENT_BYTES, OpenStore, copy_store, fingerprint, message
from tests.storage_engine.independent_reader import StoredRecord, read_log
from tests.storage_engine.mixed_store import fill
from tests.storage_engine.recovering import filled, log_path, poke

Damages = list[tuple[int, int]]


def read(
    extent: Extent, *, checks_crcs: bool = True, start_offset: int = 0
) -> tuple[list[Columns], Damages]:
    damages: Damages = []

    def damaged(start: int, end: int, reason: str) -> None:
        assert reason
        damages.append((start, end))

    batches = [
        columns
        for segment in extent.segments
        for columns in read_columns(
            segment, start_offset, extent.end_offset, checks_crcs=checks_crcs, damaged=damaged
        )
    ]
    return batches, damages


def offsets_of(batches: list[Columns]) -> list[int]:
    return [offset for columns in batches for offset in columns.physical_offset.tolist()]


def rows_of(columns: Columns) -> list[tuple[Any, ...]]:
    """Any: as many kinds of values as a record has."""
    indexes, names = columns.topics()
    properties, bodies = columns.properties(), columns.bodies()
    return [
        (
            columns.physical_offset[i], columns.record_bytes[i], columns.queue_id[i],
            columns.flag[i], columns.queue_offset[i], columns.born_ms[i], columns.store_ms[i],
            columns.reconsume_times[i], columns.body_bytes[i], hashlib.sha256(bodies[i]).digest(),
            names[indexes[i]], _pairs(properties[i]),
        )
        for i in range(len(columns))
    ]  # fmt: skip


def _pairs(content: bytes) -> dict[str, str]:
    pairs = [pair.partition("\x01") for pair in content.decode().split("\x02") if pair]
    return {name: value for name, _, value in pairs}


def expected(record: StoredRecord) -> tuple[Any, ...]:
    """Any: as above."""
    properties = {name: v for name, v in record.properties.items() if name != "__CRC32#"}
    return (
        record.physical_offset, record.record_bytes, record.queue_id, record.flag,
        record.queue_offset, record.born_timestamp_ms, record.store_timestamp_ms,
        record.reconsume_times, record.body_bytes, record.body_sha256, record.topic, properties,
    )  # fmt: skip


async def test_columns_are_what_an_independent_reader_finds(tmp_path: Path) -> None:
    await fill(tmp_path, 6_000)  # both versions, both kinds of hosts, segments that roll

    batches, damages = read(find_extent(tmp_path))

    found = [row for columns in batches for row in rows_of(columns)]
    assert found == [expected(record) for record in read_log(tmp_path)]
    assert damages == []
    assert len(find_extent(tmp_path).segments) > 2


async def test_reading_begins_and_ends_at_any_record(tmp_path: Path) -> None:
    await (await filled(tmp_path)).close()
    every = [record.physical_offset for record in read_log(tmp_path)]
    for at in (0, 3, 10, len(every) - 1):
        extent = find_extent(tmp_path, end_offset=every[-2])
        batches, _ = read(extent, start_offset=every[at])
        assert offsets_of(batches) == every[at:-2]


async def test_the_log_of_a_running_engine_ends_where_it_has_got_to(tmp_path: Path) -> None:
    store = await filled(tmp_path)
    try:
        assert find_extent(tmp_path).end_offset == store.store.stats(0).append_offset
        end_offset = find_extent(tmp_path).end_offset
        await store.put_bodies(b"later")
        batches, _ = read(find_extent(tmp_path, end_offset=end_offset))
        assert sum(map(len, batches)) == 20
        batches, _ = read(find_extent(tmp_path))
        assert sum(map(len, batches)) == 21
    finally:
        await store.close()


@pytest.mark.parametrize("at_byte", [0, 4, 28, 60, 84, 90])
async def test_a_torn_tail_ends_the_log_before_it(tmp_path: Path, at_byte: int) -> None:
    store = await filled(tmp_path / "s")
    copy_store(tmp_path / "s", tmp_path / "killed")
    end_offset = store.store.stats(0).append_offset
    await store.close()
    last = list(read_log(tmp_path / "s"))[-1].physical_offset
    poke(tmp_path / "killed", last + at_byte, b"\x55")

    extent = find_extent(tmp_path / "killed")

    assert extent.end_offset == last < end_offset
    batches, damages = read(extent)
    assert sum(map(len, batches)) == 19
    assert damages == []


# Of a body that has rotted only the CRC tells; all else is told by lengths, magic and place.
@pytest.mark.parametrize(
    ("at_byte", "checks_crcs"),
    [*((at, True) for at in (0, 4, 8, 28, 84, 90)), *((at, False) for at in (0, 4, 28, 84))],
)
async def test_damage_below_the_checkpoint_costs_itself_and_is_reported(
    tmp_path: Path, at_byte: int, checks_crcs: bool
) -> None:
    await (await filled(tmp_path / "whole")).close()
    every = list(read_log(tmp_path / "whole"))
    for victim in (0, 7, 18, 19):
        place = every[victim]
        store = copy_store(tmp_path / "whole", tmp_path / str(victim))
        poke(store, place.physical_offset + at_byte, b"\x7f\x7f")

        batches, damages = read(find_extent(store), checks_crcs=checks_crcs)

        others = [each.physical_offset for each in every if each is not place]
        assert offsets_of(batches) == others
        assert [start for start, _ in damages] == [place.physical_offset]
        assert damages[0][1] >= place.physical_offset + place.record_bytes


async def test_without_crcs_a_rotten_body_counts_and_with_them_it_does_not(tmp_path: Path) -> None:
    await (await filled(tmp_path)).close()
    poke(tmp_path, list(read_log(tmp_path))[7].physical_offset + 90, b"\x7f")

    assert sum(map(len, read(find_extent(tmp_path), checks_crcs=False)[0])) == 20
    assert sum(map(len, read(find_extent(tmp_path), checks_crcs=True)[0])) == 19


async def test_a_record_inside_of_a_damaged_body_is_not_taken_for_one(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "a") as store:
        store.topic()
        await store.put_bodies(b"x" * 600, b"inner")
    content = (tmp_path / "a/commitlog" / f"{0:020d}").read_bytes()
    (first, inner) = list(read_log(tmp_path / "a"))
    smuggled = content[inner.physical_offset :][: inner.record_bytes]
    body = bytes(inner.physical_offset - 88) + smuggled  # it will stand where it says it stands
    async with OpenStore(tmp_path / "b") as store:
        store.topic()
        await store.put_bodies(body, b"after")
    poke(tmp_path / "b", 8, b"\x7f\x7f")  # BODYCRC of the first

    batches, damages = read(find_extent(tmp_path / "b"))

    last = 88 + len(body) + (first.record_bytes - 600 - 88)
    assert offsets_of(batches) == [last]
    assert damages == [(0, last)]


async def test_a_whole_segment_of_zeros_is_damage_and_those_behind_are_read(tmp_path: Path) -> None:
    await (await filled(tmp_path)).close()
    every = [record.physical_offset for record in read_log(tmp_path)]
    poke(tmp_path, SEGMENT_BYTES, bytes(SEGMENT_BYTES))

    batches, damages = read(find_extent(tmp_path))

    assert offsets_of(batches) == [
        at for at in every if not SEGMENT_BYTES <= at < 2 * SEGMENT_BYTES
    ]
    assert damages == [(SEGMENT_BYTES, 2 * SEGMENT_BYTES)]
    assert first_store_ms(find_extent(tmp_path).segments[1]) is None
    assert first_store_ms(find_extent(tmp_path).segments[0]) is not None


async def test_a_store_without_messages_has_an_empty_log(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
    assert read(find_extent(tmp_path)) == ([], [])


async def test_what_is_no_store_or_misses_a_segment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreCorrupt, match="is not a store"):
        find_extent(tmp_path)
    await (await filled(tmp_path)).close()
    with pytest.raises(OffsetOutOfRange, match="should go up to"):
        find_extent(tmp_path, end_offset=1 << 40)
    extent = find_extent(tmp_path)
    log_path(tmp_path, SEGMENT_BYTES)[0].unlink()
    with pytest.raises(OffsetOutOfRange, match="hold a snapshot"):
        read(extent)
    with pytest.raises(StoreCorrupt, match="no file in"):
        find_extent(tmp_path)


async def test_reading_changes_no_byte_and_no_file(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await store.put(*[message(b"x" * 100) for _ in range(50)])
    before = fingerprint(tmp_path)
    read(find_extent(tmp_path))
    assert fingerprint(tmp_path) == before
