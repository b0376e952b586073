"""The text form of an API key; knows nothing of tenants, rows or Django.

    m q k _ P P P P P P P P S S S ... S S S C C C C C C
    prefix  public id (8)   secret (32)     checksum (6)

``public id`` is the row's name and no secret; the secret has 190 bits; the checksum is the CRC-32
of all that stands before it, in base 62, so that a typing error costs no query and scanners
recognise a key.
"""

from __future__ import annotations

import re
import secrets
import zlib
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "mqk_"
PUBLIC_ID_CHARS: Final = 8
SECRET_CHARS: Final = 32
CHECKSUM_CHARS: Final = 6
KEY_CHARS: Final = len(PREFIX) + PUBLIC_ID_CHARS + SECRET_CHARS + CHECKSUM_CHARS
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORM: Final = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{KEY_CHARS - len(PREFIX)}}}", re.ASCII)
assert KEY_CHARS == 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyText:
    """A well-formed key: whether it opens anything is the row's business."""

    public_id: str
    secret: str

    @property
    def text(self) -> str:
        head = PREFIX + self.public_id + self.secret
        return head + _checksum(head)

    @property
    def last4(self) -> str:
        """What the console shows of a key: the end of its secret."""
        return self.secret[-4:]

    def __repr__(self) -> str:
        return f"ApiKeyText({self.public_id})"  # the secret must not reach a log or a traceback


def generate_api_key(public_id: str | None = None) -> str:
    """A new key from the operating system's randomness, or a new secret for ``public_id``."""
    public_id = public_id or _random(PUBLIC_ID_CHARS)
    return ApiKeyText(public_id=public_id, secret=_random(SECRET_CHARS)).text


def parse_api_key(text: str) -> ApiKeyText | None:
    """The parts of ``text``, or None when it cannot be a key of this service."""
    if len(text) != KEY_CHARS or _FORM.fullmatch(text) is None:
        return None
    head, checksum = text[:-CHECKSUM_CHARS], text[-CHECKSUM_CHARS:]
    if _checksum(head) != checksum:
        return None
    middle = len(PREFIX) + PUBLIC_ID_CHARS
    return ApiKeyText(public_id=head[len(PREFIX) : middle], secret=head[middle:])


def _random(chars: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(chars))


def _checksum(head: str) -> str:
    number = zlib.crc32(head.encode("ascii"))
    digits = []
    for _ in range(CHECKSUM_CHARS):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
