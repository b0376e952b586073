"""Everything the engine remembers of request keys: in memory, in files, in records of the log.

    once_puts ── stored ──▶ [Dedup] ──▶ index, files
    recovery ── record ───▶ [Dedup]

The truth is the record itself: its mark is written with the message, in the same bytes under the
same CRC, so whatever becomes of the message becomes of its key. Loop thread only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.dedup.dedup_files import DedupFiles
from storage_engine.dedup.dedup_index import NAMESPACE_HASH_BYTES, DedupIndex, Stored
from storage_engine.disk.files import Files
from storage_engine.records.dedup_mark import dedup_mark_of, key_hash_of
from storage_engine.records.message_keys import keys_of
from storage_engine.records.record_parts import RecordParts
from storage_engine.records.schedule_topic import REAL_QUEUE_ID, REAL_TOPIC, SCHEDULE_TOPIC_BYTES
from storage_engine.records.settles import SETTLES_HEAD

_REAL_TOPIC_HEAD = f"{REAL_TOPIC}\x01".encode()
_REAL_QUEUE_HEAD = f"{REAL_QUEUE_ID}\x01".encode()


class Dedup:
    """See the module's docstring."""

    def __init__(self, config: StoreConfig, files: Files, clock: Clock) -> None:
        self.index = DedupIndex(config, clock)
        self._files = DedupFiles(config, files, clock, self.index)
        self._clock = clock
        self.load = self._files.load

    def remember(self, key_hash: bytes, stored: Stored) -> None:
        """A request has stored its message just now."""
        if self.index.add(key_hash, stored):
            self._files.add(key_hash, stored)

    def found(self, physical_offset: int, parts: RecordParts) -> None:
        """Recovery has found a record with a mark. One that was moved is not what was sent."""
        if SETTLES_HEAD in parts.tail:
            return
        properties = parts.tail[parts.properties_at :]
        mark = dedup_mark_of(properties)
        if mark is None:
            return
        topic, queue_id = real_place(parts.topic, parts.queue_id, properties)
        stored = Stored(
            mark.fingerprint,
            physical_offset,
            queue_id,
            parts.topic == SCHEDULE_TOPIC_BYTES,
            parts.queue_offset,
            parts.store_timestamp_ms,
            namespace_hash_of(topic),
            next(iter(keys_of(properties, 0, len(properties))), b""),
        )
        age_ms = max(0, self._clock.now_ms() - parts.store_timestamp_ms)
        key_hash = key_hash_of(topic, mark.key)
        if self.index.add(key_hash, stored, age_ms):
            self._files.add(key_hash, stored)

    def writer(self, flushed_offset: int) -> Callable[[], None]:
        """See ``DedupFiles.writer``."""
        return self._files.writer(flushed_offset)


def real_place(topic: bytes, queue_id: int, properties: bytes) -> tuple[bytes, int]:
    """Where the sender sent a message, also one that waits in the schedule."""
    if topic != SCHEDULE_TOPIC_BYTES:
        return topic, queue_id
    real_queue = _value(properties, _REAL_QUEUE_HEAD)
    return _value(properties, _REAL_TOPIC_HEAD), int(real_queue) if real_queue.isdigit() else 0


def namespace_hash_of(topic: bytes) -> bytes:
    namespace = topic.partition(b"%")[0]
    return hashlib.blake2b(namespace, digest_size=NAMESPACE_HASH_BYTES).digest()


def _value(properties: bytes, head: bytes) -> bytes:
    at = properties.find(head)
    if at < 0 or (at > 0 and properties[at - 1] != 2):
        return b""
    end = properties.find(b"\x02", at)
    return properties[at + len(head) : end if end >= 0 else None]
