"""Copies the store of a running engine, with every acknowledged message in it.

    lease ─▶ checkpoint ─▶ Ready … StartCopy ─▶ small files at once ─▶ checkpoint, lease: the end
                                                                     └─▶ segments up to it

The order is what makes it right. The files of the log are held first, so that ``minOffsets.json``
is never behind what retention has deleted. Progress comes before the end of the log is chosen, and
the engine makes all that is visible durable in between, so that no settled offset points behind
that end. The copied checkpoint knows nothing of the time after it: recovery reads from there, so
what was moved in between is settled again by the records that say so.

The copy's own checkpoint says that the log is durable up to its end, which it is: a copy that has
lost a segment is refused, and a flipped bit costs its record. Behind the end there are zeros.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.disk.files import Files
from storage_engine.disk.layout import CHECKPOINT_FILE, COMMIT_LOG_DIR, segment_name
from storage_engine.errors import OffsetOutOfRange, StoreError
from storage_engine.log.checkpoint import read_checkpoint, write_checkpoint
from storage_engine.reader import Segment, find_extent
from storage_engine.tools.backup.file_copy import Pace, copy_file, sync_directories
from storage_engine.tools.backup.log_hold import LogHold
from storage_engine.tools.backup.protocol_lines import (
    CopiedFile,
    CopyProgress,
    CopyStarted,
    Done,
    KnownSegment,
    Line,
    Ready,
    StartCopy,
)
from storage_engine.tools.backup.small_files import FilesKeptChanging, copy_small_files
from storage_engine.wire.sync_client import StoreClient

_STEP_BYTES: Final = 64 * 1024 * 1024
_CHECKPOINTS_MAX: Final = 3  # the engine's own may come in between


class BackupFailed(Exception):
    """Why there is no copy, for a person."""


def take_backup(
    store: Path,
    target: Path,
    client: StoreClient,
    *,
    say: Callable[[Line], None],
    wait_for_go: Callable[[], StartCopy],
    pace: Pace,
) -> None:
    """Copy the store of the engine behind ``client`` into ``target``, an empty directory.

    Raises BackupFailed; ``target`` holds a part then.
    """
    try:
        _reject_other_engine(store, client)
        held = LogHold(client)
        try:
            say(Ready())
            go = wait_for_go()
            small = copy_small_files(store, target)
            client.checkpoint()
            end = held.renew(held.taken.start_offset)
            say(
                CopyStarted(
                    start_offset=end.start_offset,
                    end_offset=end.end_offset,
                    segment_bytes=end.segment_bytes,
                )
            )
            _copy_log(store, target, held, go.known, say=say, pace=pace)
        finally:
            held.release()
        small = [each for each in small if each.path != CHECKPOINT_FILE]
        for file in [*small, _write_checkpoint(target, end.end_offset)]:
            say(file)
        sync_directories(target)
        say(Done())
    except (FilesKeptChanging, StoreError, OSError) as exc:
        raise BackupFailed(str(exc)) from exc


def _reject_other_engine(store: Path, client: StoreClient) -> None:
    """A checkpoint must show in the very store that is to be copied."""
    path = store / CHECKPOINT_FILE
    for _ in range(_CHECKPOINTS_MAX):
        asked = client.checkpoint()
        found = path.stat()
        if (found.st_ino, found.st_mtime_ns) == (asked.inode, asked.mtime_ns):
            return
    raise BackupFailed(
        f"the engine that answered does not own the store in {store}; name the socket of "
        "the engine that does"
    )


def _copy_log(
    store: Path,
    target: Path,
    held: LogHold,
    known: list[KnownSegment],
    *,
    say: Callable[[Line], None],
    pace: Pace,
) -> None:
    end_offset, start_offset = held.taken.end_offset, held.taken.start_offset
    by_name = {each.name: each for each in known}
    (target / COMMIT_LOG_DIR).mkdir(mode=0o700)
    extent = find_extent(store, end_offset=end_offset)
    segments = [each for each in extent.segments if each.end_offset > start_offset]
    total_bytes = sum(min(each.end_offset, end_offset) - each.base_offset for each in segments)
    done_bytes = told_bytes = 0

    def passed(byte_count: int) -> None:
        nonlocal done_bytes, told_bytes
        done_bytes += byte_count
        held.renew_if_due(segment.base_offset)
        if done_bytes - told_bytes >= _STEP_BYTES:
            told_bytes = done_bytes
            say(CopyProgress(done_bytes=done_bytes, total_bytes=total_bytes))

    for segment in segments:
        name = segment_name(segment.base_offset)
        path = f"{COMMIT_LOG_DIR}/{name}"
        file = _linked(by_name.get(name), segment, end_offset, target / path, path)
        if file is None:
            try:
                file = copy_file(
                    Path(segment.path),
                    target / path,
                    name=path,
                    data_bytes=end_offset - segment.base_offset,
                    pace=pace,
                    passed=passed,
                )
            except FileNotFoundError as exc:
                raise OffsetOutOfRange(
                    f"{segment.path} was deleted before it was copied: the disk is "
                    "full, or the engine was restarted; start the backup again"
                ) from exc
        else:
            passed(segment.size_bytes)
        say(file)
    say(CopyProgress(done_bytes=total_bytes, total_bytes=total_bytes))


def _linked(
    known: KnownSegment | None, segment: Segment, end_offset: int, target: Path, path: str
) -> CopiedFile | None:
    """A full segment never changes: the same file as then needs no second copy."""
    if known is None or segment.end_offset > end_offset:
        return None
    stat = Path(segment.path).stat()
    there = stat.st_ino, stat.st_mtime_ns, stat.st_size
    if there != (known.source_inode, known.source_mtime_ns, known.size_bytes):
        return None
    try:
        target.hardlink_to(known.path)
    except OSError:
        return None  # on another file system, or gone
    return CopiedFile(
        path=path,
        size_bytes=known.size_bytes,
        sha256=known.sha256,
        source_inode=known.source_inode,
        source_mtime_ns=known.source_mtime_ns,
        is_linked=True,
    )


def _write_checkpoint(target: Path, end_offset: int) -> CopiedFile:
    path = target / CHECKPOINT_FILE
    mark = read_checkpoint(path)
    if mark is None:
        raise BackupFailed(f"cannot read {path}, which was just copied")
    write_checkpoint(Files(), path, msgspec.structs.replace(mark, flushed_offset=end_offset))
    path.chmod(0o600)
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return CopiedFile(path=CHECKPOINT_FILE, size_bytes=len(content), sha256=digest)
