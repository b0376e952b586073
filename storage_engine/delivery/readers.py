"""Who reads a topic for a group, in any mode of dispatch, as known from receives.

receive ── hear(member) ──▶ [Readers] ── others_ms(member)? ──▶ may it bring another filter?

A reader is there for 120 s after it was last heard of, as in RocketMQ. Only so many are remembered:
the latest ones. One without a name is shown as the others are, but never comes again: nobody has to
mind its filter. Loop thread only.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from storage_engine.delivery.members import SILENCE_MS_MAX

# Receives over REST that name no consumer are each a member of its own.
_READERS_MAX: Final = 1_000


class Readers:
    """See the module's docstring. Times are monotonic."""

    __slots__ = ("_seen_ms", "_unnamed")

    def __init__(self) -> None:
        self._seen_ms: OrderedDict[str, int] = OrderedDict()  # the latest last
        self._unnamed: set[str] = set()  # of them

    def reader_seen(self, member_id: str, now_ms: int, *, is_unnamed: bool = False) -> None:
        heard_ms = self._seen_ms
        heard_ms[member_id] = now_ms
        if is_unnamed:
            self._unnamed.add(member_id)
        if len(heard_ms) == 1:
            return
        heard_ms.move_to_end(member_id)
        while len(heard_ms) > 1:
            oldest = next(iter(heard_ms))
            if len(heard_ms) <= _READERS_MAX and heard_ms[oldest] > now_ms - SILENCE_MS_MAX:
                break
            del heard_ms[oldest]
            self._unnamed.discard(oldest)

    def silent_ms(self, now_ms: int) -> dict[str, int]:
        """Who is there, the latest first, and since when each was not heard of."""
        silent = {}
        for member_id, heard_ms in reversed(self._seen_ms.items()):
            if heard_ms <= now_ms - SILENCE_MS_MAX:
                break
            silent[member_id] = now_ms - heard_ms
        return silent

    def leave(self, member_id: str) -> None:
        self._seen_ms.pop(member_id, None)
        self._unnamed.discard(member_id)

    def present(self, now_ms: int) -> list[str]:
        """Those heard of lately, at most a thousand."""
        from_ms = now_ms - SILENCE_MS_MAX
        return [member_id for member_id, heard_ms in self._seen_ms.items() if heard_ms > from_ms]

    def other_readers_ms(self, member_id: str, now_ms: int) -> int:
        """How long any other named member counts as present if it sends nothing more; 0 if there is
        none.
        """
        for other_id, heard_ms in reversed(self._seen_ms.items()):
            left_ms = heard_ms + SILENCE_MS_MAX - now_ms
            if left_ms <= 0:
                return 0
            if other_id != member_id and other_id not in self._unnamed:
                return left_ms
        return 0
