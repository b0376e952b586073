"""The keys by which a message can be found: its ID and its own keys; pure functions.

    put_path, indexer ── properties ──▶ [keys_of] ──▶ id, keys

Keys of a property list stand under ``UNIQ_KEY`` and, separated by spaces, ``KEYS``. What a putter
collects and what is read from the log later is the same, since both ask here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from storage_engine.records.record import (
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_HEAD,
    properties_end,
)

_ID_BYTES: Final = 34  # of ``message_id.new_message_id``
ID_HEAD: Final = b"UNIQ_KEY\x01"
KEYS_HEAD: Final = b"KEYS\x01"
# Where our encoder writes the id, counted back from the end of the record: right before the CRC.
ID_HEAD_BACK: Final = CRC_PROPERTY_BYTES + 1 + _ID_BYTES + len(ID_HEAD)
ID_BACK: Final = CRC_PROPERTY_BYTES + 1 + _ID_BYTES
ID_END_BACK: Final = CRC_PROPERTY_BYTES + 1
_PAIR_END: Final = b"\x02"
_KEY_END: Final = b" "
PAIR_END: Final = 2
BEHIND_ID: Final = _PAIR_END + CRC_PROPERTY_HEAD


class KeyBatch(NamedTuple):
    """Keys of the records of one append, in log order.

    ``keys`` of all records stand one after another: one of each record, but as many as ``counts``
    says of those that it lists by their index, ascending.
    """

    topic_hashes: list[int]  # ``key_hash.topic_hash`` of each record's topic
    keys: list[bytes]
    counts: list[tuple[int, int]]
    physical_offsets: list[int]
    stamps: list[int]  # store time of each, ms

    def extend(self, other: KeyBatch) -> None:
        """Add the records of a batch that follows this one in the log."""
        if other.counts:
            at = self.message_count
            self.counts.extend([(at + index, count) for index, count in other.counts])
        self.topic_hashes.extend(other.topic_hashes)
        self.keys.extend(other.keys)
        self.physical_offsets.extend(other.physical_offsets)
        self.stamps.extend(other.stamps)

    @property
    def message_count(self) -> int:
        return len(self.topic_hashes)


def empty_batch() -> KeyBatch:
    return KeyBatch([], [], [], [], [])


def keys_of(buffer: bytes, properties_at: int, end: int) -> list[bytes]:
    """Id, then keys of a record whose properties are ``buffer[properties_at:end]``; maybe none.

    The id has its fast place, see ``ID_BACK``; elsewhere the last property of a name counts, as in
    Java's map.
    """
    head_at = end - ID_HEAD_BACK
    if (
        head_at >= properties_at
        and buffer.startswith(ID_HEAD, head_at)
        and buffer.startswith(BEHIND_ID, end - ID_END_BACK)
        and (head_at == properties_at or buffer[head_at - 1] == PAIR_END)
    ):
        message_id = buffer[end - ID_BACK : end - ID_END_BACK]
        keys_at = buffer.rfind(KEYS_HEAD, properties_at, head_at)
        if keys_at < 0:
            return [message_id]
        if keys_at == properties_at or buffer[keys_at - 1] == PAIR_END:
            keys_at += len(KEYS_HEAD)
            keys = buffer[keys_at : buffer.find(_PAIR_END, keys_at, head_at)]
            if _KEY_END not in keys:
                return [message_id, keys] if keys else [message_id]
            return [message_id, *filter(None, keys.split(_KEY_END))]
    message_id = keys = b""
    for pair in buffer[properties_at : properties_end(buffer, properties_at, end)].split(_PAIR_END):
        if pair.startswith(ID_HEAD):
            message_id = pair[len(ID_HEAD) :]
        elif pair.startswith(KEYS_HEAD):
            keys = pair[len(KEYS_HEAD) :]
    return [key for key in (message_id, *keys.split(_KEY_END)) if key]
