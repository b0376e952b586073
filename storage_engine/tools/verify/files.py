"""Checks the small files of a store, and files that no engine put there.

    checkpoint, offsets.journal, config/*.json, names of all files ──▶ [verify_files] ──▶ Report

Consumer offsets are read first and compared when the ends of the queues are known. Only reads.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from storage_engine.delivery.consumer_offsets import is_saved_by_rocketmq
from storage_engine.delivery.offset_journal import ENTRY_BYTES, NEXT_SUFFIX, read_entries
from storage_engine.disk import config_json
from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    ABORT_FILE,
    BUCKET_DIR,
    CHECKPOINT_FILE,
    COMMIT_LOG_DIR,
    CONFIG_DIR,
    CONSUME_QUEUE_DIR,
    CONSUMER_OFFSET_FILE,
    DEDUP_DIR,
    INDEX_DIR,
    INDEX_NAME_DIGITS,
    JOURNAL_FILE,
    LOCK_FILE,
    MIN_OFFSETS_FILE,
    REPLICATION_FILE,
    RESERVE_FILE,
    SHARD_FILE,
    SPARE_FILE,
    TEMPORARY_SUFFIX,
    base_offset_of,
)
from storage_engine.disk.run_mark import RunMark
from storage_engine.errors import StoreCorrupt
from storage_engine.log.checkpoint import Checkpoint, is_of_rocketmq
from storage_engine.tools.verify.report import Kind, Report

Offsets = dict[tuple[str, str, int], int]  # (group, topic, queue id) → consumer offset
_TOP_FILES: Final = frozenset(
    {
        CHECKPOINT_FILE, JOURNAL_FILE, ABORT_FILE, LOCK_FILE, RESERVE_FILE, SPARE_FILE,
        SHARD_FILE, REPLICATION_FILE,
    }
)  # fmt: skip
_CONFIG_SUFFIXES: Final = (".json", ".json.bak")
# What a RocketMQ broker keeps beside the files that both write. This engine neither reads nor
# changes it, so there is nothing to compare it with (``StorePathConfigHelper``,
# ``BrokerPathConfigHelper``, and what broker 5.4.0 leaves behind).
_ROCKETMQ_FILES: Final = frozenset({"abort.bak", "timerwheel", "timerwheel.bak"})
_ROCKETMQ_CONFIG: Final = frozenset({"timercheck", "timermetrics", "transactionMetrics"})
_ROCKETMQ_DIRS: Final = frozenset(
    {
        "batchconsumequeue",
        "compaction",
        "consumequeue_ext",
        "consumequeue_r",
        "kvStore",
        "rocksdbstore",
        "timerlog",
        "transaction",
    }
)
_EPOCH_FILE: Final = "epoch"
_LOCK_KINDS: Final = frozenset({"FLOCK", "POSIX"})


def is_engine_running(store: Path) -> bool:
    """Whether a process holds the store's lock; asked of the kernel, without touching the lock."""
    try:
        stat = (store / LOCK_FILE).stat()
        holder = (store / LOCK_FILE).read_text(errors="replace").strip()
        locks = Path("/proc/locks").read_text()
    except OSError:
        return False
    # "1: FLOCK ADVISORY WRITE pid major:minor:inode 0 EOF", with "->" in front for one that waits.
    # Some file systems show another device there than stat does; then the process must be the one
    # that the lock file names.
    device = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}"
    for line in locks.splitlines():
        fields = line.split()
        # RocketMQ's lock is of another kind than ours.
        if len(fields) != 8 or fields[1] not in _LOCK_KINDS:
            continue
        locked_device, _, inode = fields[5].rpartition(":")
        if inode == str(stat.st_ino) and (locked_device == device or fields[4] == holder):
            return True
    return False


def check_checkpoint(store: Path, report: Report, checkpoint: Checkpoint | None) -> None:
    """``checkpoint``: as read; a finding when there is a file and it cannot be believed.

    After a RocketMQ broker ran on the store there is none to believe: its own says nothing that
    could be compared, and ours, where a kill left it, is of before.
    """
    path = store / CHECKPOINT_FILE
    if path.exists():
        report.count("checkpoint").file_count = 1
        report.count("checkpoint").byte_count = path.stat().st_size
        if checkpoint is None and not was_left_by_rocketmq(store, checkpoint):
            what = "it is too short, or its CRC is wrong"
            report.add(Kind.CHECKPOINT_DAMAGED, CHECKPOINT_FILE, None, what)


def was_left_by_rocketmq(store: Path, checkpoint: Checkpoint | None) -> bool:
    """Whether a broker ran on the store after this engine, as the engine judges it at a start."""
    if RunMark(Files(), store).is_of_rocketmq():
        return True
    if checkpoint is not None:
        return False
    if is_of_rocketmq(store / CHECKPOINT_FILE):
        return True
    try:
        return is_saved_by_rocketmq(store / CONFIG_DIR / CONSUMER_OFFSET_FILE)
    except StoreCorrupt:
        return False  # which is a finding of its own


def check_config(store: Path, report: Report) -> None:
    """Every table of ``config/`` can be read as JSON."""
    count = report.count("config")
    for path in sorted((store / CONFIG_DIR).glob("*.json")):
        count.file_count += 1
        content = path.read_bytes()
        count.byte_count += len(content)
        try:
            config_json.decode(content, object, path)
        except StoreCorrupt as exc:
            report.add(Kind.CONFIG_DAMAGED, f"{CONFIG_DIR}/{path.name}", None, str(exc))


def read_floors(store: Path) -> dict[str, list[int]]:
    """Where retention let each queue begin, by topic; empty when it never deleted anything."""
    table = _table(store / CONFIG_DIR / MIN_OFFSETS_FILE)
    return {topic: offsets for topic, offsets in table.items() if isinstance(offsets, list)}


def read_offsets(store: Path, report: Report) -> Offsets:
    """Consumer offsets of all groups: the table, and the journal over it."""
    offsets: Offsets = {}
    for name, by_queue in _table(store / CONFIG_DIR / CONSUMER_OFFSET_FILE).items():
        topic, _, group = name.partition("@")
        for queue_id, offset in by_queue.items():
            offsets[group, topic, int(queue_id)] = int(offset)
    path = store / JOURNAL_FILE
    if not path.exists():
        return offsets
    content = path.read_bytes()
    try:
        entries, _, end = read_entries(content)
    except (IndexError, UnicodeDecodeError):
        report.add(Kind.JOURNAL_DAMAGED, JOURNAL_FILE, None, "an entry has no group name")
        return offsets
    count = report.count("journal")
    count.file_count, count.byte_count, count.item_count = 1, len(content), len(entries)
    if end < len(content) and report.is_whole_store:
        what = f"the {len(content) - end} bytes from here on are not a whole entry of {ENTRY_BYTES}"
        report.add(Kind.JOURNAL_DAMAGED, JOURNAL_FILE, end, what)
    for entry in entries:
        if entry.is_dropped:
            gone = [key for key in offsets if key[:2] == (entry.group, entry.topic)]
            for key in gone:
                del offsets[key]
            continue
        if entry.filter is not None:
            continue
        key = entry.group, entry.topic, entry.queue_id
        if entry.is_reset:
            offsets[key] = entry.first
        elif not (entry.is_lease_floor or entry.is_failed):
            reached = entry.first + (0 if entry.is_position else entry.count)
            offsets[key] = max(offsets.get(key, 0), reached)
    return offsets


def _table(path: Path) -> dict[str, Any]:  # reason: JSON that check_config has judged already
    try:
        content = config_json.decode(path.read_bytes(), dict[str, Any], path)
        table = content["offsetTable"]
    except (FileNotFoundError, StoreCorrupt, KeyError):
        return {}
    return table if isinstance(table, dict) else {}


def check_names(store: Path, report: Report) -> None:
    """Every file has a name and a place that an engine or a RocketMQ broker gives; beside a
    running engine, leftovers are in use.
    """
    theirs: dict[str, None] = {}
    for path in sorted(store.rglob("*")):
        if path.is_dir():
            continue
        parts = path.relative_to(store).parts
        name = "/".join(parts)
        if owner := _rocketmq_name(parts):
            theirs[owner] = None
            count = report.count("RocketMQ's own")
            count.file_count += 1
            count.byte_count += path.stat().st_size
        elif name.endswith((TEMPORARY_SUFFIX, NEXT_SUFFIX)):
            if report.is_whole_store:
                report.add(Kind.TEMPORARY_FILE, name, None, f"{path.stat().st_size} bytes")
        elif not _is_known(parts):
            report.add(Kind.STRAY_FILE, name, None, f"{path.stat().st_size} bytes")
    if theirs:
        names = ", ".join(theirs)
        report.notes.append(f"these files belong to RocketMQ and are not checked: {names}")


def _rocketmq_name(parts: tuple[str, ...]) -> str:
    """The file or directory of RocketMQ's own that it belongs to; empty for every other file."""
    match parts:
        case (name,) if name in _ROCKETMQ_FILES:
            return name
        case (directory, _, *_) if directory in _ROCKETMQ_DIRS:
            return f"{directory}/"
        case (directory, name) if directory == CONFIG_DIR:
            plain = name.removesuffix(".bak")
            return f"{directory}/{plain}" if plain in _ROCKETMQ_CONFIG else ""
    return ""


def _is_known(parts: tuple[str, ...]) -> bool:
    match parts:
        case (name,):
            return name in _TOP_FILES
        case (directory, name) if directory == COMMIT_LOG_DIR:
            return base_offset_of(name) is not None
        case (directory, _, queue_id, name) if directory == CONSUME_QUEUE_DIR:
            return queue_id.isdecimal() and base_offset_of(name) is not None
        case (directory, name) if directory == INDEX_DIR:
            return len(name) == INDEX_NAME_DIGITS and name.isdecimal()
        case (directory, name) if directory == DEDUP_DIR:
            return name.isdecimal()
        case (directory, name) if directory == BUCKET_DIR:
            base, _, suffix = name.partition(".")
            return base_offset_of(base) is not None and suffix in ("json", "part")
        case (directory, name) if directory == CONFIG_DIR:
            return name == _EPOCH_FILE or name.endswith(_CONFIG_SUFFIXES)
    return False
