"""The keys of requests on disk are those of the log, or a check of the store says which are not."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from storage_engine.records.scheduled_message import Wait
from storage_engine.tools.verify.report import Kind
from tests.storage_engine.dedup.test_idempotent_puts import marked, put_once
from tests.storage_engine.doubles import OpenStore
from tests.storage_engine.stopping import kill
from tests.storage_engine.tools.damages import flip, records
from tests.storage_engine.tools.test_verify import check, found

KEYS = 6
HEAD_BYTES = 8  # of an entry: bytes of the rest, their CRC


async def stopped(store_dir: Path) -> Path:
    """The file of keys of a store that was stopped in order; one of them waits in the schedule."""
    store = OpenStore(store_dir).open()
    store.topic()
    for number in range(KEYS):
        wait = Wait(0, 60_000, 0) if number == 2 else None
        await put_once(store, marked(f"k{number}", wait=wait))
        await store.put_bodies(b"between, without a key")
        await store.store.checkpoint()
    await store.close()
    (path,) = (store_dir / "dedup").iterdir()
    return path


def entries(path: Path) -> list[bytes]:
    content, found_entries = path.read_bytes(), []
    while content:
        size = HEAD_BYTES + int.from_bytes(content[:4])
        found_entries.append(content[:size])
        content = content[size:]
    return found_entries


async def test_what_the_engine_wrote_is_clean(tmp_path: Path) -> None:
    path = await stopped(tmp_path / "s")
    report = check(tmp_path / "s")
    assert found(report) == []
    assert report.counts["request keys"].item_count == KEYS == len(entries(path))


@pytest.mark.parametrize("number", range(1, KEYS))
async def test_a_flipped_bit_costs_the_keys_behind_it_and_is_found(
    tmp_path: Path, number: int
) -> None:
    path = await stopped(tmp_path / "s")
    place = sum(map(len, entries(path)[:number]))
    flip(path, place + HEAD_BYTES + 3)
    report = check(tmp_path / "s")
    assert found(report) == [(Kind.REQUEST_KEY_MISSING, place)]
    assert report.findings[0].what.startswith(f"{KEYS - number} keys of records from ")


async def test_a_missing_key_among_others_is_found(tmp_path: Path) -> None:
    path = await stopped(tmp_path / "s")
    path.write_bytes(b"".join(each for n, each in enumerate(entries(path)) if n != 3))
    assert found(check(tmp_path / "s")) == [(Kind.REQUEST_KEY_MISSING, None)]


async def test_another_key_under_a_right_crc_is_found(tmp_path: Path) -> None:
    path = await stopped(tmp_path / "s")
    all_entries = entries(path)
    content = b"\1" + all_entries[1][HEAD_BYTES + 1 :]
    all_entries[1] = all_entries[1][:4] + crc32(content).to_bytes(4) + content
    path.write_bytes(b"".join(all_entries))
    assert found(check(tmp_path / "s")) == [(Kind.REQUEST_KEY_WRONG, len(all_entries[0]))]


async def test_a_key_that_leads_to_no_record_with_one_is_found(tmp_path: Path) -> None:
    path = await stopped(tmp_path / "s")
    plain = records(tmp_path / "s")[1].physical_offset
    last = entries(path)[-1]
    at = HEAD_BYTES + 32
    content = last[HEAD_BYTES:at] + plain.to_bytes(8) + last[at + 8 :]
    place = path.stat().st_size
    path.write_bytes(path.read_bytes() + last[:4] + crc32(content).to_bytes(4) + content)
    assert found(check(tmp_path / "s")) == [(Kind.REQUEST_KEY_WRONG, place)]


async def test_an_end_that_a_kill_has_left_is_no_finding(tmp_path: Path) -> None:
    path = await stopped(tmp_path / "s")
    store = OpenStore(tmp_path / "s").open()
    await put_once(store, marked("after"))
    kill(store.store)
    path.write_bytes(path.read_bytes() + b"\0\0\0\x50half")  # of the key that it did not finish
    assert found(check(tmp_path / "s")) == []
    async with OpenStore(tmp_path / "s"):
        pass
    report = check(tmp_path / "s")
    assert found(report) == []
    assert report.counts["request keys"].item_count == KEYS + 1
