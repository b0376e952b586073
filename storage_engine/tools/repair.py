"""``python -m storage_engine.tools.repair STORE --cut-at OFFSET``: cuts off the end of a log.

    log behind OFFSET ── copied, synced ──▶ STORE.cut-OFFSET/ beside the store
                      └─ then overwritten with zeros, newest segment first

For a store that the engine refuses because bytes stand behind the log's last whole record that it
may not cut by itself (``recovery.py``). Nothing is changed before all that goes is durable beside
the store; a stop in between leaves a store that can be repaired again in the same way. Consume
queues and index files follow at the next start.

Exit codes: 0 done, 2 it cannot be done, 3 an engine or a broker has the store open.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from storage_engine.config import GIB
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CHECKPOINT_FILE, COMMIT_LOG_DIR, segment_name
from storage_engine.disk.lock import StoreLock
from storage_engine.disk.mapped_file import MappedFile
from storage_engine.disk.mapped_files import MappedFiles, file_size_of
from storage_engine.errors import BadRequest, StoreError, StoreInUse
from storage_engine.log.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from storage_engine.log.log_scan import Damage, LogEnd, Run, read_through

EXIT_REFUSED: Final = 2
EXIT_IN_USE: Final = 3


class Cut(NamedTuple):
    """``saved_in``: the directory with what was cut; None where nothing was there to cut."""

    cut_bytes: int
    saved_in: Path | None


def cut_log(store: Path, cut_at: int, files: Files) -> Cut:
    """Let the log of a store that nobody has open end at a physical offset.

    What stood behind it, up to the last byte that is not zero, is kept in a new directory beside
    the store: a file for each segment, named by the physical offset of its first byte.

    Raises:
        StoreInUse: an engine or a broker has it open.
        BadRequest: no record of the log begins or ends there.
        StoreCorrupt: segments are missing, or a newer engine wrote the store.
        DiskFull: there is no room for what is cut; nothing is changed.
    """
    directory = store / COMMIT_LOG_DIR
    if not directory.is_dir():
        raise BadRequest(f"{store} is not a store: it has no {COMMIT_LOG_DIR}")
    lock = StoreLock(store)
    lock.acquire()
    try:
        checkpoint = read_checkpoint(store / CHECKPOINT_FILE)
        run = MappedFiles(files, directory, file_size_of(directory, GIB))
        run.open_read_only()
        try:
            return _cut(store, cut_at, files, run, checkpoint)
        finally:
            run.close()
    finally:
        lock.release()


def _cut(
    store: Path, cut_at: int, files: Files, run: MappedFiles, checkpoint: Checkpoint | None
) -> Cut:
    segment = run.find(cut_at)
    if segment is None:
        raise BadRequest(f"the log goes from {run.start_offset} to {run.end_offset}")
    _check_border(segment, cut_at)
    pieces = []
    for file in run.files:
        start = max(cut_at - file.base_offset, 0)
        if start < file.present_bytes and (end := file.nonzero_end(start)) > start:
            pieces.append((file, start, end))
    if not pieces:
        return Cut(0, None)
    kept_in = _save_removed_bytes(store, cut_at, files, pieces)
    if checkpoint is not None:
        # Else the next start would miss what was durable. Queues and index are built again.
        flushed_offset = min(checkpoint.flushed_offset, cut_at)
        stamp = checkpoint.store_timestamp_ms
        mark = Checkpoint(flushed_offset=flushed_offset, store_timestamp_ms=stamp)
        write_checkpoint(files, store / CHECKPOINT_FILE, mark)
    for file, start, _ in reversed(pieces):
        file.zero_after(start)
    return Cut(sum(end - start for _, start, end in pieces), kept_in)


def _check_border(segment: MappedFile, cut_at: int) -> None:
    """Raises ``BadRequest``: a record of the segment goes on at both sides of ``cut_at``."""
    base_offset = segment.base_offset
    borders = [base_offset]
    for found in read_through([segment], base_offset, 0, keeps_whole=True):
        match found:
            case Run():
                borders += [base_offset + at for at in found.positions()]
            case Damage() as damage:
                borders.append(damage.start)
            case LogEnd(offset):
                borders.append(offset)
    borders.append(base_offset + segment.size_bytes)
    if cut_at not in borders:
        following = bisect_left(borders, cut_at)
        raise BadRequest(
            f"{cut_at} is inside the record from {borders[following - 1]} "
            f"to {borders[following]}; cut at one of these offsets"
        )


def _save_removed_bytes(
    store: Path, cut_at: int, files: Files, pieces: list[tuple[MappedFile, int, int]]
) -> Path:
    """Copy what goes to a new directory beside the store; durable on return."""
    number, kept_in = 1, store.with_name(f"{store.name}.cut-{cut_at}")
    while kept_in.exists():
        number += 1
        kept_in = store.with_name(f"{store.name}.cut-{cut_at}.{number}")
    files.make_dirs(kept_in)
    try:
        for file, start, end in pieces:
            name = segment_name(file.base_offset + start)
            files.create(kept_in / name, end - start, end - start, file.view[start:end])
        checkpoint = store / CHECKPOINT_FILE
        if checkpoint.exists():
            files.replace(kept_in / CHECKPOINT_FILE, checkpoint.read_bytes())
        about = {"store": str(store), "cutAt": cut_at, "files": len(pieces)}
        files.replace(kept_in / "cut.json", msgspec.json.encode(about))
    except BaseException:
        for path in kept_in.iterdir():
            files.unlink(path)
        kept_in.rmdir()
        raise
    return kept_in


def main(arguments: list[str] | None = None) -> int:
    """Exit code; see the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="storage_engine.tools.repair",
        description=(
            "Cut off the end of a store's log; what is cut off is kept in files beside the store."
        ),
    )
    parser.add_argument("store", type=Path, help="the store's directory")
    parser.add_argument(
        "--cut-at",
        type=int,
        required=True,
        help="physical offset, as named in the error of the engine or by verify",
    )
    options = parser.parse_args(arguments)
    store = options.store.absolute()
    try:
        cut = cut_log(store, options.cut_at, Files())
    except StoreInUse as exc:
        print(f"storage_engine.tools.repair: {exc}", file=sys.stderr)
        return EXIT_IN_USE
    except (StoreError, OSError) as exc:
        print(f"storage_engine.tools.repair: {exc}", file=sys.stderr)
        return EXIT_REFUSED
    if cut.saved_in is None:
        print(f"There is nothing after {options.cut_at}; nothing was changed.")
    else:
        print(f"The log now ends at {options.cut_at}.")
        print(f"The {cut.cut_bytes} bytes after it are kept in {cut.saved_in}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
