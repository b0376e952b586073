"""Copies the store of a running engine in rounds, each of which has what was new since the last.

    lease ─▶ small files as of one moment ─▶ checkpoint, lease: the end ─▶ log from the last end on
                                                  └── queues and index up to the checkpoint ◀──┘

The order is that of a backup (``take_backup.py``), and every round leaves what a backup would: a
store from which recovery makes all that the engine had acknowledged when the round began. No byte
of the log changes below an end that the engine has said. Consume queues and index are not copied
but filled from the log as a replica does it, so that a start after the last round reads little.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    CHECKPOINT_FILE,
    COMMIT_LOG_DIR,
    base_offsets_in,
    segment_name,
)
from storage_engine.disk.small_files import is_small_file
from storage_engine.errors import OffsetOutOfRange, StoreCorrupt
from storage_engine.log.bucket_files import BucketFile, read_bucket_files
from storage_engine.log.checkpoint import decode_checkpoint, write_checkpoint
from storage_engine.reader import Segment, find_extent
from storage_engine.recovery.warm_replica import WarmReplica
from storage_engine.tools.backup.file_copy import PIECE_BYTES
from storage_engine.tools.backup.take_backup import (
    BackupFailed,
    LogHold,
    copy_small_files,
    reject_other_engine,
)
from storage_engine.wire.sync_client import StoreClient

_STEP_BYTES: Final = 64 * 1024 * 1024
_STAGED: Final = ".files"


class StoreCopy:
    """See the module's docstring. ``config``: of the copy; its directory must not be there.

    All raise ``StoreError``, ``OSError``, ``BackupFailed`` and ``FilesKeptChanging``.
    """

    def __init__(
        self,
        store: Path,
        config: StoreConfig,
        client: StoreClient,
        files: Files,
        clock: Clock,
        *,
        say: Callable[[int, int], None],
    ) -> None:
        """``say``: called with the bytes of the log that a round has copied, and has to copy."""
        reject_other_engine(store, client)
        self._store = store
        self._target = config.store_path
        self._staged = self._target.with_name(self._target.name + _STAGED)
        self._client = client
        self._files = files
        self._say = say
        self._held = LogHold(client)
        self._end_offset = self._held.taken.start_offset
        self._warm = WarmReplica(config, files, clock)
        files.make_dirs(self._target / COMMIT_LOG_DIR)

    def fetch_old(self, fetch: Callable[[BucketFile], None]) -> None:
        """Before the first round: ``fetch`` has segments in the copy that only the bucket has."""
        old = read_bucket_files(self._store)
        done_bytes, total_bytes = 0, sum(each.size_bytes for each in old)
        for file in old:
            fetch(file)
            done_bytes += file.size_bytes
            self._held.renew_if_due(self._end_offset)
            self._say(done_bytes, total_bytes)
        if old and old[-1].end_offset != self._end_offset:
            raise BackupFailed(f"{self._store} left more of its log to the bucket; try again")

    def copy(self) -> int:
        """One round. How many bytes of the log it has copied."""
        shutil.rmtree(self._staged, ignore_errors=True)
        self._files.make_dirs(self._staged)
        names = [each.path for each in copy_small_files(self._store, self._staged)]
        self._client.checkpoint()
        end_offset = self._held.renew(self._held.taken.start_offset).end_offset
        copied_bytes = self._copy_log(end_offset)
        self._end_offset = end_offset
        self._exchange_small_files(names)
        return copied_bytes

    def steps(self, start: int) -> Iterator[int]:
        """Where the segments end that the copy has above ``start``, for whoever takes long with
        each: what the source has more of its log stays there meanwhile.
        """
        for base in base_offsets_in(self._target / COMMIT_LOG_DIR):
            end = min(base + self.segment_bytes, self._end_offset)
            if max(start, base) < end:
                yield end
                self._held.renew_if_due(self._end_offset)

    @property
    def end_offset(self) -> int:
        """The copy has the log below it."""
        return self._end_offset

    @property
    def segment_bytes(self) -> int:
        return self._held.taken.segment_bytes

    def close(self) -> None:
        """Before somebody opens the copy."""
        self._warm.close()
        self._held.release()
        shutil.rmtree(self._staged, ignore_errors=True)

    def _copy_log(self, end_offset: int) -> int:
        extent = find_extent(self._store, end_offset=end_offset)
        segments = [each for each in extent.segments if each.end_offset > self._end_offset]
        total_bytes, done_bytes, told_bytes = end_offset - self._end_offset, 0, 0
        for segment in segments:
            at = max(segment.base_offset, self._end_offset)
            stop = min(segment.end_offset, end_offset)
            with self._opened(segment) as source, self._made(segment) as target:
                while at < stop:
                    place = at - segment.base_offset
                    piece = os.pread(source.fileno(), min(stop - at, PIECE_BYTES), place)
                    if not piece:
                        raise StoreCorrupt(f"{segment.path} ends at {place}, before its records do")
                    os.pwrite(target.fileno(), piece, place)
                    os.posix_fadvise(source.fileno(), place, len(piece), os.POSIX_FADV_DONTNEED)
                    at, done_bytes = at + len(piece), done_bytes + len(piece)
                    self._held.renew_if_due(segment.base_offset)
                    if done_bytes - told_bytes >= _STEP_BYTES:
                        told_bytes = done_bytes
                        self._say(done_bytes, total_bytes)
                os.fsync(target.fileno())
        return done_bytes

    def _opened(self, segment: Segment) -> FileIO:
        try:
            return open(segment.path, "rb", buffering=0)
        except FileNotFoundError as exc:
            raise OffsetOutOfRange(
                f"{segment.path} was deleted before it was copied: the disk is full, or the "
                "engine was restarted; start again"
            ) from exc

    def _made(self, segment: Segment) -> FileIO:
        path = self._target / COMMIT_LOG_DIR / segment_name(segment.base_offset)
        if not path.exists():
            self._files.create(path, segment.size_bytes, segment.size_bytes)
        return open(path, "r+b", buffering=0)

    def _exchange_small_files(self, names: list[str]) -> None:
        """The copy's by those of this round, the checkpoint last: with what is here of queues and
        index, and of the log.
        """
        for path in list(self._target.rglob("*")):
            name = str(path.relative_to(self._target))
            if is_small_file(name) and name != CHECKPOINT_FILE and name not in names:
                path.unlink()
        for name in names:
            if name != CHECKPOINT_FILE:
                self._files.make_dirs((self._target / name).parent)
                os.replace(self._staged / name, self._target / name)
        content = self._warm.localize((self._staged / CHECKPOINT_FILE).read_bytes())
        path = self._target / CHECKPOINT_FILE
        mark = decode_checkpoint(content, path)
        if mark is None:
            raise StoreCorrupt(f"cannot read {path}, which was just copied")
        mark = msgspec.structs.replace(mark, flushed_offset=self._end_offset)
        write_checkpoint(self._files, path, mark)
