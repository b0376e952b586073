"""Records that the engine itself appends: moved messages, and scheduled ones that retention copies
forward.

    forwarder, moves ── records ──▶ [EnginePuts] ──▶ commit_log ──▶ dispatcher ── published() ──▶

They are whole records of topics that exist; nothing of them is refused. They become visible when
they are durable, whatever the topic's durability: what they replace is given up then.
Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from storage_engine.log.commit_log import CommitLog, Entry
from storage_engine.log.durability import Durability
from storage_engine.puts.dispatcher import Dispatcher
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.records.key_hash import topic_hash
from storage_engine.records.message_keys import empty_batch, keys_of
from storage_engine.records.record import (
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    STORE_TIMESTAMP_AT,
    SYSFLAG_AT,
    SYSFLAG_BORN_HOST_V6,
)
from storage_engine.records.record_parts import parts_of
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC_BYTES, unit_tag_of

_TAG_HEAD: Final = b"TAGS\x01"


class PutBatch:
    """Records to be appended at once: their bytes in ``parts``, back to back, and what is known of
    each. Whoever makes many alike adds to the lists himself.
    """

    __slots__ = ("entries", "keys", "parts", "size_bytes")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size_bytes = 0  # of all parts
        self.entries: list[Entry] = []
        self.keys = empty_batch()

    def add(self, record: bytes, by_topic: Mapping[bytes, Sequence[ConsumeQueue]]) -> None:
        """Add a record of a topic that exists, as it says itself."""
        parts = parts_of(record)
        queue = by_topic[parts.topic][parts.queue_id]
        tag_hash = 0
        if parts.topic == SCHEDULE_TOPIC_BYTES or _TAG_HEAD in parts.tail:
            tag_hash = unit_tag_of(parts.topic, parts.tail[parts.properties_at :])
        keys = keys_of(parts.tail, parts.properties_at, len(parts.tail))
        self.add_known(
            record, queue, tag_hash, topic_hash(parts.topic), keys, stamp_at=_stamp_at(record)
        )

    def add_known(
        self,
        record: bytes,
        queue: ConsumeQueue,
        tag_hash: int,
        topic_hash: int,
        keys: list[bytes],
        *,
        stamp_at: int = STORE_TIMESTAMP_AT,
    ) -> None:
        """Add a record that need not be read again; ``stamp_at``: where STORETIMESTAMP stands."""
        self.entries.append((self.size_bytes, len(record), queue, stamp_at, tag_hash))
        self.parts.append(record)
        self.size_bytes += len(record)
        self.keys.topic_hashes.append(topic_hash)
        self.keys.keys.extend(keys)
        if len(keys) != 1:
            self.keys.counts.append((len(self.entries) - 1, len(keys)))


class EnginePuts:
    """See the module's docstring."""

    def __init__(
        self,
        commit_log: CommitLog,
        dispatcher: Dispatcher,
        durability: Durability,
        queues: ConsumeQueues,
    ) -> None:
        self._commit_log = commit_log
        self._dispatcher = dispatcher
        self._durability = durability
        self._queues = queues
        self.batch_bytes_max = commit_log.batch_bytes_max

    def batch_of(self, records: Iterable[bytes]) -> PutBatch:
        """Records of topics that exist."""
        batch = PutBatch()
        for record in records:
            batch.add(record, self._queues.by_topic)
        return batch

    def append(self, batch: PutBatch, published: Callable[[], None] | None = None) -> list[int]:
        """Append records, each whole batch only once; returns their queue offsets.

        ``published`` is called once they are durable and visible; never when the engine stops
        before. Raises, with nothing appended: ``DiskFull``; ``StoreReadOnly`` while segments are
        written anew after a failed sync; ``ShuttingDown``.
        """
        if self._durability.refusal is not None:
            raise self._durability.refusal
        entries, keys = batch.entries, batch.keys
        offsets = self._commit_log.append(b"".join(batch.parts), entries)
        end_offset = self._commit_log.append_offset
        keys.physical_offsets.extend(offsets[1::2])
        keys.stamps.extend([self._commit_log.store_timestamp_ms] * len(entries))
        self._dispatcher.follow(end_offset, entries, keys, published)
        self._durability.wait(end_offset, _ignore_outcome)
        return offsets[::2]


def _stamp_at(record: bytes) -> int:
    """Position of STORETIMESTAMP in a record."""
    sysflag = int.from_bytes(record[SYSFLAG_AT : SYSFLAG_AT + 4])
    is_v6 = sysflag & SYSFLAG_BORN_HOST_V6
    return STORE_TIMESTAMP_AT + (HOST_V6_BYTES - HOST_V4_BYTES if is_v6 else 0)


def _ignore_outcome(_: object) -> None:
    """A sync that failed is repaired; the records are published then."""
