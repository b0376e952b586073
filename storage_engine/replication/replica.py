"""Writes what entries hold into the files of a store: the same bytes, in the same files, in order.

    replicated log ── entry ──▶ [Replica] ──▶ commitlog/…, config/…, offsets.journal, …

Nothing is understood here: recovery makes a store of the files when this one takes over. An entry
that is not the next one is refused. Where the process ends in between, entries are applied again
from the last one with small files on, which changes nothing: each says where its bytes belong. Any
thread, one at a time.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    COMMIT_LOG_DIR,
    CONFIG_DIR,
    REPLICATION_FILE,
    base_offsets_in,
    segment_name,
)
from storage_engine.errors import StoreCorrupt
from storage_engine.replicated_log.port import Position
from storage_engine.replication.entry import Kind, ReplicatedEntry, Section
from storage_engine.replication.tail import Tail, write_tail

_ZEROS: Final = bytes(1024 * 1024)


class Replica:
    """See the module's docstring. ``tail``: what has been applied."""

    def __init__(self, files: Files, store_path: Path, tail: Tail) -> None:
        self._files = files
        self._path = store_path
        self._unsynced: set[Path] = set()  # segments
        self._cut: list[Section] = []  # small files that go on in the next entry
        self.tail = tail
        for name in (COMMIT_LOG_DIR, CONFIG_DIR):
            files.make_dirs(store_path / name)
        if not (store_path / REPLICATION_FILE).exists():
            # Before the first segment: one without it is taken for a store that was never here.
            write_tail(files, store_path, tail)

    def apply(self, entry: ReplicatedEntry, end: Position) -> None:
        """``end``: where reading goes on behind it. Raises ``StoreCorrupt`` with nothing changed:
        it is not the next one; ``DiskFull``, ``SyncFailed``.
        """
        self._check(entry)
        if entry.is_first and self.tail.number:
            self._truncate(entry)
            self._cut = []
        for section in entry.sections:
            if section.kind is Kind.LOG:
                self._write_log(section, entry.segment_bytes)
            else:
                self._cut.append(section)
        self.tail = msgspec.structs.replace(
            self.tail,
            position=end,
            entry_epoch=entry.epoch,
            number=entry.number,
            log_end=entry.log_end,
        )
        if self._cut and not entry.is_cut:
            self.sync_log()
            self._write_files(entry.number)
            write_tail(self._files, self._path, self.tail)
        self._delete_before(entry.log_start)

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
            self._files.create(path, segment_bytes, segment_bytes)
        return path

    def _write_log(self, section: Section, segment_bytes: int) -> None:
        position, content = section.position, memoryview(section.content)
        while content:
            room = segment_bytes - position % segment_bytes
            path = self._segment(position, segment_bytes)
            self._files.write_at(path, position % segment_bytes, content[:room])
            self._unsynced.add(path)
            position, content = position + room, content[room:]

    def _truncate(self, entry: ReplicatedEntry) -> None:
        """What a deposed owner wrote beyond the log of its successor is no part of it."""
        start, end = entry.log_from, self.tail.log_end
        while start < end:
            piece = min(end - start, len(_ZEROS), -start % entry.segment_bytes or len(_ZEROS))
            self._write_log(Section(Kind.LOG, start, _ZEROS[:piece]), entry.segment_bytes)
            start += piece

    def _delete_before(self, offset: int) -> None:
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

    def _write_files(self, number: int) -> None:
        sections, self._cut = self._cut, []
        whole: dict[str, bytearray] = {}
        for kind, position, content, name in sections:
            path = self._path / name
            self._files.make_dirs(path.parent)
            if kind is Kind.GONE:
                self._files.unlink(path)
            elif kind is Kind.FILE:
                file = whole[name] = whole.get(name, bytearray()) if position else bytearray()
                if position != len(file):
                    raise StoreCorrupt(f"entry {number} lacks bytes of {name} at {len(file)}")
                file += content
            else:
                self._append(path, position, content, number)
        for name, file in whole.items():
            self._files.replace(self._path / name, bytes(file))

    def _append(self, path: Path, position: int, content: bytes, number: int) -> None:
        size_bytes = path.stat().st_size if path.exists() else 0
        if size_bytes < position:
            raise StoreCorrupt(
                f"entry {number} goes on with {path} at {position}, but that has only {size_bytes} "
                "bytes"
            )
        self._files.write_at(path, position, content, is_end=True)
        self._files.sync_path(path)


def _refused(entry: ReplicatedEntry, reason: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"entry {entry.number} of epoch {entry.epoch} of the replicated log does not follow: "
        f"{reason}. Nothing of it was applied. Move this store away: a new one is built from the "
        "log"
    )
