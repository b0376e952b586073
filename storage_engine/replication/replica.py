"""Writes what entries hold into the files of a store: the same bytes, in the same files, in order.

    replicated log ── entry ──▶ [Replica] ──▶ commitlog/…, config/…, offsets.journal, …

Nothing is understood here: recovery makes a store of the files when this one takes over. An entry
that is not the next one is refused. Small files wait until they are to be written: of those that
many entries replace one after the other, the last one counts. Where the process ends in between,
entries are applied again from the last place that was written down, which changes nothing: each
says where its bytes belong. A former owner's small files stay as they are until all those of the
next owner have come, and are then exchanged for them. Any thread, one at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    CHECKPOINT_FILE,
    COMMIT_LOG_DIR,
    CONFIG_DIR,
    REPLICATION_FILE,
    base_offsets_in,
    segment_name,
)
from storage_engine.disk.small_files import identities
from storage_engine.errors import StoreCorrupt
from storage_engine.log.bucket_files import (
    BucketFile,
    bucket_path,
    delete_left,
    forget_before,
    write_bucket_files,
)
from storage_engine.log.checkpoint import read_checkpoint, replace_checkpoint
from storage_engine.replicated_log.port import Position
from storage_engine.replication.cut_off import data_beyond
from storage_engine.replication.entry import Kind, ReplicatedEntry, Section
from storage_engine.replication.pending_files import PendingFile, PendingFiles, merged
from storage_engine.replication.tail import Tail, read_tail, write_tail

_ZEROS: Final = bytes(1024 * 1024)


class Derived(Protocol):
    """What is made of the log besides the files that entries hold: ``recovery/warm_replica.py``.
    None of it raises: whoever takes over makes what is missing.
    """

    def localize(self, content: bytes) -> bytes:
        """A checkpoint of the owner, as it is right for what was made here."""

    def cut(self, offset: int) -> None:
        """Have nothing of the log from there on."""

    def forget(self) -> None:
        """Have nothing at all."""

    def close(self) -> None:
        """Let go of the files."""


class NothingDerived:
    """Whoever takes over makes all of it."""

    def localize(self, content: bytes) -> bytes:
        return content

    def cut(self, offset: int) -> None:
        pass

    def forget(self) -> None:
        pass

    def close(self) -> None:
        pass


class BeginsAnew(Exception):
    """The next entry says that the store begins anew, with what a split made; nothing was applied.
    ``tail``: of a store that has that, and nothing else.
    """

    def __init__(self, entry: ReplicatedEntry, end: Position) -> None:
        super().__init__(entry.split_number)
        self.tail = Tail(
            entry_epoch=entry.epoch,
            number=entry.number,
            log_end=entry.log_end,
            position=end,
            split_number=entry.split_number,
        )


class Replica:
    """See the module's docstring. ``tail``: what has been applied."""

    def __init__(
        self, files: Files, store_path: Path, tail: Tail, derived: Derived | None = None
    ) -> None:
        self._files = files
        self._path = store_path
        self._unsynced: set[Path] = set()  # segments
        self._pending = PendingFiles()
        self._log_start = 0
        self._derived = derived or NothingDerived()
        self.tail = self._whole_tail = tail
        self._cut_at = tail.log_end  # what was derived from there on may be a former owner's
        for name in (COMMIT_LOG_DIR, CONFIG_DIR):
            files.make_dirs(store_path / name)
        if not (store_path / REPLICATION_FILE).exists():
            # Before the first segment: one without it is taken for a store that was never here.
            write_tail(files, store_path, tail)

    def apply(self, entry: ReplicatedEntry, end: Position) -> None:
        """``end``: where reading goes on behind it. Raises ``StoreCorrupt`` with nothing changed:
        it is not the next one; ``BeginsAnew``, ``DiskFull``, ``SyncFailed``.
        """
        self._check(entry)
        if entry.split_number:
            raise BeginsAnew(entry, end)
        if entry.is_first and self.tail.number:
            self._truncate(min(entry.log_from, self.tail.log_end))
            self._pending.drop_cut()
            if self.tail.has_own_files:
                self._pending = PendingFiles()
        elif self._pending.must_be_written_before(entry.sections):
            self.flush()
        for section in entry.sections:
            if section.kind is Kind.LOG:
                self._write_log(section, entry.segment_bytes)
        self._pending.add(entry.sections, is_cut=entry.is_cut)
        self._log_start = entry.log_start
        tail = msgspec.structs.replace(
            self.tail,
            position=end,
            entry_epoch=entry.epoch,
            number=entry.number,
            log_end=entry.log_end,
            is_partial=not entry.is_whole and (self.tail.is_partial or not self.tail.number),
        )
        self.tail = tail
        if not entry.is_cut:
            self._whole_tail = tail
        if tail.has_own_files and entry.is_whole:
            self._exchange_files()
        elif self._pending.is_much:
            self.flush()

    def flush(self) -> None:
        """Write the small files as the newest entry that is whole has left them. Raises
        ``StoreCorrupt``, ``DiskFull``, ``SyncFailed``.
        """
        if self.tail.has_own_files:
            return
        sections = self._pending.take()
        if sections:
            self.sync_log()
            self._write_files(merged(sections))
            write_tail(self._files, self._path, self._whole_tail)
        self._delete_before(self._log_start)

    def _exchange_files(self) -> None:
        """The next owner's small files have come, all of them."""
        found = merged(self._pending.take())
        self.sync_log()
        self._derived.cut(self._cut_at)
        for name in identities(self._path).keys() - found.keys():
            self._files.unlink(self._path / name)
        self._write_files(found)
        self.tail = self._whole_tail = msgspec.structs.replace(self.tail, has_own_files=False)
        write_tail(self._files, self._path, self.tail)
        self._delete_before(self._log_start)

    def _check(self, entry: ReplicatedEntry) -> None:
        tail = self.tail
        if entry.number != tail.number + 1:
            raise _refused(entry, f"the one before it has number {tail.number}")
        is_new = entry.epoch > tail.entry_epoch
        if entry.epoch < tail.entry_epoch or is_new != entry.is_first:
            raise _refused(entry, f"the one before it is of epoch {tail.entry_epoch}")
        begins = not tail.number or entry.log_start >= entry.log_from
        overlaps = entry.is_first and entry.log_from <= tail.log_end
        if entry.log_from != tail.log_end and not begins and not overlaps:
            raise _refused(
                entry, f"its log begins at {entry.log_from}, and ours ends at {tail.log_end}"
            )

    def _segment(self, offset: int, segment_bytes: int) -> Path:
        base = offset - offset % segment_bytes
        path = self._path / COMMIT_LOG_DIR / segment_name(base)
        if not path.exists():
            if bucket_path(self._path, base).exists():
                raise StoreCorrupt(
                    f"an entry of the replicated log has bytes at {offset}, of a segment that "
                    f"{self._path} has only in the bucket. Nothing of it was applied. Move this "
                    "store away: a new one is built from the log"
                )
            self._files.create(path, segment_bytes, segment_bytes)
        return path

    def leave(self, published: Mapping[int, BucketFile], *, segments_max: int) -> bool:
        """Delete the oldest segments, which the shard's owner has only in the bucket as well, but
        none that may be written or read again, and ``segments_max`` at most; whether there are
        more. ``published``: by base offset, of a snapshot.

        Raises ``DiskFull``, ``SyncFailed``: what is not deleted is here as before.
        """
        noted, mark = read_tail(self._path), read_checkpoint(self._path / CHECKPOINT_FILE)
        if noted is None or mark is None or self.tail.has_own_files:
            return False
        # A start reads entries from where it was noted, and records from the checkpoint on.
        below = min(noted.log_end, mark.dispatched_offset, mark.indexed_offset)
        left: list[BucketFile] = []
        for base in base_offsets_in(self._path / COMMIT_LOG_DIR)[:-1]:
            file = published.get(base)
            if file is None or file.end_offset > below:
                break
            left.append(file)
        some = left[:segments_max]
        self.sync_log()
        write_bucket_files(self._files, self._path, some)
        delete_left(self._files, self._path, some)
        return len(left) > len(some)

    def _write_log(self, section: Section, segment_bytes: int) -> None:
        position, content = section.position, memoryview(section.content)
        while content:
            room = segment_bytes - position % segment_bytes
            path = self._segment(position, segment_bytes)
            self._files.write_at(path, position % segment_bytes, content[:room])
            self._unsynced.add(path)
            position, content = position + room, content[room:]

    def _truncate(self, start: int) -> None:
        """What a deposed owner wrote beyond the log of its successor is no part of it, here neither
        if this was the owner.
        """
        self._cut_at = min(self._cut_at, start)
        self._derived.close()
        for path, at, content in data_beyond(self._files, self._path, start):
            self._files.write_at(path, at, _ZEROS[: len(content)])
            self._unsynced.add(path)

    def _delete_before(self, offset: int) -> None:
        forget_before(self._files, self._path, offset)  # first: no gap behind them after a kill
        directory = self._path / COMMIT_LOG_DIR
        for base, following in itertools.pairwise(base_offsets_in(directory)):
            if following > offset:
                break
            path = directory / segment_name(base)
            self._unsynced.discard(path)
            self._files.unlink(path)

    def sync_log(self) -> None:
        """Make all bytes of the log durable that were applied. Raises ``SyncFailed``."""
        for path in self._unsynced:
            self._files.sync_path(path)
        self._unsynced.clear()

    def _write_files(self, found: Mapping[str, PendingFile | None]) -> None:
        """The checkpoint last, as the engine does: it counts what stands in the others."""
        for name in sorted(found, key=CHECKPOINT_FILE.__eq__):
            path, file = self._path / name, found[name]
            self._files.make_dirs(path.parent)
            if file is None:
                self._files.unlink(path)
            elif file.start is not None:
                self._append(path, file.start, bytes(file.content))
            elif name == CHECKPOINT_FILE:
                replace_checkpoint(self._files, path, self._derived.localize(bytes(file.content)))
            else:
                self._files.replace(path, bytes(file.content))

    def _append(self, path: Path, position: int, content: bytes) -> None:
        size_bytes = path.stat().st_size if path.exists() else 0
        if size_bytes < position:
            raise StoreCorrupt(
                f"the replicated log goes on with {path} at {position}, but that has only "
                f"{size_bytes} bytes"
            )
        self._files.write_at(path, position, content, is_end=True)
        self._files.sync_path(path)


def _refused(entry: ReplicatedEntry, reason: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"entry {entry.number} of epoch {entry.epoch} of the replicated log does not follow: "
        f"{reason}. Nothing of it was applied. Move this store away: a new one is built from the "
        "log"
    )
