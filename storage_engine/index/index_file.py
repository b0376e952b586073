"""One index file: a hash table from keys to places in the commit log, in RocketMQ's layout.

    offset  width  field                     meaning
         0      8  first_timestamp_ms        store time of the first entry's record
         8      8  last_timestamp_ms         of the last entry's record
        16      8  first_physical_offset
        24      8  last_physical_offset
        32      4  used_slot_count
        36      4  next_number               of the entry to come; the first entry is number 1
        40    4*s  slots                     number of the newest entry of the slot, 0 without one
    40+4*s   20*n  entries                   number 0 is never used

    offset  width  field of an entry         meaning
         0      4  key_hash                  see ``key_hash``; its slot is key_hash modulo s
         4      8  physical_offset           of the record
        12      4  seconds                   from first_timestamp_ms to the record's store time
        16      4  previous_number           the entry of the slot before this one, 0 without one

From RocketMQ 5.3 ``IndexFile.putKey``. Invariants: entries stand in log order without a gap; disk
stands behind every byte before it is written. Slots can be told from the entries, and are after a
stop, so only those of a full file need to be durable. Writer: loop thread; ``sync``: the
checkpointer's thread.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage_engine.disk.files import Files
from storage_engine.disk.mapped_file import MappedFile

HEADER = struct.Struct(">qqqqii")
HEADER_BYTES: Final = 40
SLOT_BYTES: Final = 4
ENTRY = struct.Struct(">iqii")
ENTRY_BYTES: Final = 20
SECONDS_MAX: Final = (1 << 31) - 1
_SLOT: Final = np.dtype(">i4")
_ENTRY: Final = np.dtype(
    [
        ("key_hash", ">i4"),
        ("physical_offset", ">i8"),
        ("seconds", ">i4"),
        ("previous_number", ">i4"),
    ]
)
_REBUILD_STEP: Final = 1 << 20  # entries looked at together while slots are rebuilt
assert HEADER.size == HEADER_BYTES
assert ENTRY.size == _ENTRY.itemsize == ENTRY_BYTES

Ints = NDArray[np.int64]


class Entries(NamedTuple):
    """Keys to put, in log order: hash, physical offset and store time of each, (n,) int64."""

    hashes: Ints
    physical_offsets: Ints
    stamps: Ints

    def part(self, start: int, stop: int) -> Entries:
        return Entries(
            self.hashes[start:stop], self.physical_offsets[start:stop], self.stamps[start:stop]
        )


class Entry(NamedTuple):
    """One entry as it stands in the file."""

    key_hash: int
    physical_offset: int
    seconds: int
    previous_number: int


class IndexFile:
    """See the module's docstring. ``name_ms`` is the time its name says."""

    def __init__(
        self,
        files: Files,
        path: Path,
        name_ms: int,
        *,
        slots: int,
        entries: int,
        allocate_bytes: int,
        allocated_bytes: int,
    ) -> None:
        self.path = path
        self.name_ms = name_ms
        self._slot_count = slots
        self._entries_at = HEADER_BYTES + slots * SLOT_BYTES
        self._entries = entries
        self._allocate_bytes = allocate_bytes
        size_bytes = file_bytes(slots, entries)
        self._file = MappedFile(files, path, 0, size_bytes, allocated_bytes)
        self._slot_table: NDArray[np.int32] | None = None
        self._entry_table: NDArray[np.void] | None = None
        self.first_timestamp_ms = 0
        self.last_timestamp_ms = 0
        self.first_physical_offset = 0
        self.last_physical_offset = 0
        self.used_slot_count = 0
        self.next_number = 1
        self._synced_number = 1  # entries below are durable
        self._is_whole_synced = False

    # Writing --------------------------------------------------------------------------------

    @property
    def entry_count(self) -> int:
        return self.next_number - 1

    @property
    def room(self) -> int:
        """How many more entries fit."""
        return self._entries - self.next_number

    def reserve(self, count: int) -> None:
        """Put disk behind the next ``count`` entries and open the map, so that ``put`` cannot fail.

        Raises ``DiskFull``, OSError; nothing is changed.
        """
        end = self._entries_at + (self.next_number + count) * ENTRY_BYTES
        self._file.allocate_to(end, self._allocate_bytes)
        self._tables()

    def put(self, batch: Entries) -> None:
        """Append entries, for which there is room and disk. One batch or many: the same bytes."""
        hashes, physical_offsets, stamps = batch
        count = len(hashes)
        assert 0 < count <= self.room
        if self.next_number == 1:
            self.first_physical_offset = int(physical_offsets[0])
            self.first_timestamp_ms = int(stamps[0])
        slot_table, entry_table = self._tables()
        numbers = np.arange(self.next_number, self.next_number + count)
        slots = hashes % self._slot_count
        previous = slot_table[slots].astype(np.int64)
        previous[(previous < 0) | (previous > numbers)] = 0
        # Entries of this batch that share a slot follow each other in the order of the log.
        order = np.argsort(slots, kind="stable")
        ordered = slots[order]
        repeats = np.flatnonzero(ordered[1:] == ordered[:-1])
        previous[order[repeats + 1]] = numbers[order[repeats]]
        entries = entry_table[self.next_number : self.next_number + count]
        entries["key_hash"] = hashes
        entries["physical_offset"] = physical_offsets
        if self.first_timestamp_ms > 0:
            seconds = (stamps - self.first_timestamp_ms) // 1_000
            entries["seconds"] = np.clip(seconds, 0, SECONDS_MAX)
        else:
            entries["seconds"] = 0
        entries["previous_number"] = previous
        # The newest of equal slots comes last in ``order``, and the last assignment stays.
        slot_table[ordered] = numbers[order]
        self.used_slot_count += count - int(np.count_nonzero(previous))
        self.last_physical_offset = int(physical_offsets[-1])
        self.last_timestamp_ms = int(stamps[-1])
        self.next_number += count
        self._write_header()

    def _tables(self) -> tuple[NDArray[np.int32], NDArray[np.void]]:
        if self._slot_table is None or self._entry_table is None:
            view = self._file.view
            self._slot_table = np.frombuffer(view, _SLOT, self._slot_count, HEADER_BYTES)
            self._entry_table = np.frombuffer(view, _ENTRY, self._entries, self._entries_at)
        return self._slot_table, self._entry_table

    def _write_header(self) -> None:
        HEADER.pack_into(
            self._file.view,
            0,
            self.first_timestamp_ms,
            self.last_timestamp_ms,
            self.first_physical_offset,
            self.last_physical_offset,
            self.used_slot_count,
            self.next_number,
        )

    # Reading --------------------------------------------------------------------------------

    def newest_number(self, key_hash: int) -> int:
        """Number of the newest entry in the slot of a hash; 0 when there is none."""
        position = HEADER_BYTES + key_hash % self._slot_count * SLOT_BYTES
        number = int.from_bytes(self._file.view[position : position + SLOT_BYTES], signed=True)
        return number if 0 < number < self.next_number else 0

    def entry(self, number: int) -> Entry:
        """The entry of a number from 1 to ``entry_count``."""
        assert 0 < number < self.next_number
        view = self._file.view
        return Entry(*ENTRY.unpack_from(view, self._entries_at + number * ENTRY_BYTES))

    def shares_slot(self, entry: Entry, key_hash: int) -> bool:
        return entry.key_hash % self._slot_count == key_hash % self._slot_count

    # Durability -----------------------------------------------------------------------------

    @property
    def is_dirty(self) -> bool:
        if self._is_whole_synced:
            return False
        return self._synced_number < self.next_number or not self.room

    def sync(self, next_number: int) -> None:
        """Make the entries below ``next_number`` durable, and of a full file all of it.

        Raises ``SyncFailed``: the file may not be relied on any more.
        """
        if next_number == self._entries:
            self._file.sync(0, self._file.size_bytes)
            self._is_whole_synced = True
        else:
            self._file.sync(0, HEADER_BYTES)
            start = self._entries_at + self._synced_number * ENTRY_BYTES
            self._file.sync(start, self._entries_at + next_number * ENTRY_BYTES)
        self._synced_number = next_number

    # Recovery -------------------------------------------------------------------------------

    def load(self) -> None:
        """Believe the header, and that all is durable.

        Both are true of a full file that a checkpoint counts, but of the last one of those: there
        ``holds`` and ``cut`` must follow.
        """
        (
            self.first_timestamp_ms,
            self.last_timestamp_ms,
            self.first_physical_offset,
            self.last_physical_offset,
            self.used_slot_count,
            self.next_number,
        ) = HEADER.unpack_from(self._file.view)
        self._synced_number = self.next_number
        self._is_whole_synced = True

    @property
    def first_entry_offset(self) -> int | None:
        """Physical offset in the first entry; None when there is none yet.

        From the entry itself: after a power cut the header may say anything.
        """
        _, entry_table = self._tables()
        first = entry_table[1]
        return int(first["physical_offset"]) if first.tobytes().strip(b"\0") else None

    @property
    def is_full(self) -> bool:
        """Whether header and last entry say so."""
        if self.next_number != self._entries:
            return False
        _, entry_table = self._tables()
        last = int(entry_table[self._entries - 1]["physical_offset"])
        return last == self.last_physical_offset >= self.first_physical_offset

    def holds(self, count: int, below: int) -> bool:
        """True when exactly ``count`` entries, and whole ones, are of records under ``below``."""
        _, entry_table = self._tables()
        last = entry_table[count]
        if not 0 < count < self._entries or not last.tobytes().strip(b"\0"):
            return False
        if count + 1 < self._entries:
            following = entry_table[count + 1]
            if following.tobytes().strip(b"\0") and 0 < following["physical_offset"] < below:
                return False
        if self.first_physical_offset != self.first_entry_offset:
            return False
        before = 0
        for start in range(1, count + 1, _REBUILD_STEP):
            offsets = entry_table[start : min(start + _REBUILD_STEP, count + 1)]["physical_offset"]
            steps = np.diff(offsets.astype(np.int64), prepend=before)
            if np.any(steps < 0):
                return False
            before = int(offsets[-1])
        return before < below

    def offset_of(self, number: int) -> int:
        """Physical offset in the entry of a number, whatever the header says."""
        _, entry_table = self._tables()
        return int(entry_table[number]["physical_offset"])

    def cut(self, count: int, last_timestamp_ms: int) -> None:
        """Keep the first ``count`` entries: slots come from them again, what follows is zeroed.

        Raises ``DiskFull``: a copied file may have holes where slots are to be written.
        """
        end = self._entries_at + (count + 1) * ENTRY_BYTES
        self._file.allocate_to(end, self._allocate_bytes)
        self._file.zero_after(end)
        slot_table, entry_table = self._tables()
        fresh = np.zeros(self._slot_count, _SLOT)
        for start in range(1, count + 1, _REBUILD_STEP):
            stop = min(start + _REBUILD_STEP, count + 1)
            hashes = entry_table[start:stop]["key_hash"].astype(np.int64)
            fresh[hashes % self._slot_count] = np.arange(start, stop)
        slot_table[:] = fresh
        self.used_slot_count = int(np.count_nonzero(fresh))
        self.last_physical_offset = int(entry_table[count]["physical_offset"])
        self.last_timestamp_ms = last_timestamp_ms
        self.next_number = count + 1
        self._synced_number = 1
        self._is_whole_synced = False
        self._write_header()

    def close(self) -> None:
        self._slot_table = self._entry_table = None
        self._file.close()


def file_bytes(slots: int, entries: int) -> int:
    """Size of a file with that many slots and entries."""
    return HEADER_BYTES + slots * SLOT_BYTES + entries * ENTRY_BYTES
