"""Signatures that were accepted a short while ago, so that a copied request is soon worth nothing.

    accepted signature ── is_late ──▶ [table] ── first seen over REPEAT_MS_MAX ago? ──▶ refuse

A signature is good for as long as its date is (``signature.SKEW_MS``). Two requests of one second
with the same content have the same signature, and clients do send such; so the same one is accepted
again, but only for REPEAT_MS_MAX after the first. The table is this process's own: each web process
accepts a signature for that long. A slot is taken by the low bits of the signature, the latest
wins; only good signatures get here, so nobody without a key changes it.

    bits of a slot   63 ........................ 20   19 ............. 0
                     middle bits of a signature       when, in seconds
"""

from __future__ import annotations

from array import array
from typing import Final

SLOTS: Final = 1 << 19  # 4 MiB: as many as 580 a second make in the 15 minutes of a signature
REPEAT_MS_MAX: Final = 10_000
_TICK_BITS: Final = 20
_TICK_MS: Final = 1_000
_TICK_MASK: Final = (1 << _TICK_BITS) - 1
_MARK_MASK: Final = ((1 << 64) - 1) ^ _TICK_MASK


class SeenSignatures:
    """See the module's docstring. One per process, used on one event loop."""

    def __init__(self, slots: int = SLOTS) -> None:
        assert slots & (slots - 1) == 0, "a power of two"
        self._slots = slots
        self._table = array("Q")  # made when there is something to remember

    def is_late(self, signature: int, now_ms: int) -> bool:
        """Whether this was accepted before, and too long ago; else it counts as accepted.

        ``signature`` has at least 128 random bits; ``now_ms`` is of a clock that never goes back.
        """
        if not self._table:
            self._table.frombytes(bytes(self._slots * self._table.itemsize))
        place = signature & (self._slots - 1)
        mark = (signature >> 64) & _MARK_MASK
        tick = now_ms // _TICK_MS & _TICK_MASK
        seen = self._table[place]
        if seen & _MARK_MASK == mark:
            age = tick - (seen & _TICK_MASK) & _TICK_MASK
            return age * _TICK_MS > REPEAT_MS_MAX
        self._table[place] = mark | tick
        return False
