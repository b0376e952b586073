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

import contextlib
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.clock import measured_ns
from storage_engine.delivery.offset_journal import read_entries
from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    CHECKPOINT_FILE,
    COMMIT_LOG_DIR,
    JOURNAL_FILE,
    segment_name,
)
from storage_engine.disk.small_files import FilesKeptChanging, at_one_moment
from storage_engine.errors import OffsetOutOfRange, StoreError
from storage_engine.log.bucket_files import reject_bucket_files
from storage_engine.log.checkpoint import read_checkpoint, write_checkpoint
from storage_engine.reader import Segment, find_extent
from storage_engine.tools.backup.file_copy import Pace, copy_file, sync_directories, write_file
from storage_engine.tools.backup.protocol_lines import (
    CopiedFile,
    CopyStarted,
    Done,
    KnownSegment,
    Ready,
    StartCopy,
)
from storage_engine.tools.program_lines import Line, ProgressLine
from storage_engine.wire.snapshots import SnapshotRelease, SnapshotReply, SnapshotRequest
from storage_engine.wire.sync_client import StoreClient

_STEP_BYTES: Final = 64 * 1024 * 1024
_CHECKPOINTS_MAX: Final = 3  # the engine's own may come in between


LEASE_MS = 600_000
_RENEW_AFTER_NS = 60_000_000_000


def copy_small_files(store: Path, target: Path) -> list[CopiedFile]:
    """Copy every file but the log, all as of one moment; some milliseconds, durable on return.

    When none was replaced between two looks, the copy is what a kill in between would have left,
    and that is what recovery is made for; else it begins again.

    Raises:
        FilesKeptChanging: 500 attempts within some ten seconds met changes.
        OSError: a file cannot be read or written.
    """

    def drop(names: Iterable[str]) -> None:
        for name in names:
            (target / name).unlink(missing_ok=True)

    return at_one_moment(store, lambda names: [_copy(store, target, each) for each in names], drop)


def _copy(store: Path, target: Path, path: str) -> CopiedFile:
    (target / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path != JOURNAL_FILE:
        return copy_file(store / path, target / path, name=path)
    # An entry that is being written just now is no entry yet.
    content = (store / path).read_bytes()
    return write_file(target / path, content[: read_entries(content)[2]], name=path)


class LogHold:
    """Holds a snapshot of the log in the engine for as long as a copy takes.

    [LogHold] ── snapshot, each few minutes a new one ──▶ engine: retention waits

    A lease is short, so that a copier that dies holds nothing for long, and is taken anew well
    before its end. An engine that is away meanwhile deletes nothing; one that came back may,
    and then a file is missing, which whoever copies it finds out.

    ``taken`` is what the engine said last."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client
        self.taken = client.snapshot(SnapshotRequest(lease_ms=LEASE_MS))
        self._taken_ns = measured_ns()

    def renew(self, start_offset: int) -> SnapshotReply:
        """A new lease, from ``start_offset`` on, instead of the one before. Raises StoreError."""
        before = self.taken.snapshot_id
        request = SnapshotRequest(lease_ms=LEASE_MS, start_offset=start_offset)
        self.taken = self._client.snapshot(request)
        self._taken_ns = measured_ns()
        self._client.snapshot_release(SnapshotRelease(snapshot_id=before))
        return self.taken

    def renew_if_due(self, start_offset: int) -> None:
        """To be called often: takes a new lease when the one held grows old."""
        if measured_ns() - self._taken_ns < _RENEW_AFTER_NS:
            return
        try:
            self.renew(start_offset)
        except StoreError:
            self._taken_ns = measured_ns()  # the engine is away: asked again in a while

    def release(self) -> None:
        """End the lease; where the engine is away it ends by itself."""
        with contextlib.suppress(StoreError):
            self._client.snapshot_release(SnapshotRelease(snapshot_id=self.taken.snapshot_id))


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
        reject_other_engine(store, client)
        reject_bucket_files(store)
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


def reject_other_engine(store: Path, client: StoreClient) -> None:
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
            say(ProgressLine(done_bytes=done_bytes, total_bytes=total_bytes))

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
    say(ProgressLine(done_bytes=total_bytes, total_bytes=total_bytes))


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
