"""Records that the engine itself appends: moved messages, and scheduled ones that retention rolls
forward.

    forwarder, moves ── records ──▶ [EnginePuts] ──▶ commit_log ──▶ dispatcher ── published() ──▶

They are whole records of topics that exist; nothing of them is refused. They become visible when
they are durable, whatever the topic's durability: what they replace is given up then.
Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from storage_engine.dispatcher import Dispatcher
from storage_engine.log.commit_log import CommitLog, Entry
from storage_engine.log.durability import Durability
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


class Target(NamedTuple):
    """Where a record goes, as read from it before; its hosts are IPv4."""

    queue: ConsumeQueue
    tag_hash: int  # of its unit
    topic_hash: int
    keys: list[bytes]


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

    def append(
        self,
        payload: bytes,
        published: Callable[[], None] | None = None,
        targets: Sequence[Target | None] = (),
    ) -> list[int]:
        """Append records that stand back to back; returns their queue offsets.

        ``targets``: of the first records, those that are known.

        ``published`` is called once they are durable and visible; never when the engine stops
        before. Raises, with nothing appended: ``DiskFull``; ``StoreReadOnly`` while segments are
        written anew after a failed sync.
        """
        if self._durability.refusal is not None:
            raise self._durability.refusal
        entries: list[Entry] = []
        keys = empty_batch()
        at, known = 0, iter(targets)
        while at < len(payload):
            target = next(known, None)
            if target is not None:
                record_bytes = int.from_bytes(payload[at : at + 4])
                entries.append(
                    (at, record_bytes, target.queue, STORE_TIMESTAMP_AT, target.tag_hash)
                )
                keys.topic_hashes.append(target.topic_hash)
                keys.keys.extend(target.keys)
                if len(target.keys) != 1:
                    keys.counts.append((len(entries) - 1, len(target.keys)))
                at += record_bytes
                continue
            parts = parts_of(payload, at)
            queue = self._queues.by_topic[parts.topic][parts.queue_id]
            tag_hash = 0
            if parts.topic == SCHEDULE_TOPIC_BYTES or _TAG_HEAD in parts.tail:
                tag_hash = unit_tag_of(parts.topic, parts.tail[parts.properties_at :])
            entries.append((at, parts.record_bytes, queue, _stamp_at(payload, at), tag_hash))
            own = keys_of(parts.tail, parts.properties_at, len(parts.tail))
            keys.topic_hashes.append(topic_hash(parts.topic))
            keys.keys.extend(own)
            if len(own) != 1:
                keys.counts.append((len(entries) - 1, len(own)))
            at += parts.record_bytes
        offsets = self._commit_log.append(payload, entries)
        end_offset = self._commit_log.append_offset
        keys.physical_offsets.extend(offsets[1::2])
        keys.stamps.extend([self._commit_log.store_timestamp_ms] * len(entries))
        self._dispatcher.follow(end_offset, entries, keys, published)
        self._durability.wait(end_offset, _nobody_asks)
        return offsets[::2]


def _stamp_at(payload: bytes, at: int) -> int:
    """Position of STORETIMESTAMP in the record at ``payload[at]``."""
    sysflag = int.from_bytes(payload[at + SYSFLAG_AT : at + SYSFLAG_AT + 4])
    is_v6 = sysflag & SYSFLAG_BORN_HOST_V6
    return STORE_TIMESTAMP_AT + (HOST_V6_BYTES - HOST_V4_BYTES if is_v6 else 0)


def _nobody_asks(_: object) -> None:
    """A sync that failed is repaired; the records are published then."""
