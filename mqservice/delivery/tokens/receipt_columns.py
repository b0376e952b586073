"""Receipts of many messages at once: they say what each does by itself, for half the cost.

    places of one answer ──▶ [write_columns] ──▶ texts of ``Receipts.writer``
    texts of one call    ──▶ [read_columns] ──▶ columns of what ``Receipts.reader`` reads
                                  └── one is not like the others ──▶ None: ``reader`` for each

Receipts of one topic have one width, so that their bytes stand in rows: one base64 is that of all,
since each row is filled up with zeros to whole groups of it, whose characters are cut off again.
"""

from __future__ import annotations

import binascii
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Final, NamedTuple

from mqservice.delivery.tokens.receipts import (
    HEAD,
    STANDARD,
    TEXT_CHARS_MAX,
    URL_SAFE,
    VERSION,
    Receipts,
    claim,
    version_of,
)
from mqservice.lib.signing import MAC_BYTES

READ_MIN: Final = 10  # fewer are quicker read one by one
_SIGNED_BYTES_MIN: Final = HEAD.size + 1 + MAC_BYTES


class ReceiptColumns(NamedTuple):
    """Each column runs along the receipts; none is of a broadcast group."""

    topics: Sequence[bytes]
    queue_ids: Sequence[int]
    lease_generations: Sequence[int]
    queue_offsets: Sequence[int]

    def places(self) -> Iterable[tuple[str, int, int, int]]:
        """Topic, queue, delivery and queue offset of each."""
        topics = (topic.decode() for topic in self.topics)
        return zip(topics, self.queue_ids, self.lease_generations, self.queue_offsets, strict=True)

    def by_queue(self) -> Iterable[tuple[tuple[str, int, int], list[int]]]:
        """The queue offsets of each topic, queue and delivery."""
        offsets: defaultdict[tuple[bytes, int, int], list[int]] = defaultdict(list)
        places = zip(self.topics, self.queue_ids, self.lease_generations, strict=True)
        for place, queue_offset in zip(places, self.queue_offsets, strict=True):
            offsets[place].append(queue_offset)
        for (topic, queue_id, generation), found in offsets.items():
            yield (topic.decode(), queue_id, generation), found


def write_columns(
    receipts: Receipts,
    queue_ids: Sequence[int],
    queue_offsets: Sequence[int],
    *,
    group: str,
    topic: str,
    lease_generation: int,
    expires_ms: int,
    client_id: str = "",
) -> list[str]:
    """The receipts of messages of one topic and delivery."""
    version, client = version_of(client_id)
    tail = client + topic.encode()
    pack = _row_of(len(tail)).pack
    delivery = repeat(lease_generation), repeat(expires_ms), repeat(tail)
    payloads = list(map(pack, repeat(version), queue_ids, queue_offsets, *delivery))
    signed_bytes = HEAD.size + len(tail) + MAC_BYTES
    filling = bytes(-signed_bytes % 3)
    macs = receipts.signer.macs(claim(group), payloads)
    rows = b"".join(chain.from_iterable(zip(payloads, macs, repeat(filling))))
    texts = str(binascii.b2a_base64(rows, newline=False).translate(URL_SAFE), "ascii")
    row_chars = (signed_bytes + len(filling)) // 3 * 4
    chars = row_chars - len(filling)
    return [texts[at : at + chars] for at in range(0, len(texts), row_chars)]


def read_columns(
    receipts: Receipts, texts: Sequence[str], *, group: str, expires_ms_min: int
) -> ReceiptColumns | None:
    """What receipts say that were all made here for ``group``, and alike; none is too old."""
    if len(texts) < READ_MIN:
        return None
    chars = len(texts[0])
    signed_bytes, filling = chars * 3 // 4, "A" * (-chars % 4)  # it stands for zeros
    if (
        signed_bytes < _SIGNED_BYTES_MIN
        or chars > TEXT_CHARS_MAX
        or len(filling) == 3  # which no bytes are encoded to
        or list(map(len, texts)).count(chars) != len(texts)
    ):
        return None
    try:
        encoded = (filling.join(texts) + filling).encode("ascii").translate(STANDARD)
        rows = binascii.a2b_base64(encoded, strict_mode=True)
    except ValueError:  # binascii.Error is one
        return None
    payload_bytes = signed_bytes - MAC_BYTES
    row = _row_of(payload_bytes - HEAD.size, MAC_BYTES, len(filling))
    versions, queue_ids, queue_offsets, generations, expires_ms, topics, macs = zip(
        *row.iter_unpack(rows), strict=True
    )
    if versions.count(VERSION) != len(texts) or min(expires_ms) < expires_ms_min:
        return None
    payloads = [rows[at : at + payload_bytes] for at in range(0, len(rows), row.size)]
    if not receipts.signer.are_new(claim(group), payloads, macs):
        return None
    return ReceiptColumns(topics, queue_ids, generations, queue_offsets)


@lru_cache(maxsize=1024)
def _row_of(tail_bytes: int, mac_bytes: int = 0, filling_bytes: int = 0) -> struct.Struct:
    mac = f"{mac_bytes}s" if mac_bytes else ""
    return struct.Struct(f"{HEAD.format}{tail_bytes}s{mac}{filling_bytes}x")
