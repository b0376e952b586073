"""The real topics of scheduled messages per block of a queue, so that blocks need not be read
again.

    a page of a listing ── topics of a block that it has read ──▶ [TopicBlocks]
    the next listing ── may block n hold messages for this topic? ──▶ no: it is passed over

A consume queue of the schedule does not know where its messages go; the records do. Blocks that are
full change no more, but for messages that are done with, so what was found once stays true. Each
costs 512 bytes in memory, whatever it holds: a bit for each of 4,096 hashes of topics, and of their
namespaces. Two topics may share one, then a block is read for nothing. Nothing is written down.
Loop thread only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from isal.isal_zlib import crc32

BLOCK_UNITS: Final = 4_096
_HASHES: Final = 4_096
_BLOCKS_MAX: Final = 16_384  # known at a time: 64 million messages, 9 MB


class TopicBlocks:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._bits: dict[tuple[int, int], int] = {}  # (queue id, block) → bit of each hash

    def note(self, queue_id: int, block: int, topics: Iterable[bytes]) -> None:
        """A full block holds messages for these topics and, but for those done with, no others."""
        if len(self._bits) >= _BLOCKS_MAX:
            del self._bits[next(iter(self._bits))]  # the one known longest
        bits = 0
        for topic in topics:
            bits |= _bit(topic) | _bit(_namespace_prefix(topic))
        self._bits[queue_id, block] = bits

    def may_hold(self, queue_id: int, block: int, topic: bytes) -> bool:
        """False when it is certain that nothing there is for the topic, or the namespace."""
        bits = self._bits.get((queue_id, block))
        return bits is None or bits & _bit(topic) != 0


def _namespace_prefix(topic: bytes) -> bytes:
    """The name before the separator, and the separator; empty where there is none."""
    head, separator, _ = topic.partition(b"%")
    return head + separator if separator else b""


def _bit(topic: bytes) -> int:
    return 1 << crc32(topic) % _HASHES
