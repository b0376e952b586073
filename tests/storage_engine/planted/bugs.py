"""Bugs put into the engine on purpose, one at a time, to see that the tests would catch them.

    plant(bug) ── replaces one function ──▶ engine ── harness, reduced ──▶ caught, or the test fails

Each is a mistake that a real system has made (the reports are named in the reliability design). A
bug that is not caught is a hole in the tests, not in the engine.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from storage_engine.delivery.consumer_offsets import ConsumerOffsets, Snapshot
from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.offset_journal import OffsetJournal
from storage_engine.disk.files import Files
from storage_engine.disk.lock import StoreLock
from storage_engine.disk.mapped_file import MappedFile
from storage_engine.errors import DiskFull, StoreCorrupt, SyncFailed
from storage_engine.log import log_scan
from storage_engine.log.checkpoint import write_checkpoint
from storage_engine.log.commit_log import CommitLog
from storage_engine.log.durability import Durability
from storage_engine.puts.engine_puts import EnginePuts, PutBatch
from storage_engine.puts.put_path import PutPath
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.records import record_check
from storage_engine.records.record import RecordHead, parse_head
from storage_engine.records.record_check import WholeRun
from storage_engine.recovery import checkpointer, recovery
from storage_engine.recovery.checkpointer import Checkpointer

Plant = Callable[[pytest.MonkeyPatch], None]


class Bug(NamedTuple):
    """``caught_by``: a workload of the crash explorer, or a scenario of ``catchers``."""

    plant: Plant
    caught_by: str

    @property
    def name(self) -> str:
        return self.plant.__name__


def ack_before_sync(patch: pytest.MonkeyPatch) -> None:
    def sync(log: CommitLog, to: int) -> None:
        log.flushed_offset = max(log.flushed_offset, to)

    patch.setattr(CommitLog, "sync", sync)


def ack_without_waiting(patch: pytest.MonkeyPatch) -> None:
    real = Durability.wait

    def wait(durability: Durability, end_offset: int, done: Any) -> None:
        done(None)  # Any above: the same callback
        real(durability, end_offset, lambda error: None)

    patch.setattr(Durability, "wait", wait)


def watermark_before_log_sync(patch: pytest.MonkeyPatch) -> None:
    real = write_checkpoint

    async def durable_to(self: Durability, offset: int) -> None:
        return

    def write(files: Files, path: Path, mark: Any) -> None:  # Any: Checkpoint
        flushed = max(mark.flushed_offset, mark.dispatched_offset)
        real(files, path, msgspec.structs.replace(mark, flushed_offset=flushed))

    patch.setattr(Durability, "durable_to", durable_to)
    patch.setattr(checkpointer, "write_checkpoint", write)


def units_believed_beyond_the_log(patch: pytest.MonkeyPatch) -> None:
    real = ConsumeQueues.load

    def load(queues: ConsumeQueues, dispatched_offset: int, *more: Any) -> Any:  # Any: as the real
        return real(queues, 1 << 60, *more)

    patch.setattr(ConsumeQueues, "load", load)


def no_directory_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Files, "sync_dir", lambda files, path: None)


def rename_without_sync_of_the_file(patch: pytest.MonkeyPatch) -> None:
    def replace(files: Files, path: Path, content: bytes) -> None:
        aside = path.with_name(path.name + ".tmp")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(descriptor, content)
        os.close(descriptor)
        os.replace(aside, path)
        files.sync_dir(path.parent)

    patch.setattr(Files, "replace", replace)


def _scan_believes(patch: pytest.MonkeyPatch, verify: Callable[..., RecordHead]) -> None:
    def whole_run(view: memoryview, at: int, base_offset: int, _: int) -> WholeRun:
        count, last_at = 0, -1
        with contextlib.suppress(StoreCorrupt):
            while (head := verify(view, at)).physical_offset == base_offset + at:
                count += 1
                last_at, at = at, at + head.record_bytes
        return WholeRun(at, count, last_at)

    patch.setattr(log_scan, "whole_run", whole_run)
    patch.setattr(record_check, "verify_record", verify)


def crc_of_the_body_only(patch: pytest.MonkeyPatch) -> None:
    def verify(buffer: Any, at: int = 0) -> RecordHead:  # Any: bytes or memoryview
        head = parse_head(buffer, at)
        record = bytes(buffer[at : at + head.record_bytes])
        body_bytes = int.from_bytes(record[84:88])
        crc = zlib.crc32(record[88 : 88 + body_bytes]) & 0x7FFF_FFFF
        if crc != int.from_bytes(record[8:12]):
            raise StoreCorrupt("the body does not match its CRC")
        return head

    _scan_believes(patch, verify)
    patch.setattr(CommitLog, "damaged", lambda log, records: [])
    patch.setattr(CommitLog, "read_checked", lambda log, records: (log.read_many(records), []))


def length_believed_before_the_crc(patch: pytest.MonkeyPatch) -> None:
    _scan_believes(patch, parse_head)


def recovery_stops_at_the_first_bad_record(patch: pytest.MonkeyPatch) -> None:
    real = log_scan.scan

    def scan(segments: Any, start: int, flushed_offset: int, *, keeps_whole: bool) -> Any:
        return real(segments, start, 0, keeps_whole=False)  # Any: as the real

    patch.setattr(recovery, "scan", scan)


def damage_is_not_reported(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("storage_engine.log.quarantine.Quarantine.add", lambda quarantine, damaged: None)


def failed_sync_is_tried_again(patch: pytest.MonkeyPatch) -> None:
    real = MappedFile.sync

    def sync(file: MappedFile, start: int, end: int) -> None:
        try:
            real(file, start, end)
        except SyncFailed:
            real(file, start, end)

    patch.setattr(MappedFile, "sync", sync)


def cached_pages_believed_after_a_failed_sync(patch: pytest.MonkeyPatch) -> None:
    def rewrite_from(log: CommitLog, offset: int) -> None:
        for segment in log.segments():
            end = min(log.append_offset - segment.base_offset, segment.size_bytes)
            segment.sync(0, max(end, 0))

    patch.setattr(CommitLog, "rewrite_from", rewrite_from)


def offsets_used_again_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    real = recovery.recover

    def recover(parts: EngineParts, found_log: Any, **named: Any) -> Any:
        found = real(parts, found_log, **named)  # Any: as the real
        for queue in parts.queues:
            if queue.max_offset > 1:
                queue.max_offset -= 1
                queue.append_offset = queue.max_offset
                queue.open_next_file()
        return found

    patch.setattr("storage_engine.store.recover", recover)


def torn_tail_left_in_place(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MappedFile, "zero_after", lambda file, position: 0)


def settle_answered_without_a_journal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetJournal, "write_settled", lambda journal, *what, **how: None)


def settles_never_made_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetJournal, "sync", lambda journal: None)


def consumer_offset_ahead_of_the_acks(patch: pytest.MonkeyPatch) -> None:
    real = ConsumerOffsets.snapshot

    def snapshot(offsets: ConsumerOffsets) -> Snapshot:
        taken = real(offsets)
        ahead = {
            name: {queue_id: at + 1 for queue_id, at in by_queue.items()}
            for name, by_queue in taken.offsets.items()
        }
        return taken._replace(offsets=ahead)

    patch.setattr(ConsumerOffsets, "snapshot", snapshot)


def moved_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    real = EnginePuts.append

    def append(puts: EnginePuts, batch: PutBatch, published: Any = None) -> list[int]:
        offsets = real(puts, batch, None)  # Any: the same callback
        if published is not None:
            published()
        return offsets

    patch.setattr(EnginePuts, "append", append)


def moves_forgotten_by_recovery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerOffsets, "settle_recovered", lambda offsets, settles: False)


def checkpoint_passes_the_journal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerOffsets, "sync", lambda offsets: None)
    patch.setattr(Checkpointer, "_write_offsets", lambda checkpointer, taken, writers: None)
    patch.setattr(ConsumerOffsets, "finish", lambda offsets, taken: 0)


def full_disk_latches(patch: pytest.MonkeyPatch) -> None:
    real = PutPath.put
    seen: list[DiskFull] = []

    def put(path: PutPath, payload: bytes) -> Any:  # Any: as the real
        if seen:
            raise seen[0]
        try:
            return real(path, payload)
        except DiskFull as exc:
            seen.append(exc)
            raise

    patch.setattr(PutPath, "put", put)


def refused_put_stays_in_the_log(patch: pytest.MonkeyPatch) -> None:
    real = PutPath.put

    def put(path: PutPath, payload: bytes) -> Any:  # Any: as the real
        appended = real(path, payload)
        if len(payload) % 3 == 0:
            raise DiskFull("said after the append")
        return appended

    patch.setattr(PutPath, "put", put)


def two_engines_allowed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoreLock, "_try_lock", lambda lock, descriptor: None)


def leases_on_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    class Wall:
        def __init__(self, clock: Any) -> None:  # Any: Clock
            self.now_ms = self.monotonic_ms = clock.now_ms

    real = Delivery.__init__

    def init(delivery: Delivery, parts: EngineParts, *more: Any) -> None:
        real(delivery, replace(parts, clock=Wall(parts.clock)), *more)  # Any: as the real

    patch.setattr(Delivery, "__init__", init)


def store_times_go_back(patch: pytest.MonkeyPatch) -> None:
    real = CommitLog.append

    def append(log: CommitLog, payload: bytes, entries: Any) -> list[int]:  # Any: as the real
        log.store_timestamp_ms = 0
        return real(log, payload, entries)

    patch.setattr(CommitLog, "append", append)


BUGS: Final = [
    Bug(ack_before_sync, "single_sends"),
    Bug(ack_without_waiting, "single_sends"),
    Bug(watermark_before_log_sync, "async_with_checkpoints"),
    Bug(units_believed_beyond_the_log, "segment_roll"),
    Bug(no_directory_sync, "segment_roll"),
    Bug(rename_without_sync_of_the_file, "topics_made_while_sending"),
    Bug(crc_of_the_body_only, "flipped_bits"),
    Bug(length_believed_before_the_crc, "group_commit_of_fifty"),
    Bug(recovery_stops_at_the_first_bad_record, "flipped_bits"),
    Bug(damage_is_not_reported, "flipped_bits"),
    Bug(failed_sync_is_tried_again, "a_sync_that_failed"),
    Bug(cached_pages_believed_after_a_failed_sync, "a_sync_and_its_repair_that_failed"),
    Bug(offsets_used_again_after_a_crash, "crashes_one_after_the_other"),
    Bug(torn_tail_left_in_place, "async_and_sync_mixed"),
    Bug(settle_answered_without_a_journal, "consume_and_ack"),
    Bug(settles_never_made_durable, "consume_and_ack"),
    Bug(consumer_offset_ahead_of_the_acks, "checkpoints"),
    Bug(moved_before_it_is_durable, "moves_at_once"),
    Bug(moves_forgotten_by_recovery, "failures_of_every_kind"),
    Bug(checkpoint_passes_the_journal, "failures_of_every_kind"),
    Bug(full_disk_latches, "a_disk_that_was_full"),
    Bug(refused_put_stays_in_the_log, "single_sends"),
    Bug(two_engines_allowed, "second_engine"),
    Bug(leases_on_the_wall_clock, "wall_clock_jumps"),
    Bug(store_times_go_back, "wall_clock_jumps"),
]
