"""The text forms of an access key, which signs requests; knows nothing of tenants, rows or Django.

    M Q A K R R R R R R R R C C C C      id: prefix, 8 random and 4 check characters, base 32
    m q s _ S S S S ... S S S S          secret: prefix and 40 characters, 240 bits

    server's secret ──▶ key of a purpose ── HMAC-SHA-256(id, seed) ──▶ secret

    W W W W R R R ... R R R              seed: which server's secret, 28 random bytes

A signature is checked with the secret itself, so a MAC of it would not do. It is derived each time:
whoever reads the seeds but not the server's secret can derive nothing, and of several server's
secrets only the one that a seed was made under is good for it. The check characters are a MAC too,
so that an id which was not made here costs no query.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from typing import Final

from mqservice.lib.signing import derive_key

ID_PREFIX: Final = "MQAK"
SECRET_PREFIX: Final = "mqs_"
SEED_BYTES: Final = 32
_MARK_BYTES: Final = 4
_RANDOM_BYTES: Final = 5
_CHECK_CHARS: Final = 4
_SECRET_BYTES: Final = 30
_ID: Final = re.compile(rf"{ID_PREFIX}[A-Z2-7]{{12}}", re.ASCII)


def generate_access_key_id(server_secret: str) -> str:
    """A new id from the operating system's randomness."""
    head = ID_PREFIX + base64.b32encode(secrets.token_bytes(_RANDOM_BYTES)).decode()
    return head + _check(server_secret, head)


def generate_seed(server_secret: str) -> bytes:
    """What a row keeps of a new secret."""
    return _mark(server_secret) + secrets.token_bytes(SEED_BYTES - _MARK_BYTES)


def is_access_key_id(text: str) -> bool:
    """Whether it has the form of one; no id of an API key has."""
    return _ID.fullmatch(text) is not None


def is_made_here(key_id: str, server_secrets: Iterable[str]) -> bool:
    """Whether an id was made under one of these secrets."""
    head, check = key_id[:-_CHECK_CHARS], key_id[-_CHECK_CHARS:]
    return is_access_key_id(key_id) and any(
        hmac.compare_digest(_check(each, head), check) for each in server_secrets
    )


def access_key_secret(server_secrets: Iterable[str], key_id: str, seed: bytes) -> str | None:
    """What the holder of ``key_id`` signs with; another one for each seed. None where the server's
    secret that the seed was made under is not among these.
    """
    for each in server_secrets:
        if is_seed_of(each, seed):
            key = derive_key(each, "access-key-secret")
            made = hmac.digest(key, key_id.encode() + seed, hashlib.sha256)[:_SECRET_BYTES]
            return SECRET_PREFIX + base64.urlsafe_b64encode(made).decode()
    return None


def is_seed_of(server_secret: str, seed: bytes) -> bool:
    """Whether a seed was made under it."""
    return hmac.compare_digest(_mark(server_secret), seed[:_MARK_BYTES])


def _mark(server_secret: str) -> bytes:
    return derive_key(server_secret, "access-key-seed")[:_MARK_BYTES]


def _check(server_secret: str, head: str) -> str:
    key = derive_key(server_secret, "access-key-id")
    made = hmac.digest(key, head.encode(), hashlib.sha256)
    return base64.b32encode(made).decode()[:_CHECK_CHARS]
