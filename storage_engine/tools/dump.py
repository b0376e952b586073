"""``python -m storage_engine.tools.dump PATH``: prints the contents of store files for people.

    commitlog segment      one line a record: place, topic, queue, times, tag, keys, body
    consume queue file     one line a unit
    index file             its header, then one line an entry
    checkpoint, offsets.journal, config/*.json

A directory is dumped file by file. A damaged place of a segment is named with the reason, and the
dump goes on at the next whole record. Reads only; safe beside a running engine, which may be
writing the last record just then.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from storage_engine.delivery.offset_journal import read_entries
from storage_engine.disk import config_json
from storage_engine.disk.layout import (
    CHECKPOINT_FILE,
    CONSUME_QUEUE_DIR,
    INDEX_DIR,
    INDEX_NAME_DIGITS,
    JOURNAL_FILE,
    base_offset_of,
)
from storage_engine.disk.mapped_file import read_only
from storage_engine.errors import StoreCorrupt, StoreError
from storage_engine.log.checkpoint import read_checkpoint
from storage_engine.log.log_scan import Damage, LogEnd, Run, read_through
from storage_engine.queues.consume_queue import UNIT, UNIT_BYTES
from storage_engine.records.record import LENGTH_4, decode_record
from storage_engine.tools.verify.index import open_index

BODY_CHARACTERS: Final = 60
_STEP_UNITS: Final = 4_096


def dump(path: Path, *, index_slots: int | None = None) -> Iterator[str]:
    """Lines about one file, or about all files below a directory.

    Raises:
        FileNotFoundError: there is nothing at ``path``.
        StoreError: it is no file of a store, or not of this format.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if not path.is_dir():
        yield from _file(path.absolute(), index_slots)
        return
    for inner in sorted(path.rglob("*")):
        if inner.is_file() and _is_of_store(inner.absolute()):
            yield f"== {inner.relative_to(path)}"
            try:
                yield from _file(inner.absolute(), index_slots)
            except (OSError, StoreError) as exc:
                yield f"DAMAGED {exc}"


def _is_of_store(path: Path) -> bool:
    is_index = path.parent.name == INDEX_DIR and len(path.name) == INDEX_NAME_DIGITS
    is_small = path.name in (CHECKPOINT_FILE, JOURNAL_FILE) or path.suffix == ".json"
    return is_index or is_small or base_offset_of(path.name) is not None


def _file(path: Path, index_slots: int | None) -> Iterator[str]:
    base_offset = base_offset_of(path.name)
    if base_offset is not None and not path.stat().st_size:
        yield "empty"
    elif base_offset is not None and CONSUME_QUEUE_DIR in path.parts:
        yield from _units(path, base_offset)
    elif base_offset is not None:
        yield from _records(path, base_offset)
    elif path.name == CHECKPOINT_FILE:
        yield f"{read_checkpoint(path) or 'DAMAGED too short, or its CRC is wrong'}"
    elif path.name == JOURNAL_FILE:
        yield from _journal(path)
    elif path.suffix == ".json":
        yield from _json(path)
    elif _is_of_store(path):
        yield from _index(path, index_slots)
    else:
        raise StoreCorrupt(f"{path} is not a file of a store")


def _records(path: Path, base_offset: int) -> Iterator[str]:
    segment = read_only(path, base_offset)
    view, end = segment.view, base_offset
    for found in read_through([segment], base_offset, 0, keeps_whole=True):
        match found:
            case Run():
                for at in found.positions():
                    yield f"{base_offset + at:>20} {_record(view, at)}"
                end = base_offset + found.whole.end_at
            case Damage(start, end, reason):
                yield f"{start:>20} DAMAGED {end - start} bytes: {reason}"
            case LogEnd(offset, reason):
                left = base_offset + len(view) - end
                if offset > end:
                    yield f"{end:>20} BLANK {left} bytes"
                elif reason:
                    yield f"{offset:>20} DAMAGED {left} bytes: {reason}"
                elif left:
                    yield f"{offset:>20} end, {left} bytes free"
    segment.close()


def _record(view: memoryview, at: int) -> str:
    record = decode_record(view, at)
    record_bytes = LENGTH_4.unpack_from(view, at)[0]
    body = record.body[:BODY_CHARACTERS]
    return (
        f"{record_bytes} bytes {record.topic}/{record.queue_id}@{record.queue_offset} "
        f"born={record.born_timestamp_ms} stored={record.store_timestamp_ms} "
        f"reconsumed={record.reconsume_times} id={record.message_id!r} tag={record.tag!r} "
        f"keys={record.keys} group={record.message_group!r} properties={record.properties} "
        f"body[{len(record.body)}]={body!r}"
    )


def _units(path: Path, base_offset: int) -> Iterator[str]:
    """Units up to the last one that is not empty; runs of empty ones in between are counted."""
    queue_offset, empty = base_offset // UNIT_BYTES, 0
    with path.open("rb") as file:
        while content := file.read(_STEP_UNITS * UNIT_BYTES):
            whole_bytes = len(content) // UNIT_BYTES * UNIT_BYTES
            for physical_offset, record_bytes, tag_hash in UNIT.iter_unpack(content[:whole_bytes]):
                if record_bytes == 0 and physical_offset == 0:
                    empty += 1
                else:
                    if empty:
                        yield f"{queue_offset - empty:>20} {empty} empty units"
                        empty = 0
                    place = f"physical={physical_offset} bytes={record_bytes} tag={tag_hash}"
                    yield f"{queue_offset:>20} {place}"
                queue_offset += 1
            if whole_bytes < len(content):
                yield f"{queue_offset:>20} DAMAGED the file ends in the middle of a unit"
    if empty:
        yield f"{queue_offset - empty:>20} end, {empty} units free"


def _index(path: Path, slot_count: int | None) -> Iterator[str]:
    file = open_index(path, slot_count)
    if file is None:
        raise StoreCorrupt(f"{path}: its header, size and entries do not match; give --index-slots")
    yield f"{file.header}"
    for number, entry in enumerate(file.entries.tolist(), 1):
        key_hash, physical_offset, seconds, previous = entry
        yield (
            f"{number:>20} hash={key_hash} slot={key_hash % file.slot_count} "
            f"physical={physical_offset} seconds={seconds} previous={previous}"
        )


def _journal(path: Path) -> Iterator[str]:
    content = path.read_bytes()
    entries, names, end = read_entries(content)
    for name_id, (group, topic) in enumerate(names):
        yield f"name {name_id} is group {group} on topic {topic}"
    for entry in entries:
        yield f"{entry}" if not entry.bits else f"{replace(entry, bits=0)} bits={entry.bits:#x}"
    if end < len(content):
        yield f"{end:>20} DAMAGED {len(content) - end} bytes that are not a whole entry"


def _json(path: Path) -> Iterator[str]:
    content = path.read_bytes()
    try:
        yield msgspec.json.format(config_json.quoted(content), indent=2).decode()
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise StoreCorrupt(f"{path}: {exc}") from exc


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0, or 1 when the path cannot be dumped."""
    parser = argparse.ArgumentParser(
        prog="storage_engine.tools.dump", description="Print the contents of store files."
    )
    parser.add_argument("path", type=Path, help="a file of the store, or a directory of such files")
    parser.add_argument(
        "--index-slots", type=int, help="slots of an index file, where its size does not tell"
    )
    options = parser.parse_args(arguments)
    try:
        for line in dump(options.path, index_slots=options.index_slots):
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads on; what is still buffered must not fail at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, StoreError) as exc:
        print(f"storage_engine.tools.dump: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
