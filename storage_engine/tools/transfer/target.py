"""A store made from another one: its log is written here, the rest by the engine itself.

drafts ──▶ [NewStore] ── LogWriter ──▶ log ── Store.open ──▶ consume queues, key index
              └── number and hash of each queue's messages ── read back: the same?
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Self

from isal.isal_zlib import crc32

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.disk.layout import COMMIT_LOG_DIR, segment_name
from storage_engine.errors import DiskFull, RecordRefused, StoreCorrupt
from storage_engine.records.record import (
    BLANK,
    CRC_DIGITS,
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_HEAD,
    FIXED_BYTES,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    MAGIC_BLANK,
    OFFSETS,
    STORE_TIMESTAMP_AT,
    STORED_BY,
    SYSFLAG_AT,
    SYSFLAG_BORN_HOST_V6,
    crc_digits,
)
from storage_engine.records.record_draft import RecordDraft, read_draft
from storage_engine.records.record_parts import store_timestamp_of
from storage_engine.store import STORE_HOST, Store
from storage_engine.tools.transfer.source import SourceRecord, SourceRejected, StoreFiles

OnProgress = Callable[[int, int], None]  # bytes of the log that were read, bytes in all
QueueKey = tuple[str, int]
_STEP_RECORDS: Final = 4_096
# Records get other names and a CRC; queues and keys come on top.
_ROOM_PART: Final = 4


_QUEUE_OFFSET_AT: Final = 20
_DIGITS_FROM: Final = CRC_PROPERTY_BYTES - len(CRC_PROPERTY_HEAD)
_BUFFER_BYTES: Final = 4 << 20


class LogWriter:
    """Writes the segments of a new log that no process has open, front to back.

        record with holes, queue offset, store time ──▶ [LogWriter] ── write ──▶ commitlog/*

    The records and the BLANK at the end of a segment are those of ``record.py``. Nothing is
    durable before ``finish``.

    ``end_offset``: physical, of what was appended."""

    def __init__(
        self, directory: Path, *, segment_bytes: int, start_offset: int, store_host: bytes
    ) -> None:
        assert start_offset % segment_bytes == 0
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._store_host = store_host
        self.end_offset = start_offset
        self._room = 0  # in the open segment
        self._descriptor = -1
        self._buffer = bytearray()

    def append(
        self, record: bytes, *, queue_offset: int, stored_ms: int, is_covered: bool = True
    ) -> int:
        """Append a record; its physical offset. ``is_covered``: it ends with a CRC property.

        Raises:
            RecordRefused: no segment is long enough for it.
            DiskFull: there is no room for another segment.
        """
        if len(record) + BLANK.size > self._segment_bytes:
            raise RecordRefused(
                f"a record of {len(record)} bytes does not fit into a segment of "
                f"{self._segment_bytes} bytes"
            )
        if self._room < len(record) + BLANK.size:
            self._roll()
        place = self.end_offset
        whole = bytearray(record)
        OFFSETS.pack_into(whole, _QUEUE_OFFSET_AT, queue_offset, place)
        sysflag = int.from_bytes(whole[SYSFLAG_AT : SYSFLAG_AT + 4])
        stamp_at = STORE_TIMESTAMP_AT
        stamp_at += HOST_V6_BYTES - HOST_V4_BYTES if sysflag & SYSFLAG_BORN_HOST_V6 else 0
        STORED_BY.pack_into(whole, stamp_at, stored_ms, self._store_host)
        if is_covered:
            crc = crc32(memoryview(whole)[:-CRC_PROPERTY_BYTES]) & CRC_MASK
            whole[-_DIGITS_FROM : CRC_DIGITS - _DIGITS_FROM] = crc_digits(crc)
        self._write(whole)
        return place

    def finish(self) -> None:
        """Make all of it durable. Raises ``OSError``."""
        if self._descriptor >= 0:
            self._close()

    def abandon(self) -> None:
        """Let go of the open segment, whatever is in it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, content: bytes | bytearray) -> None:
        self._buffer += content
        self.end_offset += len(content)
        self._room -= len(content)
        if len(self._buffer) >= _BUFFER_BYTES:
            self._flush()

    def _roll(self) -> None:
        if self._descriptor >= 0:
            blank_bytes = self._room
            self._write(BLANK.pack(blank_bytes, MAGIC_BLANK))
            self.end_offset += self._room
            self._close()
        path = self._directory / segment_name(self.end_offset)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(self._descriptor, 0, self._segment_bytes)
        except OSError as exc:
            raise DiskFull(
                f"no room for {path.name} of {self._segment_bytes} bytes: {exc.strerror}"
            ) from exc
        self._room = self._segment_bytes

    def _flush(self) -> None:
        view = memoryview(self._buffer)
        while view:
            view = view[os.write(self._descriptor, view) :]
        view.release()
        self._buffer = bytearray()

    def _close(self) -> None:
        self._flush()
        os.fsync(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1


assert _DIGITS_FROM == CRC_DIGITS + 1


def counted(store: StoreFiles, on_progress: OnProgress) -> Iterable[SourceRecord]:
    """The records of the store; ``on_progress`` hears now and then how far they are."""
    for number, record in enumerate(store.records()):
        if number % _STEP_RECORDS == 0:
            on_progress(record.head.physical_offset - store.start_offset, store.log_bytes)
        yield record
    on_progress(store.log_bytes, store.log_bytes)


def require_room(store: StoreFiles, target: Path) -> None:
    place = target
    while not place.exists():
        place = place.parent
    wanted = store.log_bytes + store.log_bytes // _ROOM_PART
    free = shutil.disk_usage(place).free
    if free < wanted:
        raise SourceRejected(
            f"{place} has {free} bytes free, but about {wanted} are needed; nothing was changed"
        )


class QueueDigest:
    """Number of messages of a queue, and a hash over what must be the same of them."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256()

    def add(self, queue_offset: int, view: bytes | memoryview, at: int) -> None:
        """Queue offset, store time, born time and host, body."""
        draft = read_draft(view, at)
        self._hash.update(queue_offset.to_bytes(8))
        self._hash.update(store_timestamp_of(view, at).to_bytes(8))
        self._hash.update(draft.born)
        self._hash.update(draft.body)
        self.count += 1

    @property
    def digest(self) -> bytes:
        return self._hash.digest()


class NewStore:
    """See the module's docstring. A context manager over the writing of the log; the tables of
    ``config/`` must be written before ``take_over``.

    ``begins_late``: some queue does not begin at 0. A log that starts at 0 would have to hold what
    is missing there.
    """

    def __init__(self, config: StoreConfig, *, begins_late: bool) -> None:
        self._config = config
        self._next: defaultdict[QueueKey, int] = defaultdict(int)
        self._queues: defaultdict[QueueKey, QueueDigest] = defaultdict(QueueDigest)
        directory = config.store_path / COMMIT_LOG_DIR
        directory.mkdir(parents=True, mode=0o700)
        self._log = LogWriter(
            directory,
            segment_bytes=config.segment_bytes,
            start_offset=config.segment_bytes if begins_late else 0,
            store_host=STORE_HOST,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._log.finish()
        finally:
            self._log.abandon()

    def write(self, record: SourceRecord, draft: RecordDraft, queue_offset: int | None) -> None:
        """Append what a record has become. ``queue_offset``: None, the next one of its queue.

        Raises ``RecordRefused``: it does not fit the format; ``DiskFull``.
        """
        key = draft.topic.decode(), draft.queue_id
        if queue_offset is None:
            queue_offset = self._next[key]
        self._log.append(
            draft.encode(), queue_offset=queue_offset, stored_ms=record.head.store_timestamp_ms
        )
        self._next[key] = queue_offset + 1
        self._queues[key].add(queue_offset, record.view, record.at)

    def queue_counts(self) -> dict[str, int]:
        """Topic → how many queues messages were written to."""
        counts: dict[str, int] = {}
        for topic, queue_id in self._queues:
            counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        return counts

    async def take_over(self, clock: Clock) -> tuple[int, int]:
        """Let the engine build queues and keys, read every message through them, and stop in order;
        how many queues and messages were compared.

        Raises ``StoreCorrupt``: they are not what was written.
        """
        store = Store(self._config, clock)
        store.open(asyncio.get_running_loop())
        try:
            # Nothing else runs on the loop before this is through: nothing is delivered yet.
            for key, wanted in self._queues.items():
                found = _digest_of(store, *key)
                if (found.count, found.digest) != (wanted.count, wanted.digest):
                    raise StoreCorrupt(
                        f"{key[0]}/{key[1]} has {found.count} messages and the source "
                        f"{wanted.count}, or their contents differ: the new store is "
                        "not used. Please report this"
                    )
        finally:
            await store.close()
        return len(self._queues), sum(queue.count for queue in self._queues.values())


def _digest_of(store: Store, topic: str, queue_id: int) -> QueueDigest:
    """Of one queue, read as a consumer reads it."""
    digest = QueueDigest()
    queue = store.catalog.get_queues(topic)[queue_id]
    for queue_offset in range(queue.min_offset, queue.max_offset):
        physical_offset, record_bytes, _ = queue.unit(queue_offset)
        if record_bytes >= FIXED_BYTES:  # else no record of the source had that offset
            content = store.read_records([(physical_offset, record_bytes)])
            digest.add(queue_offset, content, 0)
    return digest
