"""``python -m storage_engine.dump PATH``: what stands in a file of the store, for people.

    commitlog segment       one line a record: place, topic, queue, times, tag, keys, body
    consume queue file      one line a unit
    checkpoint, offsets.journal, config/*.json

A directory is dumped file by file. Reads only; safe beside a running engine, which may be writing
the last record just then.
"""

from __future__ import annotations

import argparse
import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from storage_engine.checkpoint import read_checkpoint
from storage_engine.consume_queue import UNIT, UNIT_BYTES
from storage_engine.errors import StoreCorrupt
from storage_engine.layout import (
    CHECKPOINT_FILE,
    COMMIT_LOG_DIR,
    CONSUME_QUEUE_DIR,
    JOURNAL_FILE,
    base_offset_of,
)
from storage_engine.offset_journal import read_entries
from storage_engine.record import BLANK, MAGIC_BLANK, decode_record, verify_record

BODY_CHARACTERS: Final = 60


def dump(path: Path) -> Iterator[str]:
    """Lines about one file, or about all files below a directory.

    Raises:
        FileNotFoundError: there is nothing at ``path``.
        StoreCorrupt: it is no file of a store.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_dir():
        for inner in sorted(path.rglob("*")):
            if inner.is_file() and _kind(inner) is not None:
                yield f"== {inner.relative_to(path)}"
                yield from dump(inner)
        return
    kind = _kind(path)
    if kind == COMMIT_LOG_DIR:
        yield from _segment(path)
    elif kind == CONSUME_QUEUE_DIR:
        yield from _units(path)
    elif kind == CHECKPOINT_FILE:
        yield f"{read_checkpoint(path)}"
    elif kind == JOURNAL_FILE:
        for entry in read_entries(path.read_bytes())[0]:
            yield f"{entry}"
    elif kind == "json":
        yield path.read_text()
    else:
        raise StoreCorrupt(f"{path} is no file of a store")


def _kind(path: Path) -> str | None:
    if base_offset_of(path.name) is not None:
        return CONSUME_QUEUE_DIR if CONSUME_QUEUE_DIR in path.parts else COMMIT_LOG_DIR
    if path.name in (CHECKPOINT_FILE, JOURNAL_FILE):
        return path.name
    return "json" if path.suffix == ".json" else None


def _segment(path: Path) -> Iterator[str]:
    base_offset = base_offset_of(path.name)
    assert base_offset is not None
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
        memoryview(mapped) as content,
    ):
        yield from _records(content, base_offset)


def _records(content: memoryview, base_offset: int) -> Iterator[str]:
    at = 0
    while at + BLANK.size <= len(content):
        size, magic = BLANK.unpack_from(content, at)
        if magic == MAGIC_BLANK:
            yield f"{base_offset + at:>20} BLANK {size} bytes"
            return
        if size == 0 and magic == 0:
            yield f"{base_offset + at:>20} end, {len(content) - at} bytes free"
            return
        try:
            head = verify_record(content, at)
        except StoreCorrupt as exc:
            yield f"{base_offset + at:>20} DAMAGED {exc}"
            return
        record = decode_record(content, at)
        body = record.body[:BODY_CHARACTERS]
        yield (
            f"{base_offset + at:>20} {head.record_bytes} bytes {record.topic}/{record.queue_id}"
            f"@{record.queue_offset} born={record.born_timestamp_ms} "
            f"stored={record.store_timestamp_ms} reconsumed={record.reconsume_times} "
            f"id={record.message_id} tag={record.tag} keys={record.keys} "
            f"properties={record.properties} body[{len(record.body)}]={body!r}"
        )
        at += head.record_bytes


def _units(path: Path) -> Iterator[str]:
    base_offset = base_offset_of(path.name)
    assert base_offset is not None
    first = base_offset // UNIT_BYTES
    for index, (physical_offset, record_bytes, tag_hash) in enumerate(
        UNIT.iter_unpack(path.read_bytes())
    ):
        if record_bytes == 0:
            return
        yield f"{first + index:>20} physical={physical_offset} bytes={record_bytes} tag={tag_hash}"


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0, or 1 when the path cannot be dumped."""
    parser = argparse.ArgumentParser(prog="storage_engine.dump", description="Show store files.")
    parser.add_argument("path", type=Path, help="a file of the store, or a directory of them")
    path = parser.parse_args(arguments).path
    try:
        for line in dump(path):
            print(line)
    except BrokenPipeError:
        return 0
    except (OSError, StoreCorrupt) as exc:
        print(f"storage_engine.dump: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
