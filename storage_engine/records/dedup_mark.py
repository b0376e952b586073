"""The request key in a record, by which a repeated request is recognized.

    __DEDUP = fingerprint (32 hex digits of 16 bytes) key

Records of one topic with the same key are one message, whose content has that fingerprint. Pure
functions.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

PROPERTY_DEDUP: Final = "__DEDUP"
DEDUP_HEAD: Final = f"{PROPERTY_DEDUP}\x01".encode()
FINGERPRINT_BYTES: Final = 16
KEY_HASH_BYTES: Final = 16
PAIR_END: Final = 2
_FINGERPRINT_DIGITS: Final = 2 * FINGERPRINT_BYTES


class DedupMark(NamedTuple):
    """``key`` is what the sender says; ``fingerprint`` is of the content it is said of."""

    fingerprint: bytes
    key: bytes


def dedup_value(fingerprint: bytes, key: str) -> str:
    """The property's value."""
    assert len(fingerprint) == FINGERPRINT_BYTES
    return fingerprint.hex() + key


def dedup_mark_of(properties: bytes, start: int = 0) -> DedupMark | None:
    """The mark in an encoded property list from ``start`` on; None without one that makes sense."""
    at = properties.find(DEDUP_HEAD, start)
    while at > start and properties[at - 1] != PAIR_END:  # the end of a longer name
        at = properties.find(DEDUP_HEAD, at + 1)
    if at < 0:
        return None
    end = properties.find(b"\x02", at)
    value = properties[at + len(DEDUP_HEAD) : end if end >= 0 else None]
    digits, key = value[:_FINGERPRINT_DIGITS], value[_FINGERPRINT_DIGITS:]
    if not key:
        return None
    try:
        fingerprint = bytes.fromhex(digits.decode("ascii"))
    except ValueError:
        return None
    return DedupMark(fingerprint, key) if len(fingerprint) == FINGERPRINT_BYTES else None


def key_hash_of(topic: bytes, key: bytes) -> bytes:
    """What stands for a key of a topic, given by its full name."""
    return hashlib.blake2b(topic + b"\0" + key, digest_size=KEY_HASH_BYTES).digest()
