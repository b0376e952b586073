"""Ways to damage a stopped store, each with the findings that it must have."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from storage_engine.tools.verify.report import Kind
from tests.storage_engine.doubles import SEGMENT_BYTES, UNITS
from tests.storage_engine.independent_reader import StoredRecord, read_log
from tests.storage_engine.recovering import log_path

Found = list[tuple[Kind, int | None]]
_QUEUE_FILE_BYTES: Final = UNITS * 20


def records(store_dir: Path) -> list[StoredRecord]:
    return list(read_log(store_dir))


def flip(path: Path, at: int, mask: int = 0x10) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= mask
    path.write_bytes(bytes(content))


def queue_file(store_dir: Path, queue_id: int, number: int) -> Path:
    directory = store_dir / "consumequeue" / "t" / str(queue_id)
    return directory / f"{number * _QUEUE_FILE_BYTES:020d}"


def remove_segment(store_dir: Path) -> Found:
    (store_dir / "commitlog" / f"{SEGMENT_BYTES:020d}").unlink()
    return [(Kind.SEGMENT_MISSING, SEGMENT_BYTES)]


def remove_first_segment(store_dir: Path) -> Found:
    (store_dir / "commitlog" / f"{0:020d}").unlink()
    return [(Kind.SEGMENT_MISSING, SEGMENT_BYTES)]


def remove_last_segment(store_dir: Path) -> Found:
    path = max((store_dir / "commitlog").iterdir())
    path.unlink()
    return [(Kind.LOG_TOO_SHORT, int(path.name))]


def remove_all_segments(store_dir: Path) -> Found:
    for path in (store_dir / "commitlog").iterdir():
        path.unlink()
    return [(Kind.LOG_TOO_SHORT, 0)]


def truncate_segment(store_dir: Path) -> Found:
    path = store_dir / "commitlog" / f"{SEGMENT_BYTES:020d}"
    path.write_bytes(path.read_bytes()[:1_000])
    return [(Kind.SEGMENT_TRUNCATED, 1_000)]


def truncate_last_segment(store_dir: Path) -> Found:
    path = max((store_dir / "commitlog").iterdir())
    path.write_bytes(path.read_bytes()[:100])
    return [(Kind.SEGMENT_TRUNCATED, 100)]


def zero_a_record(store_dir: Path) -> Found:
    record = records(store_dir)[5]
    path, at = log_path(store_dir, record.physical_offset)
    content = path.read_bytes()
    path.write_bytes(
        content[:at] + bytes(record.record_bytes) + content[at + record.record_bytes :]
    )
    return [(Kind.RECORD_DAMAGED, record.physical_offset)]


def write_behind_the_end(store_dir: Path) -> Found:
    record = records(store_dir)[-1]
    end = record.physical_offset + record.record_bytes
    path, at = log_path(store_dir, end)
    flip(path, at)
    return [(Kind.LOG_TAIL, end)]


def exchange_unit(store_dir: Path) -> Found:
    flip(queue_file(store_dir, 1, 1), 20 + 11)  # size of unit 5
    return [(Kind.UNIT_WRONG, 5)]


def exchange_tag_hash(store_dir: Path) -> Found:
    flip(queue_file(store_dir, 0, 0), 19)
    return [(Kind.UNIT_WRONG, 0)]


def put_unit_beyond(store_dir: Path) -> Found:
    path = queue_file(store_dir, 0, 2)
    content = path.read_bytes()
    path.write_bytes(content[:40] + struct.pack(">qiq", 1 << 40, 100, 0) + content[60:])
    return [(Kind.UNIT_BEYOND_LOG, 10)]


def repeat_unit(store_dir: Path) -> Found:
    path = queue_file(store_dir, 0, 2)
    content = path.read_bytes()
    path.write_bytes(content[:40] + content[20:40] + content[60:])
    return [(Kind.UNIT_WRONG, 10)]


def remove_queue_file(store_dir: Path) -> Found:
    queue_file(store_dir, 0, 1).unlink()
    return [(Kind.QUEUE_FILE_MISSING, 4)]


def remove_last_queue_file(store_dir: Path) -> Found:
    queue_file(store_dir, 1, 2).unlink()
    return [(Kind.QUEUE_FILE_MISSING, 8)]


def remove_queue(store_dir: Path) -> Found:
    for path in (store_dir / "consumequeue" / "t" / "1").iterdir():
        path.unlink()
    return [(Kind.QUEUE_FILE_MISSING, 0)]


def truncate_queue_file(store_dir: Path) -> Found:
    path = queue_file(store_dir, 0, 1)
    path.write_bytes(path.read_bytes()[:40])
    return [(Kind.QUEUE_FILE_TRUNCATED, 2)]


def index_file(store_dir: Path, number: int) -> Path:
    return sorted((store_dir / "index").iterdir())[number]


def entry_at(number: int) -> int:
    return 40 + 5 * 4 + number * 20


def exchange_index_hash(store_dir: Path) -> Found:
    """A hash that is five more has the same slot, so that only the entry is wrong."""
    path = index_file(store_dir, 1)
    content = bytearray(path.read_bytes())
    at = entry_at(3)
    content[at : at + 4] = ((int.from_bytes(content[at : at + 4]) + 5) % 0x7FFF_FFFC).to_bytes(4)
    path.write_bytes(bytes(content))
    return [(Kind.INDEX_ENTRY_WRONG, 3)]


def exchange_index_place(store_dir: Path) -> Found:
    flip(index_file(store_dir, 0), entry_at(2) + 11)
    return [(Kind.INDEX_ENTRY_WRONG, 2)]


def exchange_index_slot(store_dir: Path) -> Found:
    flip(index_file(store_dir, 0), 43, 1)
    return [(Kind.INDEX_SLOT_WRONG, 0)]


def exchange_index_link(store_dir: Path) -> Found:
    flip(index_file(store_dir, 0), entry_at(7) + 19, 1)
    return [(Kind.INDEX_SLOT_WRONG, 7)]


def remove_index_file(store_dir: Path) -> Found:
    index_file(store_dir, 1).unlink()
    return [(Kind.INDEX_ENTRY_MISSING, records(store_dir)[7].physical_offset)]


def remove_index(store_dir: Path) -> Found:
    for path in (store_dir / "index").iterdir():
        path.unlink()
    return [(Kind.INDEX_ENTRY_MISSING, 0)]


def truncate_index_file(store_dir: Path) -> Found:
    path = index_file(store_dir, 2)
    path.write_bytes(path.read_bytes()[:100])
    return [(Kind.INDEX_UNREADABLE, None)]


def flip_checkpoint(store_dir: Path) -> Found:
    flip(store_dir / "checkpoint", 30)
    return [(Kind.CHECKPOINT_DAMAGED, None)]


def move_consumer_offset(store_dir: Path) -> Found:
    path = store_dir / "config" / "consumerOffset.json"
    path.write_text('{"offsetTable":{"t@g":{"0":11,"1":10},"gone@g":{"0":0}}}')
    return [(Kind.CONSUMER_OFFSET_BEYOND, 11)]


def tear_journal(store_dir: Path) -> Found:
    path = store_dir / "offsets.journal"
    path.write_bytes(path.read_bytes() + b"torn")
    return [(Kind.JOURNAL_DAMAGED, path.stat().st_size - 4)]


def damage_config(store_dir: Path) -> Found:
    (store_dir / "config" / "topics.json").write_text("{")
    return [(Kind.CONFIG_DAMAGED, None)]


def leave_stray_files(store_dir: Path) -> Found:
    for name in ("commitlog/readme", "core", "index/x", "consumequeue/t/0/0", "config/a.txt"):
        path = store_dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    return [(Kind.STRAY_FILE, None)] * 5


def leave_temporary_files(store_dir: Path) -> Found:
    (store_dir / "config" / "topics.json.tmp").write_text("x")
    (store_dir / "offsets.journal.next").write_text("x")
    return [(Kind.TEMPORARY_FILE, None)] * 2


DAMAGES: Final[list[Callable[[Path], Found]]] = [
    remove_segment,
    remove_first_segment,
    remove_last_segment,
    remove_all_segments,
    truncate_segment,
    truncate_last_segment,
    zero_a_record,
    write_behind_the_end,
    exchange_unit,
    exchange_tag_hash,
    put_unit_beyond,
    repeat_unit,
    remove_queue_file,
    remove_last_queue_file,
    remove_queue,
    truncate_queue_file,
    exchange_index_hash,
    exchange_index_place,
    exchange_index_slot,
    exchange_index_link,
    remove_index_file,
    remove_index,
    truncate_index_file,
    flip_checkpoint,
    move_consumer_offset,
    tear_journal,
    damage_config,
    leave_stray_files,
    leave_temporary_files,
]
# What the engine makes good by itself when it is started.
MENDED_BY_A_START: Final = [
    put_unit_beyond,
    repeat_unit,
    remove_queue_file,
    remove_last_queue_file,
    remove_queue,
    truncate_queue_file,
    remove_index_file,
    remove_index,
    truncate_index_file,
    flip_checkpoint,
    move_consumer_offset,
    tear_journal,
]
