"""The token of an invitation as text, and the hash of it that is stored.

m q i _ P P P P P P P P P P P P S S S ... S S S
prefix  public id (12)          secret (32), 190 bits
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Final, NamedTuple

from django.conf import settings

from mqservice.lib.signing import derive_key

PREFIX: Final = "mqi_"
PUBLIC_ID_CHARS: Final = 12
SECRET_CHARS: Final = 32
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORM: Final = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{PUBLIC_ID_CHARS + SECRET_CHARS}}}", re.ASCII)


class Token(NamedTuple):
    """``public_id`` is the row's name and no secret."""

    public_id: str
    secret: str

    @property
    def text(self) -> str:
        return PREFIX + self.public_id + self.secret

    @property
    def mac(self) -> bytes:
        """HMAC-SHA-256 under a pepper that is not in the database."""
        return self._mac_with_pepper(settings.MQ_KEY_PEPPER)

    def matches(self, mac: bytes) -> bool:
        """Whether it is the MAC of this one, under the pepper or a former one."""
        peppers = [settings.MQ_KEY_PEPPER, *settings.MQ_KEY_PEPPER_FALLBACKS]
        found = [hmac.compare_digest(self._mac_with_pepper(each), mac) for each in peppers]
        return any(found)

    def _mac_with_pepper(self, pepper: str) -> bytes:
        derived = derive_key(pepper, "invitation-pepper")
        return hmac.digest(derived, self.secret.encode("ascii"), hashlib.sha256)

    def __repr__(self) -> str:
        return f"Token({self.public_id})"  # the secret must not reach a log or a traceback


def new_token() -> Token:
    return Token(_random(PUBLIC_ID_CHARS), _random(SECRET_CHARS))


def parse_token(text: str) -> Token | None:
    """None for what cannot be a token of this service."""
    if _FORM.fullmatch(text) is None:
        return None
    middle = len(PREFIX) + PUBLIC_ID_CHARS
    return Token(text[len(PREFIX) : middle], text[middle:])


def _random(chars: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(chars))
