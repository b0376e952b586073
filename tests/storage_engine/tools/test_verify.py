"""A clean store has no findings; each kind of damage has exactly the one that names it."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from storage_engine.disk.files import Files
from storage_engine.disk.layout import CHECKPOINT_FILE, CONSUME_QUEUE_DIR
from storage_engine.replication.tail import Tail, write_tail
from storage_engine.tools.verify.report import FINDINGS_OF_A_KIND_MAX, Kind, Report, lines
from storage_engine.tools.verify.verification import (
    EXIT_FINDINGS,
    EXIT_UNREADABLE,
    Verification,
    main,
)
from storage_engine.wire.topics import TopicPurgeRequest
from tests.storage_engine.dedup.test_idempotent_puts import marked, put_once
from tests.storage_engine.delivery.grouped import nack, opened
from tests.storage_engine.doubles import (
    SEGMENT_BYTES,
    UNITS,
    OpenStore,
    copy_store,
    fingerprint,
    message,
    tiny_config,
)
from tests.storage_engine.engines import ROOT
from tests.storage_engine.recovering import filled, log_path
from tests.storage_engine.tools.damages import (
    DAMAGES,
    MENDED_BY_A_START,
    Found,
    exchange_unit,
    flip,
    queue_file,
    records,
    remove_queue,
)


def check(store_dir: Path) -> Report:
    """The report; no byte of the store is changed."""
    before = fingerprint(store_dir)
    verification = verification_of(store_dir)
    steps = list(verification.run())
    assert fingerprint(store_dir) == before
    assert all(step.done_bytes <= step.total_bytes for step in steps)
    return verification.report


def verification_of(store_dir: Path) -> Verification:
    return Verification(store_dir, index_slots=tiny_config(store_dir).index_slots)


def found(report: Report) -> Found:
    return [(finding.kind, finding.offset) for finding in report.findings]


@pytest.fixture
def store_dir(tmp_path: Path) -> Path:
    """A stopped store of two queues with ten messages each, on several segments."""

    async def fill() -> None:
        store = await filled(tmp_path / "store")
        store.ack(store.receive(16))
        await store.close()

    asyncio.run(fill())
    return tmp_path / "store"


async def test_clean_stores_have_no_findings(store_dir: Path, tmp_path: Path) -> None:
    report = check(store_dir)
    assert found(report) == []
    assert report.is_clean
    assert (report.notes, report.is_whole_store) == ([], True)
    assert report.counts["commit log"].item_count == 20
    assert report.counts["consume queues"].item_count == 20
    assert report.verified_offset == records(store_dir)[-1].physical_offset + (
        records(store_dir)[-1].record_bytes
    )
    async with OpenStore(tmp_path / "empty"):
        pass
    assert found(check(tmp_path / "empty")) == []


async def test_a_message_that_failed_often_is_no_offset(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s", "a1")
    for _ in range(9):
        nack(store, store.receive(), "a1", delay_ms=10)
        await store.pass_time(10)
    await store.close()
    assert found(check(tmp_path / "s")) == []


@pytest.mark.parametrize("field", ["size", "magic", "queue", "place", "body", "topic", "property"])
def test_a_flipped_bit_in_a_record_is_that_record_and_nothing_else(
    store_dir: Path, field: str
) -> None:
    record = records(store_dir)[7]
    topic_at = 88 + record.body_bytes
    ats = {
        "size": 3, "magic": 4, "queue": 15, "place": 35, "body": 90, "topic": topic_at + 1,
        "property": topic_at + 6,
    }  # fmt: skip
    path, at = log_path(store_dir, record.physical_offset)
    flip(path, at + ats[field])
    report = check(store_dir)
    assert found(report) == [(Kind.RECORD_DAMAGED, record.physical_offset)]
    assert report.findings[0].path == f"commitlog/{path.name}"
    assert report.counts["commit log"].item_count == 19


def test_every_byte_of_a_record_is_covered(store_dir: Path) -> None:
    record = records(store_dir)[3]
    path, at = log_path(store_dir, record.physical_offset)
    good = path.read_bytes()
    for position in range(at, at + record.record_bytes):
        damaged = bytearray(good)
        damaged[position] ^= 1
        path.write_bytes(bytes(damaged))
        verification = verification_of(store_dir)
        list(verification.run())
        assert found(verification.report) == [(Kind.RECORD_DAMAGED, record.physical_offset)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_has_exactly_its_finding(store_dir: Path, damage: Callable[[Path], Found]) -> None:
    expected = damage(store_dir)
    report = check(store_dir)
    assert found(report) == expected
    assert all(finding.what and finding.advice for finding in report.findings)


def test_a_queue_offset_given_twice_is_found(store_dir: Path) -> None:
    """A whole record, CRCs and all, that stands where no engine would have put it."""
    record = records(store_dir)[4]
    path, at = log_path(store_dir, record.physical_offset)
    content = bytearray(path.read_bytes())
    content[at + 20 : at + 28] = (record.queue_offset - 1).to_bytes(8)
    _seal(content, at, record.record_bytes)
    path.write_bytes(bytes(content))
    kinds = {kind for kind, _ in found(check(store_dir))}
    assert Kind.QUEUE_OFFSET_WRONG in kinds


def _seal(content: bytearray, at: int, record_bytes: int) -> None:
    end = at + record_bytes
    crc = zlib.crc32(content[at : end - 20]) & 0x7FFF_FFFF
    content[end - 11 : end - 1] = f"{crc:010d}"[::-1].encode()


async def test_beside_a_running_engine_and_after_a_kill(tmp_path: Path) -> None:
    store = await filled(tmp_path / "store")
    report = verification_of(tmp_path / "store")
    list(report.run())
    assert found(report.report) == []
    assert not report.report.is_whole_store
    assert "an engine is running" in report.report.notes[0]
    assert report.report.counts["commit log"].item_count == 20
    killed = copy_store(tmp_path / "store", tmp_path / "killed")
    await store.close()
    report_of_killed = check(killed)
    assert found(report_of_killed) == []
    assert "did not shut down cleanly" in report_of_killed.notes[0]
    last = records(killed)[-1]
    path, at = log_path(killed, last.physical_offset + last.record_bytes)
    flip(path, at)
    assert [kind for kind, _ in found(check(killed))] == [Kind.LOG_TAIL]


def test_what_retention_deleted_is_not_missed(store_dir: Path) -> None:
    (store_dir / "commitlog" / f"{0:020d}").unlink()
    left: dict[str, list[int]] = {"t": [0, 0]}
    for record in reversed(records(store_dir)):
        left["t"][record.queue_id] = record.queue_offset
    (store_dir / "config" / "minOffsets.json").write_text(json.dumps({"offsetTable": left}))
    assert found(check(store_dir)) == []


async def test_after_retention_and_beside_it_all_is_clean(tmp_path: Path) -> None:
    hour_ms = 3_600_000
    limits = {"retention_ms": hour_ms, "retention_files_max": 100}
    store = OpenStore(tmp_path / "store", limits=limits).open()
    for topic in ("t", "other"):
        store.topic(topic)
        await store.put(message(b"only", topic=topic))
    await store.put_bodies(*[bytes(800)] * 40)
    for _ in range(40):
        store.clock.advance(hour_ms // 20)
        await store.store.retention.run()
    await store.put_bodies(*[bytes(800)] * 8)
    verification = verification_of(tmp_path / "store")
    list(verification.run())
    assert found(verification.report) == []
    await store.close()
    assert min(map(int, (p.name for p in (tmp_path / "store/commitlog").iterdir()))) > 0
    assert found(check(tmp_path / "store")) == []


async def test_what_nobody_can_read_any_more_may_have_no_units(tmp_path: Path) -> None:
    """A purged topic's files of units go with the next pass; its records with their segments."""
    store = OpenStore(tmp_path / "store").open()
    store.topic()
    store.group()
    await store.put_bodies(*[b"gone"] * (3 * UNITS))
    await store.store.checkpoint()
    store.store.consumption.deletions.topic_purge(TopicPurgeRequest(topic="t"))
    await store.store.retention.run()
    assert not queue_file(store.store_dir, 0, 0).exists()
    await store.put_bodies(*[b"left"] * (UNITS + 1))
    await store.close()
    assert found(check(store.store_dir)) == []
    queue_file(store.store_dir, 0, 3).unlink()
    assert (Kind.QUEUE_FILE_MISSING, 3 * UNITS) in found(check(store.store_dir))


async def test_what_came_from_a_replicated_log_may_have_no_queues_behind_its_checkpoint(
    tmp_path: Path,
) -> None:
    """Of a replica or a shard that has just left its log; no engine has had it open."""
    store = OpenStore(tmp_path / "store").open()
    store.topic()
    await store.store.checkpoint()
    checkpoint = (store.store_dir / CHECKPOINT_FILE).read_bytes()
    await store.put_bodies(b"one", b"two")
    await store.close()
    log_end = check(store.store_dir).verified_offset
    (store.store_dir / CHECKPOINT_FILE).write_bytes(checkpoint)
    shutil.rmtree(store.store_dir / CONSUME_QUEUE_DIR)
    assert (Kind.QUEUE_FILE_MISSING, 0) in found(check(store.store_dir))

    write_tail(
        Files(), store.store_dir, Tail(entry_epoch=1, number=1, log_end=log_end, has_left=True)
    )

    assert found(check(store.store_dir)) == []


async def test_a_group_at_the_end_of_what_retention_deleted_is_not_beyond(tmp_path: Path) -> None:
    limits = {"retention_bytes": 2 * SEGMENT_BYTES, "retention_files_max": 100}
    store = OpenStore(tmp_path / "store", limits=limits).open()
    store.topic()
    store.topic("other")
    store.group()
    await store.put_bodies(b"a", b"b")
    store.ack(store.receive())
    for _ in range(20):
        await store.put(message(bytes(800), topic="other"))
    await store.store.checkpoint()
    await store.store.retention.run()
    await store.close()
    assert {record.topic for record in records(store.store_dir)} == {"other"}
    assert found(check(store.store_dir)) == []


async def test_keys_of_requests_are_no_stray_files(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "store").open()
    store.topic()
    await put_once(store, marked("k"))
    await store.close()
    (path,) = (store.store_dir / "dedup").iterdir()
    assert found(check(store.store_dir)) == []
    path.rename(path.with_name("keys"))
    assert found(check(store.store_dir)) == [(Kind.STRAY_FILE, None)]


async def reopened(store_dir: Path) -> Report:
    """The report after one more run of the engine, in which messages were put."""
    async with OpenStore(store_dir) as store:
        await store.put_bodies(b"one more", b"and another")
    return check(store_dir)


@pytest.mark.parametrize("damage", MENDED_BY_A_START)
def test_a_start_mends_derived_files(store_dir: Path, damage: Callable[[Path], Found]) -> None:
    damage(store_dir)
    assert found(asyncio.run(reopened(store_dir))) == []


async def test_a_start_removes_what_a_killed_run_was_writing(store_dir: Path) -> None:
    leftovers = [
        store_dir / f"{name}.tmp"
        for name in ("checkpoint", "config/minOffsets.json", f"commitlog/{1 << 20:020d}",
                     f"consumequeue/t/0/{8_000:020d}", "index/20260102030405678")
    ]  # fmt: skip
    for path in leftovers:
        path.write_bytes(b"half")
    assert [kind for kind, _ in found(check(store_dir))] == [Kind.TEMPORARY_FILE] * len(leftovers)
    assert found(await reopened(store_dir)) == []


def test_a_damaged_record_costs_itself_after_a_start_and_a_rebuild(store_dir: Path) -> None:
    record = records(store_dir)[7]
    path, at = log_path(store_dir, record.physical_offset)
    flip(path, at + 3)
    expected = [(Kind.RECORD_DAMAGED, record.physical_offset)]
    assert found(asyncio.run(reopened(store_dir))) == expected
    remove_queue(store_dir)
    assert found(asyncio.run(reopened(store_dir))) == expected


def test_exit_codes_and_output(store_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slots = f"--index-slots={tiny_config(store_dir).index_slots}"
    assert main([str(store_dir), "--json", "--progress", slots]) == 0
    *steps, report = map(json.loads, capsys.readouterr().out.splitlines())
    assert steps[-1].keys() == {"done_bytes", "total_bytes"}
    assert report["findings"] == []
    exchange_unit(store_dir)
    assert main([str(store_dir), slots]) == EXIT_FINDINGS
    assert "unit_wrong: consumequeue/t/1 at 5: " in capsys.readouterr().out
    assert main([str(store_dir / "checkpoint")]) == EXIT_UNREADABLE
    assert main([str(store_dir / "nothing")]) == EXIT_UNREADABLE
    assert "is not a store" in capsys.readouterr().err


def test_every_finding_stands_in_the_table_for_people() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    rows = page.partition("| finding | means |")[2].partition("\n\n")[0]
    first_cells = [row.split("|")[1] for row in rows.splitlines() if row.count("|") == 3]
    told = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    assert told == {kind.value for kind in Kind}


def test_a_wrecked_store_has_a_short_report() -> None:
    report = Report(store="s")
    for number in range(FINDINGS_OF_A_KIND_MAX + 5):
        report.add(Kind.UNIT_WRONG, "q", number, "x")
    assert len(report.findings) == FINDINGS_OF_A_KIND_MAX
    assert lines(report)[-2:] == ["and 5 more of unit_wrong", "105 findings"]
