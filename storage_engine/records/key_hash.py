"""The hash by which index files know a key: Java's string hash of ``topic#key``, made
non-negative; pure functions.

    topics, keys ──▶ [key_hashes] ──▶ one number of 0 to 2^31 - 1 each

From RocketMQ 5.3 ``IndexService.buildKey`` and ``IndexFile.indexKeyHashMethod``. Topic and key are
hashed apart, keys of one length together: hash(topic# + key) = hash(topic#) * 31^n + hash(key)
modulo 2^32, where n is the length of the key in UTF-16 units.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from storage_engine.records.tag_hash import java_hash

KEY_MARK: Final = b"#"
_MIN_VALUE: Final = -(1 << 31)
_BASE: Final = 31
_RANGE: Final = 1 << 32
_topic_hashes: dict[bytes, int] = {}
_TOPICS_MAX: Final = 100_000
# Longer keys are hashed one by one: each length below keeps a table of its powers.
_TOGETHER_MAX: Final = 256
_powers: dict[int, NDArray[np.uint32]] = {}


def key_hash(topic: bytes, key: bytes) -> int:
    """The hash of one key. Bytes that are no UTF-8 count as U+FFFD, as in Java."""
    value = java_hash(_text(topic + KEY_MARK) + _text(key))
    return 0 if value == _MIN_VALUE else abs(value)


def topic_hash(topic: bytes) -> int:
    """What the topic contributes to the hashes of its keys, for ``key_hashes``."""
    known = _topic_hashes.get(topic)
    if known is None:
        if len(_topic_hashes) >= _TOPICS_MAX:
            _topic_hashes.clear()
        known = _topic_hashes[topic] = java_hash(_text(topic + KEY_MARK)) % _RANGE
    return known


def key_hashes(topic_hashes: NDArray[np.uint32], keys: list[bytes]) -> NDArray[np.int64]:
    """``key_hash`` of each key with the ``topic_hash`` of its topic, (n,) int64."""
    lengths = list(map(len, keys))
    shortest, longest = min(lengths), max(lengths)
    if shortest == longest:
        values = _of_one_length(topic_hashes, keys, longest)
    else:
        values = np.empty(len(keys), np.uint32)
        table = np.array(lengths)
        for length in set(lengths):
            indexes = np.flatnonzero(table == length)
            group = [keys[index] for index in indexes.tolist()]
            values[indexes] = _of_one_length(topic_hashes[indexes], group, length)
    signed = values.view(np.int32).astype(np.int64)
    # abs(MIN_VALUE) is no int in Java: RocketMQ makes it 0.
    return np.where(signed == _MIN_VALUE, 0, np.abs(signed))


def _of_one_length(
    topic_hashes: NDArray[np.uint32], keys: list[bytes], length: int
) -> NDArray[np.uint32]:
    joined = b"".join(keys)
    if not 0 < length <= _TOGETHER_MAX or not joined.isascii():
        texts = [_text(key) for key in keys]
        shifts = [pow(_BASE, len(text.encode("utf-16-be")) // 2, _RANGE) for text in texts]
        values = np.array([java_hash(text) % _RANGE for text in texts], np.uint32)
        return values + topic_hashes * np.array(shifts, np.uint32)
    powers = _powers.get(length)
    if powers is None:
        powers = _powers[length] = np.array(
            [pow(_BASE, length - 1 - index, _RANGE) for index in range(length)], np.uint32
        )
    table = np.frombuffer(joined, np.uint8).reshape(len(keys), length)
    values = table.astype(np.uint32) @ powers
    return values + topic_hashes * np.uint32(pow(_BASE, length, _RANGE))


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
