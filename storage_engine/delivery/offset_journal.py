"""The journal of settled offsets: an append-only file between two checkpoints.

    consumer_offsets ── entries ──▶ [OffsetJournal offsets.journal] ── replay ──▶ consumer_offsets

    offset  width  field
         0      4  crc        CRC-32 of the rest of the entry
          4      1  kind       1 name, 2 settled, 3 position, 4 reset, 5 lease floor, 6 dropped,
                              7 skipped, 8 failed, 9 settled bits, 10 filter
         5      3  zeros
         8      4  name_id    which ``topic@group``, numbered from 0 in the order of kind 1
        12      4  queue_id   for kind 1: length of the name in bytes, which follows the entry
        16      8  first      queue offset; for kinds 3 and 4: the consumer offset to go on from;
                              for kind 5: receipts of a lower lease generation are void;
                              for kind 6: the same, of progress that begins from then on
        24      4  count      offsets ``[first, first + count)`` are settled, of kind 7 because a
                              filter passed over them; for kind 4: which reset;
                              for kind 6: the same, of progress that begins from then on;
                              for kind 8: how often ``first`` was delivered in vain in its place;
                              for kind 9: bytes of the bitmap that follows the entry: offset
                              ``first + n`` is settled when bit ``n % 8`` of byte ``n // 8``, the
                              lowest being 0, is set;
                              for kind 10: bytes of what follows the entry: through which filter
                              the group reads the topic, its kind, a space and its text

A reset is two entries, the lease floor first: cut between them, nothing has moved, and receipts
from before only cause a redelivery. An entry that is cut short or fails its CRC ends the journal:
it was being written when the machine stopped, and was not answered. Kind 9 is what a checkpoint
leaves of many that were settled in no order, a page of ``offset_bits.py`` each. Of kind 10 the
last one of a name counts.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from isal.isal_zlib import crc32

from storage_engine.delivery.offset_bits import run_count, runs_in
from storage_engine.disk.files import Files
from storage_engine.errors import StoreCorrupt, SyncFailed

if TYPE_CHECKING:
    from storage_engine.delivery.progress import Progress

    Runs = list[tuple[int, int]]

_ENTRY = struct.Struct(">IB3xIIqI")
_REST = struct.Struct(">B3xIIqI")
_CRC = struct.Struct(">I")
ENTRY_BYTES: Final = 28
COUNT_MAX: Final = (1 << 32) - 1
assert _ENTRY.size == ENTRY_BYTES
assert _REST.size == ENTRY_BYTES - _CRC.size

_COUNT_MAX: Final = (1 << 32) - 1  # of one entry
_ROOM_BYTES: Final = 64 * 1024  # for settles on a disk that was full before the start
NEXT_SUFFIX: Final = ".next"
_NAME: Final = 1
_SETTLED: Final = 2
_POSITION: Final = 3
_RESET: Final = 4
_LEASE_FLOOR: Final = 5
_DROPPED: Final = 6
_SKIPPED: Final = 7
_FAILED: Final = 8
_SETTLED_BITS: Final = 9
_FILTER: Final = 10
_FLAGS: Final = (_POSITION, _RESET, _LEASE_FLOOR, _DROPPED, _SKIPPED, _FAILED)  # of JournalEntry


class Beginning(NamedTuple):
    """What progress begins with, so that nothing of what was dropped before can change it."""

    reset_count: int = 0
    lease_floor: int = 0


_AT_FIRST: Final = Beginning()


class JournalEntry(msgspec.Struct, frozen=True):
    """One replayed entry: settled offsets, or where a group began, or went on after a reset, or
    (in ``first``) which leases that ended; or that the group or the topic was deleted, which
    concerns all queues. ``bits``: settled are not all of the ``count`` offsets, but those whose
    bit is set. ``filter``: kind and text, of all queues too.
    """

    group: str
    topic: str
    queue_id: int
    first: int
    count: int
    bits: int = 0
    is_position: bool = False
    is_reset: bool = False
    is_lease_floor: bool = False
    is_dropped: bool = False
    is_skipped: bool = False
    is_failed: bool = False
    filter: tuple[str, str] | None = None


class OffsetJournal:
    """See the module's docstring."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self._descriptor = -1
        self._end = 0  # of what ``read`` found whole
        self._syncing = threading.Lock()  # the descriptor is not closed under a running sync
        self._names: dict[tuple[str, str], int] = {}
        self._appended_count = 0
        self._synced_count = -1  # what a kill left in the page cache is not durable either
        self._failed_sync: SyncFailed | None = None

    @property
    def is_durable(self) -> bool:
        """Whether a sync would change nothing. Any thread."""
        return self._synced_count == self._appended_count and self._failed_sync is None

    def read(self) -> list[JournalEntry]:
        """Read its entries; changes nothing. ``open`` must follow. Raises ``StoreCorrupt``."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            content = b""
        try:
            entries, names, self._end = read_entries(content)
        except (IndexError, UnicodeDecodeError) as exc:
            raise StoreCorrupt(f"{self._path}: an entry has no group name") from exc
        self._names = {name: name_id for name_id, name in enumerate(names)}
        return entries

    def open(self) -> None:
        """Open for appending. A torn tail is cut off."""
        is_new = not self._path.exists()
        self._descriptor = self._files.open_append(self._path)
        if is_new:
            self._files.sync_dir(self._path.parent)
        if self._end < os.fstat(self._descriptor).st_size:
            os.ftruncate(self._descriptor, self._end)  # else the room behind it would be given back
        self._files.preallocate(self._descriptor, _ROOM_BYTES)

    def write_settled(
        self,
        settled: list[tuple[Progress, Runs]],
        skipped: dict[Progress, Runs] | None = None,
        failed: dict[Progress, dict[int, int]] | None = None,
        filters: Mapping[tuple[str, str], tuple[str, str]] = MappingProxyType({}),
    ) -> None:
        """Append runs of settled and skipped offsets, how often each of others has failed, and
        through which filters groups read, kind and text by (group, topic).

        One write to the page cache. Raises ``DiskFull``.
        """
        known_count = len(self._names)
        content = self._settled_bytes(settled, self._names, _SETTLED)
        if skipped:
            content += self._settled_bytes(skipped.items(), self._names, _SKIPPED)
        if failed:
            content += self._failed_bytes(failed, self._names)
        if filters:
            content += _filters_bytes(filters, self._names)
        self._append(content, known_count)

    def write_positions(self, group: str, topic: str, positions: dict[int, int]) -> None:
        """Append where a group begins, by queue id; one write. Raises ``DiskFull``."""
        known_count = len(self._names)
        head, name_id = _name_bytes((group, topic), self._names)
        parts = [
            _entry(_POSITION, name_id, queue_id, consumer_offset, 0)
            for queue_id, consumer_offset in positions.items()
        ]
        self._append(head + b"".join(parts), known_count)

    def write_resets(self, reset: list[Progress]) -> None:
        """Append the new offsets of groups after a reset; one write. Raises ``DiskFull``."""
        known_count = len(self._names)
        self._append(self._position_bytes(reset, self._names), known_count)

    def write_dropped(self, dropped: Iterable[tuple[str, str]], beginning: Beginning) -> None:
        """Append which (group, topic) are no more, and how others begin; one write.

        Raises ``DiskFull``.
        """
        known_count = len(self._names)
        self._append(_dropped_bytes(dropped, beginning, self._names), known_count)

    def restart(
        self,
        moved: list[Progress],
        settled: list[Progress],
        skipped: dict[Progress, Runs] | None = None,
        failed: dict[Progress, dict[int, int]] | None = None,
        dropped: Iterable[tuple[str, str]] = (),
        beginning: Beginning = _AT_FIRST,
        filters: Mapping[tuple[str, str], tuple[str, str]] = MappingProxyType({}),
    ) -> None:
        """Replace the journal by one that holds only this; durable on return.

        ``moved``: consumer offsets to keep; ``settled``: of whom what is settled
        above them; ``skipped``: runs above them;
        ``failed``: how often messages have failed in their places; ``dropped``: who is no more, or
        began anew; ``filters``: kind and text by (group, topic).
        """
        names: dict[tuple[str, str], int] = {}
        parts = [
            _dropped_bytes(dropped or _placeholder_drop(beginning), beginning, names),
            self._position_bytes(moved, names),
            self._above_bytes(settled, names),
        ]
        if skipped:
            parts.append(self._settled_bytes(skipped.items(), names, _SKIPPED))
        if failed:
            parts.append(self._failed_bytes(failed, names))
        parts.append(_filters_bytes(filters, names))
        aside = self._path.with_name(self._path.name + NEXT_SUFFIX)
        self._files.unlink(aside)
        descriptor = self._files.open_append(aside)
        try:
            self._files.append(descriptor, aside, b"".join(parts))
            self._files.preallocate(descriptor, _ROOM_BYTES)
            self._files.sync_file(descriptor, aside)
            self._files.rename(aside, self._path)
        except BaseException:
            os.close(descriptor)
            raise
        # From the rename on, only the new file counts, whatever happens next.
        with self._syncing:
            old, self._descriptor, self._names = self._descriptor, descriptor, names
            self._failed_sync = None
            os.close(old)
        try:
            self._files.sync_dir(self._path.parent)
        except SyncFailed as exc:
            self._failed_sync = exc  # after a power cut the old file may be the journal again
            raise

    def _position_bytes(
        self, progresses: list[Progress], names: dict[tuple[str, str], int]
    ) -> bytes:
        parts = []
        for progress in progresses:
            head, name_id = _name_bytes((progress.group, progress.topic), names)
            queue_id, offset, count = (
                progress.queue_id,
                progress.consumer_offset,
                progress.reset_count,
            )
            parts.append(head)
            if count:
                parts.append(_entry(_LEASE_FLOOR, name_id, queue_id, progress.lease_floor, 0))
            kind = _RESET if count else _POSITION
            parts.append(_entry(kind, name_id, queue_id, offset, count))
        return b"".join(parts)

    def _settled_bytes(
        self,
        settled: Iterable[tuple[Progress, Runs]],
        names: dict[tuple[str, str], int],
        kind: int,
    ) -> bytes:
        parts = []
        for progress, runs in settled:
            head, name_id = _name_bytes((progress.group, progress.topic), names)
            if head:
                parts.append(head)
            for first, count in runs:
                while count > _COUNT_MAX:
                    parts.append(_entry(kind, name_id, progress.queue_id, first, _COUNT_MAX))
                    first, count = first + _COUNT_MAX, count - _COUNT_MAX
                parts.append(_entry(kind, name_id, progress.queue_id, first, count))
        return b"".join(parts)

    def _above_bytes(self, progresses: list[Progress], names: dict[tuple[str, str], int]) -> bytes:
        """What is settled above consumer offsets: for each page its runs, or where they would be
        longer its bits.
        """
        parts = []
        for progress in progresses:
            head, name_id = _name_bytes((progress.group, progress.topic), names)
            parts.append(head)
            for first, bits in progress.settled.parts():
                length = (bits.bit_length() + 7) // 8
                if run_count(bits) * ENTRY_BYTES > ENTRY_BYTES + length:
                    content = bits.to_bytes(length, "little")
                    parts.append(
                        _entry(_SETTLED_BITS, name_id, progress.queue_id, first, length, content)
                    )
                    continue
                parts += [
                    _entry(_SETTLED, name_id, progress.queue_id, run_first, count)
                    for run_first, count in runs_in(first, bits)
                ]
        return b"".join(parts)

    def _failed_bytes(
        self, failed: dict[Progress, dict[int, int]], names: dict[tuple[str, str], int]
    ) -> bytes:
        counted = [(progress, list(counts.items())) for progress, counts in failed.items()]
        return self._settled_bytes(counted, names, _FAILED)

    def _append(self, content: bytes, known_count: int) -> None:
        if not content:
            return
        try:
            self._files.append(self._descriptor, self._path, content)
        except BaseException:
            # Nothing of it was written, so the names it introduced are not in the file either.
            self._names = {name: at for name, at in self._names.items() if at < known_count}
            raise
        self._appended_count += 1

    def sync(self) -> None:
        """One fdatasync, if anything was appended since the last. Any thread.

        Raises ``SyncFailed``, and does so until ``restart``: the kernel may have dropped what it
        could not write, and would report success.
        """
        with self._syncing:
            if self._failed_sync is not None:
                raise SyncFailed(f"an earlier sync failed: {self._failed_sync}")
            if self.is_durable:
                return
            count = self._appended_count  # before: what is appended meanwhile may miss this sync
            try:
                self._files.sync_file(self._descriptor, self._path)
            except SyncFailed as exc:
                self._failed_sync = exc
                raise
            self._synced_count = count

    def close(self) -> None:
        with self._syncing:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


def read_entries(content: bytes) -> tuple[list[JournalEntry], list[tuple[str, str]], int]:
    """(entries, (group, topic) by name id, where the whole entries end).

    Raises ``StoreCorrupt``: one is of a kind that only a newer engine knows.
    """
    entries: list[JournalEntry] = []
    names: list[tuple[str, str]] = []
    whole_end = 0
    for at, kind, name_id, queue_id, first, count, end in _whole_entries(content):
        if not _NAME <= kind <= _FILTER:
            raise StoreCorrupt(
                f"entry of kind {kind} at {at} of the offset journal, this engine knows "
                f"{_NAME} to {_FILTER}: a newer engine wrote it"
            )
        if kind == _NAME:
            topic, _, group = content[at + ENTRY_BYTES : end].decode().partition("@")
            names.append((group, topic))
        elif kind == _FILTER:
            group, topic = names[name_id]
            wanted, _, text = content[at + ENTRY_BYTES : end].decode().partition(" ")
            entries.append(JournalEntry(group, topic, 0, 0, 0, filter=(wanted, text)))
        else:
            group, topic = names[name_id]
            kinds = [kind == each for each in _FLAGS]
            bits = 0
            if kind == _SETTLED_BITS:
                bits = int.from_bytes(content[at + ENTRY_BYTES : end], "little")
                count = bits.bit_length()
            entries.append(JournalEntry(group, topic, queue_id, first, count, bits, *kinds))
        whole_end = end
    return entries, names, whole_end


def whole_bytes(content: bytes) -> int:
    """Where the whole entries end; ``content`` may begin with any of a journal's."""
    return max((each[-1] for each in _whole_entries(content)), default=0)


def _whole_entries(content: bytes) -> Iterator[tuple[Any, ...]]:  # Any: as struct has them
    """Of each: its position, kind, name id, queue id, first, count, and where it ends."""
    at = 0
    while at + ENTRY_BYTES <= len(content):
        crc, kind, name_id, queue_id, first, count = _ENTRY.unpack_from(content, at)
        end = at + ENTRY_BYTES
        if kind == _NAME:
            end += queue_id
        elif kind in (_SETTLED_BITS, _FILTER):
            end += count
        if end > len(content) or crc32(content[at + 4 : end]) != crc:
            return
        yield at, kind, name_id, queue_id, first, count, end
        at = end


def _name_bytes(name: tuple[str, str], names: dict[tuple[str, str], int]) -> tuple[bytes, int]:
    known = names.get(name)
    if known is not None:
        return b"", known
    group, topic = name
    text = f"{topic}@{group}".encode()
    name_id = names[name] = len(names)
    rest = _REST.pack(_NAME, name_id, len(text), 0, 0) + text
    return _CRC.pack(crc32(rest)) + rest, name_id


def _dropped_bytes(
    dropped: Iterable[tuple[str, str]], beginning: Beginning, names: dict[tuple[str, str], int]
) -> bytes:
    parts = []
    for name in dropped:
        head, name_id = _name_bytes(name, names)
        parts += [head, _entry(_DROPPED, name_id, 0, beginning.lease_floor, beginning.reset_count)]
    return b"".join(parts)


def _filters_bytes(
    filters: Mapping[tuple[str, str], tuple[str, str]], names: dict[tuple[str, str], int]
) -> bytes:
    parts = []
    for name, (kind, text) in filters.items():
        head, name_id = _name_bytes(name, names)
        content = f"{kind} {text}".encode()
        parts += [head, _entry(_FILTER, name_id, 0, 0, len(content), content)]
    return b"".join(parts)


def _placeholder_drop(beginning: Beginning) -> list[tuple[str, str]]:
    """An empty group name, for keeping ``beginning`` when no group was dropped."""
    return [("", "")] if any(beginning) else []


def _entry(
    kind: int, name_id: int, queue_id: int, first: int, count: int, content: bytes = b""
) -> bytes:
    rest = _REST.pack(kind, name_id, queue_id, first, count) + content
    return _CRC.pack(crc32(rest)) + rest
