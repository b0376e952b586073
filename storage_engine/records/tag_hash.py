"""Java's string hash, which consume queues and index files use for tags and keys; pure
functions.
"""

from __future__ import annotations

from typing import Final

_tag_hashes: dict[bytes, int] = {b"": 0}
_TAG_HASHES_MAX: Final = 100_000
_TAG_MARK: Final = b"\x02TAGS\x01"


def tag_hash_of(properties: bytes) -> int:
    """Tag code of a consume-queue unit: Java's ``String.hashCode`` of the tag, 0 without one.

    ``properties`` is the encoded property list. Bytes that are no UTF-8 count as U+FFFD, as in
    Java.
    """
    tag = tag_of(properties)
    if tag is None:
        return 0
    known = _tag_hashes.get(tag)
    if known is None:
        if len(_tag_hashes) >= _TAG_HASHES_MAX:
            _tag_hashes.clear()
        known = _tag_hashes[tag] = java_hash(tag.decode("utf-8", "replace"))
    return known


def tag_of(properties: bytes) -> bytes | None:
    """The tag in an encoded property list; None without one."""
    if properties.startswith(b"TAGS\x01"):
        start = 5
    else:
        start = properties.find(_TAG_MARK)
        if start < 0:
            return None
        start += len(_TAG_MARK)
    end = properties.find(b"\x02", start)
    return properties[start : end if end >= 0 else None]


def java_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units, wrapped to a signed 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + ((high << 8) | low)) & 0xFFFF_FFFF
    return value - (1 << 32) if value & 0x8000_0000 else value
