"""What a store has that the replicated log has not: read from its files, as of one moment.

    store directory, commit log ──▶ [ChangeReader] ── take() ──▶ Change ── entries(…) ──▶ log

Two rules make every beginning of the replicated log a store that recovery can open. What a small
file says of a message (that it is settled, which topic it is of a key) never comes before the
message. And no message comes before its topic. So the durable end of the log is read while no small
file is replaced; one entry holds both, and where they need several, tables of topics and groups go
first and the other files last.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from storage_engine.delivery.offset_journal import whole_bytes
from storage_engine.disk.layout import CONFIG_DIR, GROUPS_FILE, JOURNAL_FILE, TOPICS_FILE
from storage_engine.disk.small_files import Identity, at_one_moment, grows
from storage_engine.log.commit_log import CommitLog
from storage_engine.records.record_check import fault_at
from storage_engine.records.record_parts import store_timestamp_of
from storage_engine.replication.entry import (
    HEAD_BYTES,
    SECTION_BYTES,
    Kind,
    ReplicatedEntry,
    Section,
)
from storage_engine.replication.uploads import read_log

_TABLES: Final = frozenset({f"{CONFIG_DIR}/{TOPICS_FILE}", f"{CONFIG_DIR}/{GROUPS_FILE}"})
_NAME_BYTES_MAX: Final = 256


class Change(NamedTuple):
    """Small files that have changed, and the log's range [log_from, log_end). ``is_start_new``:
    segments have been deleted.
    """

    tables: list[Section]
    files: list[Section]
    log_start: int
    log_from: int
    log_end: int
    is_start_new: bool
    local_start: int  # what is below, only the bucket has
    whole: Mapping[str, bytes]  # all small files, where they were asked for

    @property
    def is_empty(self) -> bool:
        has_files = self.tables or self.files or self.is_start_new
        return not has_files and self.log_from == self.log_end


class _Known(NamedTuple):
    """What was taken of a file: which one it was, and how much of one that grows."""

    identity: Identity
    size_bytes: int


class ChangeReader:
    """See the module's docstring. Any thread, one at a time."""

    def __init__(
        self, store_path: Path, commit_log: CommitLog, *, segment_bytes: int, log_from: int
    ) -> None:
        self._store_path = store_path
        self._commit_log = commit_log
        self.segment_bytes = segment_bytes
        self._known: dict[str, _Known] = {}
        # Held open until another one was taken: as long as it is, no other can have its inode.
        self._journal = self._next_journal = -1
        self.log_end = log_from  # of what was taken
        self._log_start = 0

    def take(self, *, is_whole: bool = False) -> Change:
        """All that has changed since the last call, in memory but for the log's bytes.

        ``is_whole``: with all small files as well, as of the same moment. Raises
        ``FilesKeptChanging``, ``OSError``; then nothing was taken.
        """
        whole: dict[str, bytes] | None = {} if is_whole else None
        read = partial(self._read, whole)
        # Before the files, which say that no scheduled message to come is below.
        local_start = self._commit_log.local_start_offset
        try:
            known, sections, log_start, log_end = at_one_moment(self._store_path, read)
        except BaseException:
            self._close_next()
            raise
        self._known = known
        if self._next_journal >= 0:
            self._close_journal()
            self._journal, self._next_journal = self._next_journal, -1
        # Recovery may have cut off half a record, with which the owner before had ended the log.
        log_from = max(min(self.log_end, log_end), log_start)
        self.log_end = log_end
        tables = [each for each in sections if each.name in _TABLES]
        files = [each for each in sections if each.name not in _TABLES]
        is_start_new, self._log_start = log_start != self._log_start, log_start
        log_range = log_start, log_from, log_end
        return Change(tables, files, *log_range, is_start_new, local_start, whole or {})

    def _read(
        self, whole: dict[str, bytes] | None, names: dict[str, Identity]
    ) -> tuple[dict[str, _Known], list[Section], int, int]:
        known: dict[str, _Known] = {}
        sections: list[Section] = []
        self._close_next()  # of an attempt in which a file was replaced
        if whole is not None:
            whole.clear()
        for name, identity in names.items():
            before = self._known.get(name)
            is_same = before is not None and before.identity == identity
            start = before.size_bytes if before is not None and is_same else 0
            content = b""
            if whole is not None:
                whole[name] = self._read_file(name, identity, 0, is_same=is_same)
                content = whole[name][start:]
            elif grows(name) or not is_same:
                content = self._read_file(name, identity, start, is_same=is_same)
            known[name] = _Known(identity, start + len(content))
            if not is_same:
                sections.append(Section(Kind.FILE, 0, content, name))
            elif content:
                sections.append(Section(Kind.APPENDED, start, content, name))
        gone = self._known.keys() - names.keys()
        sections += [Section(Kind.GONE, 0, b"", name) for name in sorted(gone)]
        # After the files: they say nothing of messages that are not durable by now.
        log_end = self._commit_log.flushed_offset
        return known, sections, self._commit_log.start_offset, log_end

    def _read_file(self, name: str, identity: Identity, start: int, *, is_same: bool) -> bytes:
        """Raises ``FileNotFoundError``, after which it is tried again: another one is there now."""
        path = self._store_path / name
        if name != JOURNAL_FILE:
            with path.open("rb") as file:
                file.seek(start)
                return file.read()
        journal = self._journal
        if not is_same:
            journal = self._next_journal = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        stat = os.fstat(journal)
        if stat.st_ino != identity[0]:
            raise FileNotFoundError(path)
        content = os.pread(journal, stat.st_size - start, start)
        # An entry that is being written just now is no entry yet, and may be taken back.
        return content[: whole_bytes(content)]

    @property
    def log_start(self) -> int:
        return self._commit_log.start_offset

    def first_ms(self, base_offset: int) -> int:
        """When the first record of a local segment was stored; 0 where that is damaged, or the
        segment has gone meanwhile. Loop thread.
        """
        for segment in self._commit_log.segments():
            if segment.base_offset == base_offset and segment.is_local:
                is_whole = fault_at(segment.view, 0, base_offset) is None
                return store_timestamp_of(segment.view, 0) if is_whole else 0
        return 0

    def read_log(self, start: int, end: int) -> bytes:
        """Bytes of the durable log, all in one segment; retention waits until they are shipped."""
        return read_log(self._store_path, start, end, segment_bytes=self.segment_bytes)

    def forget(self, *, log_from: int) -> None:
        """What was taken has not arrived: take all small files again, and the log from there."""
        self.close()
        self.log_end = log_from

    def close(self) -> None:
        self._known = {}
        self._close_journal()
        self._close_next()

    def _close_journal(self) -> None:
        if self._journal >= 0:
            os.close(self._journal)
            self._journal = -1

    def _close_next(self) -> None:
        if self._next_journal >= 0:
            os.close(self._next_journal)
            self._next_journal = -1


def entries(
    change: Change,
    reader: ChangeReader,
    *,
    epoch: int,
    number: int,
    bytes_max: int,
    is_first: bool,
    is_whole: bool,
) -> Iterator[tuple[ReplicatedEntry, bool]]:
    """What is to be appended for a change, in order, and whether it is the last; numbered from
    ``number`` on.

    At least one, of the epoch's first change or of one that is empty. ``is_whole``: it has all
    small files.
    """
    log_end = change.log_from
    for sections, is_cut, is_last in _packed(_stream(change, reader, bytes_max), bytes_max):
        for each in sections:
            log_end += len(each.content) if each.kind is Kind.LOG else 0
        entry = ReplicatedEntry(
            epoch,
            number,
            min(change.log_start, log_end),
            log_end,
            reader.segment_bytes,
            sections,
            is_first,
            is_cut,
            is_whole and is_last,
        )
        yield entry, is_last
        number, is_first = number + 1, False


def _stream(change: Change, reader: ChangeReader, bytes_max: int) -> Iterator[list[Section]]:
    """Sections in their order, none too large for an entry, grouped by what must stay together."""
    piece_bytes = bytes_max - HEAD_BYTES - SECTION_BYTES - _NAME_BYTES_MAX
    if change.tables:
        yield _pieces(change.tables, piece_bytes)
    start = change.log_from
    while start < change.log_end:
        segment_end = start - start % reader.segment_bytes + reader.segment_bytes
        end = min(start + piece_bytes, segment_end, change.log_end)
        yield [Section(Kind.LOG, start, reader.read_log(start, end))]
        start = end
    if change.files:
        yield _pieces(change.files, piece_bytes)


def _pieces(sections: Iterable[Section], piece_bytes: int) -> list[Section]:
    found = []
    for kind, position, content, name in sections:
        for at in range(0, max(len(content), 1), piece_bytes):
            piece = content[at : at + piece_bytes]
            found.append(Section(kind, position + at, piece, name))
    return found


def _packed(
    groups: Iterable[list[Section]], bytes_max: int
) -> Iterator[tuple[list[Section], bool, bool]]:
    """Sections of one entry after another, whether a group goes on in the next one, and whether
    there is none.
    """
    packed: list[Section] = []
    left = bytes_max - HEAD_BYTES
    for group in groups:
        for at, section in enumerate(group):
            if section.encoded_bytes > left:
                yield packed, at > 0, False
                packed, left = [], bytes_max - HEAD_BYTES
            packed.append(section)
            left -= section.encoded_bytes
    yield packed, False, True
