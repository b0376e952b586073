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

``receipt_columns`` does the same for many at once.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Callable
from typing import Final

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


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """One delivery of one message; ``client_id`` is empty unless the group broadcasts."""

    topic: str
    queue_id: int
    queue_offset: int
    lease_generation: int
    expires_ms: int
    client_id: str = ""


class Receipts:
    """Makes and reads receipts. Thread-safe."""

    def __init__(self, signer: Signer) -> None:
        self.signer = signer

    def writer(
        self, *, group: str, lease_generation: int, expires_ms: int, client_id: str = ""
    ) -> Callable[[str, int, int], str]:
        """A function of (topic, queue id, queue offset) for the messages of one delivery."""
        mac = self.signer.signing(claim(group))
        version, client = version_of(client_id)

        def write(topic: str, queue_id: int, queue_offset: int) -> str:
            payload = (
                HEAD.pack(version, queue_id, queue_offset, lease_generation, expires_ms)
                + client
                + topic.encode()
            )
            text = binascii.b2a_base64(payload + mac(payload), newline=False).translate(URL_SAFE)
            return text.rstrip(b"=").decode("ascii")

        return write

    def reader(self, *, group: str, now_ms: int) -> Callable[[str], Receipt | None]:
        """A function that says what a receipt says, or None if it was not made here for ``group``,
        or is too old.
        """
        is_valid = self.signer.checking(claim(group))
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


def version_of(client_id: str) -> tuple[int, bytes]:
    """The version, and what it has between head and topic."""
    if not client_id:
        return VERSION, b""
    return CLIENT_VERSION, bytes([len(client_id)]) + client_id.encode("ascii")


def claim(group: str) -> bytes:
    """What a MAC is over before the receipt."""
    return group.encode() + b"\0"
