"""``python -m storage_engine.tools.verify STORE``: checks a whole store and changes nothing in it.

    small files ──▶ verify_files ─┐
    commit log ──▶ LogCheck ── batches ──▶ QueueCheck, IndexCheck, RequestCheck ──▶ Report

Stopped in order, every byte of a store is told by its log, so every byte is compared. After a crash
consume queues and index are compared up to the checkpoint. Beside a running engine the log must be
whole up to the checkpoint's flushed offset, and is read on as far as it is whole.

Exit codes: 0 clean, 1 findings, 2 the store cannot be read.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.clock import measured_ns
from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    ABORT_FILE,
    BUCKET_DIR,
    COMMIT_LOG_DIR,
    CONFIG_DIR,
    CONSUMER_OFFSET_FILE,
    INDEX_DIR,
)
from storage_engine.errors import StoreCorrupt, StoreError
from storage_engine.log.bucket_files import BucketFile, read_bucket_files
from storage_engine.log.checkpoint import Checkpoint
from storage_engine.log.log_scan import last_run
from storage_engine.recovery.open_checks import reject_gaps
from storage_engine.replication.tail import read_tail
from storage_engine.tools.verify.files import (
    check_checkpoint,
    check_config,
    check_names,
    is_engine_running,
    read_floors,
    read_offsets,
    was_left_by_rocketmq,
)
from storage_engine.tools.verify.index import IndexCheck
from storage_engine.tools.verify.log import LogCheck
from storage_engine.tools.verify.queues import QueueCheck
from storage_engine.tools.verify.report import Kind, Progress, Report, lines
from storage_engine.tools.verify.requests import RequestCheck

EXIT_FINDINGS: Final = 1
EXIT_UNREADABLE: Final = 2
_EVERYTHING: Final = 1 << 62
_SLOTS_VARIABLE: Final = "MQ_ENGINE_INDEX_SLOTS"


class NoStore(Exception):
    """There is nothing at the path that could be a store."""


class Verification:
    """One check of one store: iterate over ``run``, then look at ``report``."""

    def __init__(self, store: Path, *, index_slots: int | None = None) -> None:
        self._store = store
        self._index_slots = index_slots
        self.report = Report(store=str(store))

    def run(self) -> Iterator[Progress]:
        """Check everything; yields after every few thousand records.

        Raises:
            NoStore: there is no store at the path.
            StoreCorrupt: its format is newer than this engine, or its mark of a replicated log is
            damaged.
            OSError: a file cannot be read.
        """
        store, report = self._store, self.report
        if not (store / COMMIT_LOG_DIR).is_dir() and not (store / CONFIG_DIR).is_dir():
            raise NoStore(
                f"{store} is not a store: it has neither {COMMIT_LOG_DIR} nor {CONFIG_DIR}"
            )
        started_ns = measured_ns()
        report.is_whole_store = not is_engine_running(store)
        # Before the log, so that beside a running engine none of them is ahead of what is read.
        offsets = read_offsets(store, report)
        last = last_run(store, Files())
        checkpoint = last.checkpoint
        check_checkpoint(store, report, checkpoint)
        check_config(store, report)
        check_names(store, report)
        mark = checkpoint or Checkpoint()
        is_in_order = (
            report.is_whole_store
            and not (store / ABORT_FILE).exists()
            and _is_dispatched(store, mark)
        )
        is_of_rocketmq = was_left_by_rocketmq(store, checkpoint)
        # A broker that stops in order has indexed everything, though no checkpoint says so; with
        # ``messageIndexEnable=false`` it has no index at all.
        is_indexed_by_rocketmq = (
            is_of_rocketmq and is_in_order and any((store / INDEX_DIR).glob("*"))
        )
        log = LogCheck(store, report, last, is_of_rocketmq=is_of_rocketmq)
        self._report_limits(checkpoint, is_in_order=is_in_order, is_of_rocketmq=is_of_rocketmq)
        queues = QueueCheck(
            store,
            report,
            log,
            below=_EVERYTHING if is_in_order else mark.dispatched_offset,
            is_complete=is_in_order,
        )
        index = IndexCheck(
            store,
            report,
            log,
            below=_EVERYTHING if is_indexed_by_rocketmq else mark.indexed_offset,
            is_complete=is_indexed_by_rocketmq
            or (is_in_order and 0 < mark.indexed_offset == mark.flushed_offset),
            slot_count=self._index_slots,
        )
        requests = RequestCheck(
            store, report, log, below=_EVERYTHING if is_in_order else mark.flushed_offset
        )
        total_bytes = _total_bytes(log, mark)
        for batch in log.batches():
            queues.follow(batch)
            index.follow(batch)
            requests.follow(batch)
            report.verified_offset = batch.end_offset
            done_bytes = batch.end_offset - log.start_offset
            yield Progress(done_bytes=done_bytes, total_bytes=max(total_bytes, done_bytes))
        report.verified_offset = log.end_offset
        queues.finish()
        index.finish()
        requests.finish()
        if report.is_whole_store and not log.damaged:
            self._check_ends(log, queues, is_ours=checkpoint is not None)
        if is_in_order:
            self._check_offsets(offsets, queues)
        report.duration_ms = (measured_ns() - started_ns) // 1_000_000

    def _check_ends(self, log: LogCheck, queues: QueueCheck, *, is_ours: bool) -> None:
        """Whether the first or the last segments are missing, which the log itself cannot say."""
        store, report = self._store, self.report
        start, end = log.start_offset, log.segments_end_offset
        if in_bucket := self._in_bucket():
            start = in_bucket[0].base_offset
            report.notes.append(
                f"the log's bytes {start} to {log.start_offset} are only in the bucket with the "
                "shard's snapshots, and were not read"
            )
        late = queues.begins_late() if log.start_offset and not in_bucket else None
        if late is not None:
            what = f"the segments before it are missing, but retention did not delete them: {late}"
            report.add(Kind.SEGMENT_MISSING, COMMIT_LOG_DIR, log.start_offset, what)
            return
        try:
            reject_gaps(store, read_floors(store), log_start=start, log_end=end, is_ours=is_ours)
        except StoreCorrupt as exc:
            report.add(Kind.LOG_REJECTED, COMMIT_LOG_DIR, None, str(exc))

    def _in_bucket(self) -> list[BucketFile]:
        """The segments that are not here; none where nobody knows which those are."""
        try:
            return read_bucket_files(self._store)
        except StoreCorrupt as exc:
            self.report.add(Kind.LOG_REJECTED, BUCKET_DIR, None, str(exc))
            return []

    def _report_limits(
        self, checkpoint: Checkpoint | None, *, is_in_order: bool, is_of_rocketmq: bool
    ) -> None:
        notes = self.report.notes
        flushed = checkpoint.flushed_offset if checkpoint else 0
        if not self.report.is_whole_store:
            who = "a RocketMQ broker" if is_of_rocketmq else "an engine"
            notes.append(
                f"{who} is running on this store: the log must be whole up to "
                f"{flushed}, and was read after that as far as it is whole; queues "
                "and index were read up to the checkpoint"
            )
        elif not is_in_order and is_of_rocketmq:
            notes.append(
                "the broker did not shut down cleanly: queues and index are not "
                "compared; the next start of an engine or a broker repairs them"
            )
        elif not is_in_order:
            notes.append(
                "the last engine did not shut down cleanly, or the store was filled from a "
                "replicated log: queues and index are compared up to the checkpoint; the next "
                "start repairs the rest"
            )
        if is_of_rocketmq:
            notes.append(
                "a RocketMQ broker was the last to run on this store: it is unknown "
                "which bytes were durable"
            )
        elif checkpoint is None:
            notes.append("there is no checkpoint: it is unknown which bytes were durable")

    def _check_offsets(self, offsets: dict[tuple[str, str, int], int], queues: QueueCheck) -> None:
        for (group, topic, queue_id), offset in sorted(offsets.items()):
            max_offset = queues.max_offset(topic, queue_id)
            if offset > max_offset:
                what = f"group {group} is at {offset} of {topic}/{queue_id}, which ends at"
                self.report.add(
                    Kind.CONSUMER_OFFSET_BEYOND,
                    f"{CONFIG_DIR}/{CONSUMER_OFFSET_FILE}",
                    offset,
                    f"{what} {max_offset}",
                )


def _total_bytes(log: LogCheck, mark: Checkpoint) -> int:
    """What there is to read: durable bytes, or the disk that stands behind the segments."""
    if mark.flushed_offset > log.start_offset:
        return mark.flushed_offset - log.start_offset
    return sum(segment.size_bytes for segment in log.segments)


def main(arguments: list[str] | None = None) -> int:
    """Exit code; see the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="storage_engine.tools.verify", description="Check a store without changing anything."
    )
    parser.add_argument("store", type=Path, help="directory of the store")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.add_argument(
        "--progress", action="store_true", help="print a line of JSON for each step"
    )
    parser.add_argument(
        "--index-slots",
        type=int,
        default=os.environ.get(_SLOTS_VARIABLE),
        help="slots of an index file, where its size does not tell",
    )
    options = parser.parse_args(arguments)
    verification = Verification(options.store, index_slots=options.index_slots)
    try:
        for progress in verification.run():
            if options.progress:
                print(msgspec.json.encode(progress).decode(), flush=True)
    except (NoStore, StoreError, OSError) as exc:
        print(f"storage_engine.tools.verify: {exc}", file=sys.stderr)
        return EXIT_UNREADABLE
    report = verification.report
    if options.json:
        print(msgspec.json.encode(report).decode())
    else:
        print("\n".join(lines(report)))
    return 0 if report.is_clean else EXIT_FINDINGS


def _is_dispatched(store: Path, mark: Checkpoint) -> bool:
    """Whether the checkpoint covers all that the store has of a replicated log.

    No engine has opened a replica, or a store that has just left its log, so no mark of a run says
    that it may lack queues of what came after its checkpoint. The next start builds them.
    """
    tail = read_tail(store)
    return tail is None or mark.dispatched_offset >= tail.log_end
