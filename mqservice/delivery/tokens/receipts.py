"""Receipts: what a consumer gives back to settle a message, signed and self-contained.

    offset  width  field              notes
         0      1  version            1; 2 for a client of a broadcast group
         1      4  queue_id
         5      8  queue_offset
        13      8  lease_generation   which delivery of the message this is
        21      8  expires_ms         end of the lease at delivery; stays on extend
        29      n  topic              the engine's name, UTF-8; in version 2 behind the client id,
                                      which has its length before it in one byte
      29+n     16  mac                over group name, 0x00 and all of the above

The text is the base64url of these bytes without padding. The group is part of the MAC, so a receipt
of another group, tenant or service is as good as noise; and so is the client, for whom alone it
settles. Any web process that has the secret can settle it.

Those of one topic have one width, so that their bytes stand in rows and one base64 is that of all:
each row is filled up with zeros to whole groups of it, whose characters are cut off again. One
receipt is written as a batch of one. Read together are only those that are alike, for half the
cost; if one is not, ``reader`` reads each.
"""

from __future__ import annotations

import binascii
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Final, NamedTuple

import msgspec

from mqservice.delivery.limits import RECEIPT_LIFE_MS
from mqservice.lib.signing import MAC_BYTES, Signer

VERSION: Final = 1
CLIENT_VERSION: Final = 2
HEAD: Final = struct.Struct(">BIqqq")
assert HEAD.size == 29
_HEAD_BYTES: Final = HEAD.size
_VERSIONS: Final = frozenset((VERSION, CLIENT_VERSION))
TEXT_CHARS_MAX: Final = 512
_PADDINGS: Final = b"", b"===", b"==", b"="  # by how many characters the last four have
URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
STANDARD: Final = bytes.maketrans(b"-_+/=", b"+/!!!")  # what is not URL-safe becomes no base64


READ_TOGETHER_MIN: Final = 10  # fewer are quicker read one by one
_SIGNED_BYTES_MIN: Final = HEAD.size + 1 + MAC_BYTES


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """One delivery of one message; ``client_id`` is empty unless the group broadcasts."""

    topic: str
    queue_id: int
    queue_offset: int
    lease_generation: int
    expires_ms: int
    client_id: str = ""


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


class Receipts:
    """Makes and reads receipts. Thread-safe."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def write(
        self,
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
        version, client = _version_of(client_id)
        tail = client + topic.encode()
        pack = _row_of(len(tail)).pack
        delivery = repeat(lease_generation), repeat(expires_ms), repeat(tail)
        payloads = list(map(pack, repeat(version), queue_ids, queue_offsets, *delivery))
        signed_bytes = HEAD.size + len(tail) + MAC_BYTES
        filling = bytes(-signed_bytes % 3)
        macs = self._signer.macs(claim(group), payloads)
        rows = b"".join(chain.from_iterable(zip(payloads, macs, repeat(filling))))
        texts = str(binascii.b2a_base64(rows, newline=False).translate(URL_SAFE), "ascii")
        row_chars = (signed_bytes + len(filling)) // 3 * 4
        chars = row_chars - len(filling)
        return [texts[at : at + chars] for at in range(0, len(texts), row_chars)]

    def reader(self, *, group: str, now_ms: int) -> Callable[[str], Receipt | None]:
        """A function that says what a receipt says, or None if it was not made here for ``group``,
        or is too old.
        """
        is_valid = self._signer.checking(claim(group))
        expires_ms_min = now_ms - RECEIPT_LIFE_MS
        unpack, decode = HEAD.unpack_from, binascii.a2b_base64

        def read(text: str) -> Receipt | None:
            if len(text) > TEXT_CHARS_MAX:
                return None
            try:
                # Without a strict check a receipt would have many spellings.
                encoded = text.encode("ascii").translate(STANDARD)
                signed = decode(encoded + _PADDINGS[len(encoded) % 4], strict_mode=True)
            except ValueError:  # binascii.Error is one
                return None
            payload, mac = signed[:-MAC_BYTES], signed[-MAC_BYTES:]
            if len(payload) <= _HEAD_BYTES or payload[0] not in _VERSIONS:
                return None
            if not is_valid(payload, mac):
                return None
            version, queue_id, queue_offset, generation, expires_ms = unpack(payload)
            if expires_ms < expires_ms_min:
                return None
            topic_at = _HEAD_BYTES
            client_id = ""
            if version == CLIENT_VERSION:
                topic_at += 1 + payload[topic_at]
                client_id = payload[_HEAD_BYTES + 1 : topic_at].decode("ascii")
            topic = str(payload[topic_at:], "utf-8")
            return Receipt(topic, queue_id, queue_offset, generation, expires_ms, client_id)

        return read

    def read_together(
        self, texts: Sequence[str], *, group: str, expires_ms_min: int
    ) -> ReceiptColumns | None:
        """What receipts say that were all made here for ``group``, and alike; none is too old."""
        if len(texts) < READ_TOGETHER_MIN:
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
        if not self._signer.are_new(claim(group), payloads, macs):
            return None
        return ReceiptColumns(topics, queue_ids, generations, queue_offsets)


def _version_of(client_id: str) -> tuple[int, bytes]:
    """The version, and what it has between head and topic."""
    if not client_id:
        return VERSION, b""
    return CLIENT_VERSION, bytes([len(client_id)]) + client_id.encode("ascii")


def claim(group: str) -> bytes:
    """What a MAC is over before the receipt."""
    return group.encode() + b"\0"


@lru_cache(maxsize=1024)
def _row_of(tail_bytes: int, mac_bytes: int = 0, filling_bytes: int = 0) -> struct.Struct:
    mac = f"{mac_bytes}s" if mac_bytes else ""
    return struct.Struct(f"{HEAD.format}{tail_bytes}s{mac}{filling_bytes}x")
