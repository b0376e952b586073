"""The run of index files in ``index/``, oldest first; each is full before the next begins.

    indexer ── put(entries) ──▶ [IndexFiles] ── allocated first ──▶ IndexFile, newest last
    key_lookup ── files, newest first ──▶
    recovery ── load(checkpoint) ──▶ cut to what was durable, or nothing to build upon

A file's name is the store time of the first record in it, UTC, as yyyyMMddHHmmssSSS, moved up where
the one before has that name already: what is rebuilt from the log gets the same names and bytes.

    the files hold, of records below indexed_offset        then
    as many entries as the checkpoint counts                cut to those
    fewer by whole files, and the log has no more of theirs  cut to those: retention deleted them
    anything else                                           deleted, to be built from the log again

Loop thread only.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from storage_engine.config import StoreConfig
from storage_engine.disk.files import Files
from storage_engine.disk.layout import INDEX_DIR, INDEX_NAME_DIGITS
from storage_engine.index.index_file import HEADER_BYTES, SLOT_BYTES, Entries, IndexFile, file_bytes

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS: Final = datetime.timedelta(milliseconds=1)


class SyncOrder(NamedTuple):
    """A file and the entry up to which, not included, it is to be made durable."""

    file: IndexFile
    next_number: int


class IndexFiles:
    """See the module's docstring."""

    def __init__(self, config: StoreConfig, files: Files) -> None:
        self._config = config
        self._access = files
        self.directory = config.store_path / INDEX_DIR
        self.files: list[IndexFile] = []
        self._size_bytes = file_bytes(config.index_slots, config.index_entries)

    @property
    def entry_count(self) -> int:
        """Of all files together."""
        return sum(file.entry_count for file in self.files)

    def put(self, batch: Entries) -> None:
        """Append entries in log order, all of them or none.

        Raises ``DiskFull``, ``SyncFailed``, OSError: nothing was put, the same can be tried again.
        """
        # All disk first: what follows cannot fail.
        parts: list[tuple[IndexFile, Entries]] = []
        start, total = 0, len(batch.hashes)
        newest = self.files[-1] if self.files else None
        while start < total:
            if newest is None or (room := newest.room) == 0 or parts:
                newest = self._make(newest, int(batch.stamps[start]))
                room = newest.room
            stop = min(start + room, total)
            newest.reserve(stop - start)
            parts.append((newest, batch.part(start, stop)))
            start = stop
        for file, part in parts:
            file.put(part)
            if file not in self.files[-1:]:
                self.files.append(file)

    def _make(self, newest: IndexFile | None, stamp: int) -> IndexFile:
        name_ms = max(stamp, 0 if newest is None else newest.name_ms + 1)
        self._access.make_dirs(self.directory)
        path = self.directory / _name(name_ms)
        slots_end = HEADER_BYTES + self._config.index_slots * SLOT_BYTES
        allocated_bytes = min(slots_end + self._config.index_allocate_bytes, self._size_bytes)
        self._access.create(path, self._size_bytes, allocated_bytes)
        return self._file(path, name_ms, allocated_bytes)

    def _file(self, path: Path, name_ms: int, allocated_bytes: int) -> IndexFile:
        return IndexFile(
            self._access,
            path,
            name_ms,
            slots=self._config.index_slots,
            entries=self._config.index_entries,
            allocate_bytes=self._config.index_allocate_bytes,
            allocated_bytes=allocated_bytes,
        )

    def drop_below(self, physical_offset: int) -> int:
        """Delete the files all of whose records are below an offset, but never the last; how many.

        Not while a sync runs on another thread.
        """
        count = 0
        while len(self.files) > 1 and self.files[0].last_physical_offset < physical_offset:
            self._drop(self.files.pop(0))
            count += 1
        return count

    # Durability -----------------------------------------------------------------------------

    def sync_orders(self) -> list[SyncOrder]:
        """What must be synced so that all entries put by now are durable."""
        return [SyncOrder(file, file.next_number) for file in self.files if file.is_dirty]

    # Recovery -------------------------------------------------------------------------------

    def load(
        self,
        *,
        indexed_offset: int,
        entry_count: int,
        stamp_at: Callable[[int], int | None],
        has_keys: Callable[[int, int], bool],
    ) -> bool:
        """Take over the files as the checkpoint counts them; see the table above.

        ``stamp_at`` tells the store time of a record, ``has_keys`` whether a record in the log
        above one physical offset and below another has a key. False when the files must be built
        again from the log: then nothing is changed, and ``drop_all`` must follow once no checkpoint
        counts them any more.
        """
        found = self._found()
        if found is None:
            return False
        kept: list[IndexFile] = []
        for file in found:
            first = file.first_entry_offset
            if first is None or first >= indexed_offset:
                break
            kept.append(file)
        full_count = self._config.index_entries - 1
        if not kept:
            if entry_count:
                self._close(found)
                return False
        else:
            # Of the last file; all before it are full.
            last_count = (entry_count - 1) % full_count + 1
            missing_count = entry_count - last_count - (len(kept) - 1) * full_count
            lasts = [-1, *(file.last_physical_offset for file in kept[:-1])]
            if (
                entry_count <= 0
                or missing_count < 0
                or not all(file.is_full for file in kept[:-1])
                or any(
                    last > file.first_physical_offset
                    for last, file in zip(lasts, kept, strict=True)
                )
                or not kept[-1].holds(last_count, indexed_offset)
                or (
                    missing_count > 0
                    and any(
                        has_keys(last, file.first_physical_offset)
                        for last, file in zip(lasts, kept, strict=True)
                    )
                )
            ):
                self._close(found)
                return False
            last = kept[-1]
            last_stamp = stamp_at(last.offset_of(last_count))
            last.cut(last_count, last.last_timestamp_ms if last_stamp is None else last_stamp)
        for file in reversed(found[len(kept) :]):
            self._drop(file)
        self.files = kept
        return True

    def _found(self) -> list[IndexFile] | None:
        """The files that are there, by name; None when one cannot be ours."""
        found: list[IndexFile] = []
        for path in sorted(self.directory.iterdir()) if self.directory.is_dir() else ():
            name_ms = _time_of(path.name)
            if name_ms is None:
                continue
            stat = path.stat()
            if stat.st_size != self._size_bytes:
                self._close(found)
                return None
            allocated_bytes = self._size_bytes if stat.st_blocks * 512 >= stat.st_size else 0
            file = self._file(path, name_ms, allocated_bytes)
            file.load()
            found.append(file)
        return found

    def drop_all(self) -> None:
        """Delete every index file."""
        self.close()
        self.files = []
        for path in sorted(self.directory.iterdir()) if self.directory.is_dir() else ():
            if _time_of(path.name) is not None:
                self._access.unlink(path)

    def _drop(self, file: IndexFile) -> None:
        file.close()
        self._access.unlink(file.path)

    def _close(self, files: list[IndexFile]) -> None:
        for file in files:
            file.close()

    def close(self) -> None:
        self._close(self.files)


def _name(name_ms: int) -> str:
    moment = _EPOCH + name_ms * _MS
    return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1_000:03d}"


def _time_of(name: str) -> int | None:
    """The time in a file's name, ms; None for any other file."""
    if len(name) != INDEX_NAME_DIGITS or not name.isascii() or not name.isdigit():
        return None
    try:
        moment = datetime.datetime.strptime(f"{name[:14]} +0000", "%Y%m%d%H%M%S %z")
    except ValueError:
        return None
    return (moment - _EPOCH) // _MS + int(name[14:])
