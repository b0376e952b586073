"""Which of many topics may have a message with a key: one request instead of a look-up in each.

    topics, keys ──▶ hashes ──▶ chains of index files ──▶ topics with an entry of such a hash

No record is read: a topic that is named may have only another key of the same hash, or messages
that retention has taken. One that is left out has none. Loop thread only; changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from storage_engine.errors import BadRequest
from storage_engine.index.index_file import IndexFile
from storage_engine.index.index_files import IndexFiles
from storage_engine.records.key_hash import key_hashes, topic_hash

# Of one request, topics times keys: 1 to 2 ms for each index file.
_PAIRS_MAX: Final = 2_048
_CHAIN_MAX: Final = 32  # entries of a slot that are looked at; behind them any key may be


def topics_with_keys(index: IndexFiles, topics: Sequence[str], keys: Sequence[str]) -> list[int]:
    """Indexes of ``topics`` that may have one of ``keys``, ascending.

    Raises ``BadRequest``: too many are asked for at once, or a key is empty.
    """
    if len(topics) * len(keys) > _PAIRS_MAX:
        raise BadRequest(
            f"{len(topics)} topics with {len(keys)} keys are asked for, at most {_PAIRS_MAX} pairs "
            "are allowed"
        )
    if "" in keys:
        raise BadRequest("the key is empty")
    found: set[int] = set()
    if not topics:
        return []
    of_topics = np.array([topic_hash(topic.encode()) for topic in topics], np.uint32)
    for key in keys:
        hashes = key_hashes(of_topics, [key.encode()] * len(topics)).tolist()
        for file in index.files:
            found.update(at for at, hash_ in enumerate(hashes) if _may_have(file, hash_))
    return sorted(found)


def _may_have(file: IndexFile, hash_: int) -> bool:
    number = file.newest_number(hash_)
    for _ in range(_CHAIN_MAX):
        if not number:
            return False
        entry = file.entry(number)
        if entry.key_hash == hash_:
            return True
        number = entry.previous_number if entry.previous_number < number else 0
    return bool(number)
