"""Compares the index files with the keys of the records in the log.

    LogBatch.keys ──▶ hashes ──▶ [IndexCheck.follow] ◀── entries of index/*, oldest file first
                                        └─ what differs ──▶ Report

The entries of all files, one after another, are those of the log in its order: hash and place of
every key of every record. Slots and the chains of entries follow from the entries. Only reads.

RocketMQ since 5.4 has one more entry for the tag of a record, behind those of its keys: the key
``T#tag`` (``IndexService.buildIndex``). It may be there in a store that a broker was the last to
write to, and is passed over.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage_engine.disk.layout import INDEX_DIR, INDEX_NAME_DIGITS
from storage_engine.index.index_file import ENTRY_BYTES, HEADER, HEADER_BYTES, SLOT_BYTES
from storage_engine.records.key_hash import key_hash, key_hashes
from storage_engine.tools.verify.log import LogBatch, LogCheck
from storage_engine.tools.verify.report import Kind, Report

_ENTRY: Final = np.dtype(
    [("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")]
)
_SLOT: Final = np.dtype(">i4")
_STEP: Final = 1 << 19
_SLOTS_DEFAULT: Final = 5_000_000
# Capacity of a file as many times its slots, as RocketMQ and we have it.
_ENTRIES_PER_SLOT: Final = 4
assert _ENTRY.itemsize == ENTRY_BYTES

_TAG_MARK: Final = b"T#"

Key = tuple[int, int]  # hash, physical offset


class IndexCheck:
    """See the module's docstring.

    ``below``: entries of records above it may not be there yet. ``is_complete``: all of them are.
    """

    def __init__(
        self,
        store: Path,
        report: Report,
        log: LogCheck,
        *,
        below: int,
        is_complete: bool,
        slot_count: int | None,
    ) -> None:
        self._report = report
        self._log = log
        self._below = below
        self._is_complete = is_complete
        self._files: list[MappedIndex] = []
        self._at = (0, 0)  # file, entries of it that are compared
        self._missing: tuple[int, int, int] | None = None  # first and last place, how many
        # Of the batch: places of the records with a tag, ascending, and the hashes of the tags.
        self._tag_offsets = np.zeros(0, np.int64)
        self._tag_hashes = np.zeros(0, np.int64)
        directory = store / INDEX_DIR
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            if len(path.name) != INDEX_NAME_DIGITS or not path.name.isdecimal():
                continue
            file = open_index(path, slot_count)
            count = report.count("index files")
            count.file_count += 1
            if file is None:
                report.add(
                    Kind.INDEX_UNREADABLE,
                    f"{INDEX_DIR}/{path.name}",
                    None,
                    "its header, size and entries do not match",
                )
            else:
                self._files.append(file)
                count.byte_count += path.stat().st_size

    def follow(self, batch: LogBatch) -> None:
        """Compare the keys of a batch."""
        if self._report.finding_counts.get(Kind.INDEX_UNREADABLE):
            return
        if batch.tagged is not None:
            self._tag_offsets = np.array([offset for *_, offset in batch.tagged], np.int64)
            tags = [key_hash(topic, _TAG_MARK + tag) for topic, tag, _ in batch.tagged]
            self._tag_hashes = np.array(tags, np.int64)
        if batch.keys:
            self._compare(batch)
        if batch.tagged:
            self._skip_tags()

    def _compare(self, batch: LogBatch) -> None:
        hashes = key_hashes(np.array(batch.topic_hashes, np.uint32), batch.keys)
        offsets = np.array(batch.key_offsets, np.int64)
        count = int(np.searchsorted(offsets, self._below))
        if not count:
            return
        hashes, offsets = hashes[:count], offsets[:count]
        ahead, entries = self._ahead(count + 1)
        same = entries[:count]
        if np.array_equal(same["hash"], hashes) and np.array_equal(same["offset"], offsets):
            self._report_missing()
            self._skip(int(ahead[count - 1]) + 1)
        else:
            wanted = list(zip(hashes.tolist(), offsets.tolist(), strict=True))
            found = list(zip(entries["hash"].tolist(), entries["offset"].tolist(), strict=True))
            passed = self._merge(wanted, found, ahead)
            self._skip(int(ahead[passed - 1]) + 1 if passed else 0)

    def _merge(self, wanted: list[Key], found: list[Key], ahead: NDArray[np.int64]) -> int:
        """One by one, past whatever differs; how many of ``found`` are passed."""
        known = set(wanted)
        last = wanted[-1][1]
        at = 0
        for index, key in enumerate(wanted):
            following = wanted[index + 1] if index + 1 < len(wanted) else None
            while True:
                entry = found[at] if at < len(found) else None
                next_entry = found[at + 1] if at + 1 < len(found) else None
                if entry == key:
                    self._report_missing()
                    at += 1
                    break
                if entry is None or (entry in known and entry[1] >= key[1]):
                    self._miss(key[1])
                    break
                is_in_place = next_entry == following or (following is None and entry[1] <= last)
                if entry[1] > last and not is_in_place:
                    self._miss(key[1])
                    break
                self._report_wrong(int(ahead[at]), entry, key if is_in_place else None)
                at += 1
                if is_in_place:
                    break
        return at

    def _miss(self, offset: int) -> None:
        first, _, count = self._missing or (offset, offset, 0)
        self._missing = first, offset, count + 1

    def _report_missing(self) -> None:
        """One finding for a run of keys without entries."""
        if self._missing is not None:
            first, last, count = self._missing
            what = f"{count} keys of records from {first} to {last} have no entry"
            self._report.add(Kind.INDEX_ENTRY_MISSING, INDEX_DIR, first, what)
            self._missing = None

    def _report_wrong(self, ahead: int, found: Key, wanted: Key | None) -> None:
        file, number = self._place(ahead)
        what = f"has hash {found[0]} and place {found[1]}"
        if wanted is None:
            what += ", but no record there has a key with that hash"
        else:
            what += f", but the key of the record at {wanted[1]} has hash {wanted[0]}"
        self._report.add(
            Kind.INDEX_ENTRY_WRONG, f"{INDEX_DIR}/{self._files[file].path.name}", number, what
        )

    def finish(self) -> None:
        """Look at the entries that are left, and at the slots of every file."""
        self._report_missing()
        if not self._is_complete or self._report.finding_counts.get(Kind.INDEX_UNREADABLE):
            return
        while True:
            ahead, rest = self._ahead(_STEP)
            if not len(rest):
                break
            for index, hash_, offset in zip(
                ahead.tolist(), rest["hash"].tolist(), rest["offset"].tolist(), strict=True
            ):
                self._report_wrong(index, (hash_, offset), None)
            self._skip(int(ahead[-1]) + 1)
        for file in self._files:
            number = file.first_wrong_link()
            if number is not None:
                self._report.add(
                    Kind.INDEX_SLOT_WRONG,
                    f"{INDEX_DIR}/{file.path.name}",
                    number,
                    "the slot, or the link to the previous entry, does not match the entries",
                )

    def _ahead(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """(how far ahead, entry) of the next ``count`` that must be right; fewer at the end.

        Entries of records that retention deleted, or that are damaged, stay and are passed over,
        and so are RocketMQ's of tags.
        """
        peeked = count
        while True:
            entries = self._peek(peeked)
            offsets = entries["offset"].astype(np.int64)
            is_extra = self._log.has_none_at(offsets) | self._is_tag(entries)
            numbers = np.flatnonzero(~is_extra)
            if len(numbers) >= count or len(entries) < peeked:
                return numbers[:count], entries[numbers[:count]]
            peeked *= 2

    def _is_tag(self, entries: NDArray[np.void]) -> NDArray[np.bool_]:
        """Of each entry, whether it is that of a tag of the batch."""
        if not len(self._tag_offsets):
            return np.zeros(len(entries), np.bool_)
        offsets = entries["offset"].astype(np.int64)
        at = np.searchsorted(self._tag_offsets, offsets)
        at[at == len(self._tag_offsets)] = 0
        is_tag: NDArray[np.bool_] = self._tag_hashes[at] == entries["hash"]
        is_tag &= self._tag_offsets[at] == offsets
        return is_tag

    def _skip_tags(self) -> None:
        """Pass over the tags behind the last key of a batch."""
        while True:
            is_tag = self._is_tag(self._peek(_STEP))
            count = len(is_tag) if is_tag.all() else int(is_tag.argmin())
            self._skip(count)
            if count < _STEP:
                return

    def _peek(self, count: int) -> NDArray[np.void]:
        """The next entries, fewer at the end."""
        parts = []
        file, at = self._at
        while count and file < len(self._files):
            entries = self._files[file].entries[at : at + count]
            parts.append(entries)
            count -= len(entries)
            file, at = (file, at + len(entries)) if not count else (file + 1, 0)
        return np.concatenate(parts) if parts else np.zeros(0, _ENTRY)

    def _place(self, ahead: int) -> tuple[int, int]:
        """(file, entry number) of the entry that many ahead."""
        file, at = self._at
        while ahead >= len(self._files[file].entries) - at:
            ahead -= len(self._files[file].entries) - at
            file, at = file + 1, 0
        return file, at + ahead + 1

    def _skip(self, count: int) -> None:
        if not count:
            return
        file, number = self._place(count - 1)
        self._at = (file, number)
        counted = self._report.count("index files")
        counted.item_count += count
        self._report.byte_count += count * ENTRY_BYTES


class Header(NamedTuple):
    """What an index file says of itself."""

    first_timestamp_ms: int
    last_timestamp_ms: int
    first_physical_offset: int
    last_physical_offset: int
    used_slot_count: int
    next_number: int


class MappedIndex:
    """One index file, mapped; only read. ``entries`` begin with number 1."""

    def __init__(self, path: Path, slot_count: int) -> None:
        self.path = path
        self.slot_count = slot_count
        table = np.memmap(path, np.uint8, "r")
        self.header = Header(*HEADER.unpack(bytes(table[:HEADER_BYTES])))
        next_number = self.header.next_number
        self._slots = table[HEADER_BYTES : HEADER_BYTES + slot_count * SLOT_BYTES].view(_SLOT)
        entries = table[HEADER_BYTES + slot_count * SLOT_BYTES :].view(_ENTRY)
        self.entries = entries[1 : max(min(next_number, len(entries)), 1)]

    def first_wrong_link(self) -> int | None:
        """Number of the first entry whose link to the one before is wrong; 0 for a wrong slot."""
        slot_count = self.slot_count
        newest = np.zeros(slot_count, np.int64)
        for start in range(0, len(self.entries), _STEP):
            part = self.entries[start : start + _STEP]
            numbers = np.arange(start + 1, start + 1 + len(part))
            slots = part["hash"].astype(np.int64) % slot_count
            previous = newest[slots]
            order = np.argsort(slots, kind="stable")
            again = np.flatnonzero(np.diff(slots[order]) == 0)
            previous[order[again + 1]] = numbers[order[again]]
            newest[slots[order]] = numbers[order]
            wrong = np.flatnonzero(part["previous"] != previous)
            if len(wrong):
                return int(numbers[wrong[0]])
        return None if np.array_equal(newest, self._slots) else 0


def open_index(path: Path, slot_count: int | None) -> MappedIndex | None:
    """The file, with as many slots as it is told or as fit its size and first entry."""
    size = path.stat().st_size
    unit_bytes = SLOT_BYTES + _ENTRIES_PER_SLOT * ENTRY_BYTES
    guesses = [slot_count] if slot_count else [(size - HEADER_BYTES) // unit_bytes, _SLOTS_DEFAULT]
    for guess in guesses:
        room = size - HEADER_BYTES - guess * SLOT_BYTES
        if guess < 1 or room < 2 * ENTRY_BYTES or room % ENTRY_BYTES:
            continue
        with path.open("rb") as content:
            first_offset, number = HEADER.unpack(content.read(HEADER_BYTES))[2::3]
        if number > room // ENTRY_BYTES:
            continue
        file = MappedIndex(path, guess)
        if number <= 1 or (len(file.entries) and file.entries[0]["offset"] == first_offset):
            return file
    return None
