"""Keyed MACs over tokens that we hand out and take back: receipts, cursors, export links.

    secret + purpose ──▶ derived key ──▶ mac(payload) ──▶ 16 bytes

Each purpose has a key of its own, so that a MAC made for one is worthless for another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hmac import compare_digest
from typing import Final

MAC_BYTES: Final = 16


def derive_key(secret: str, purpose: str) -> bytes:
    """32 bytes for ``purpose``; says nothing about the secret or about keys of other purposes."""
    return hashlib.blake2b(
        purpose.encode(), key=hashlib.sha256(secret.encode()).digest(), digest_size=32
    ).digest()


class Signer:
    """Makes and checks MACs for one purpose. Cheap: half a microsecond each. Thread-safe."""

    def __init__(self, secret: str, purpose: str, fallbacks: Sequence[str] = ()) -> None:
        """``fallbacks`` are former secrets whose MACs are still accepted during a rotation."""
        keys = [derive_key(each, purpose) for each in (secret, *fallbacks)]
        self._keyed, *self._former = [
            hashlib.blake2b(key=key, digest_size=MAC_BYTES) for key in keys
        ]

    def mac(self, payload: bytes) -> bytes:
        return _mac(self._keyed, payload)

    def is_valid(self, payload: bytes, tag: bytes) -> bool:
        """Whether ``tag`` was made over ``payload`` here; takes the same time for any wrong tag."""
        return self.checking(b"")(payload, tag)

    def signing(self, prefix: bytes) -> Callable[[bytes], bytes]:
        """``mac`` of many payloads that all begin with ``prefix``, which is left out of them."""
        return partial(_mac, _after(self._keyed, prefix))

    def checking(self, prefix: bytes) -> Callable[[bytes, bytes], bool]:
        """``is_valid`` of the same."""
        begun = _after(self._keyed, prefix)
        former = [_after(each, prefix) for each in self._former]

        def is_valid(payload: bytes, tag: bytes) -> bool:
            state = begun.copy()
            state.update(payload)
            return compare_digest(state.digest(), tag) or any(
                compare_digest(_mac(each, payload), tag) for each in former
            )

        return is_valid

    def macs(self, prefix: bytes, payloads: Iterable[bytes]) -> list[bytes]:
        """What ``signing`` makes of each."""
        made: list[bytes] = []
        add, copy = made.append, _after(self._keyed, prefix).copy
        for payload in payloads:
            state = copy()
            state.update(payload)
            add(state.digest())
        return made

    def are_new(self, prefix: bytes, payloads: Iterable[bytes], tags: Iterable[bytes]) -> bool:
        """Whether all were made here with the secret of now; by a former one ``checking`` says."""
        return compare_digest(b"".join(self.macs(prefix, payloads)), b"".join(tags))


def _after(keyed: hashlib.blake2b, prefix: bytes) -> hashlib.blake2b:
    begun = keyed.copy()
    begun.update(prefix)
    return begun


def _mac(begun: hashlib.blake2b, payload: bytes) -> bytes:
    # A copy costs a third of what setting up the key does.
    state = begun.copy()
    state.update(payload)
    return state.digest()
