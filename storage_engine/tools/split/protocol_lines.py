"""The lines that ``python -m storage_engine.tools.split`` and its caller exchange.

    caller ── CopyRound ──▶ ProgressLine, … ──▶ RoundDone     as often as the caller likes
    caller ── Finish ──▶ PartDone                             once the namespaces are held
    caller ── Discard                                         if nobody is to have it after all,
                                                              also before it is ready

``ProgressLine``: how much of the log this round has copied. With ``--plan`` it says nothing but
``CopyPlan``.
"""

from __future__ import annotations

from typing import Final

from storage_engine.tools.program_lines import Line

# What the log gets while it is copied, and what the new shard's engine begins with.
_SPARE_BYTES: Final = 256 * 1024 * 1024


class CopyPlan(Line, frozen=True, kw_only=True, tag="plan"):
    """How much room a copy takes on the disk of the new shard, and how much there is.
    ``fetched_bytes``: segments that only the bucket has. ``free_bytes``: with what an attempt
    before has left there, which is deleted first.
    """

    local_bytes: int
    fetched_bytes: int
    free_bytes: int

    @property
    def copied_bytes(self) -> int:
        return self.local_bytes + self.fetched_bytes

    @property
    def needed_bytes(self) -> int:
        return self.copied_bytes + _SPARE_BYTES

    @property
    def has_room(self) -> bool:
        return self.needed_bytes <= self.free_bytes


class CopyRound(Line, frozen=True, kw_only=True, tag="copy"):
    """Copy what is new since the last round, or everything."""


class Finish(Line, frozen=True, kw_only=True, tag="finish"):
    """The namespaces are held: copy the rest, and keep only what belongs to them."""


class Discard(Line, frozen=True, kw_only=True, tag="discard"):
    """No engine begins with the store, ready or not, and none will: delete it. What was uploaded
    of it stays where the shard's log may say that the shard began with it, ``is_in_log``.
    """

    is_in_log: bool


class RoundDone(Line, frozen=True, kw_only=True, tag="round"):
    """The copy has the log below ``end_offset``; ``copied_bytes`` of it are of this round."""

    end_offset: int
    copied_bytes: int


class PartDone(Line, frozen=True, kw_only=True, tag="done"):
    """The store is ready, and durable. ``deleted_…``: what belonged to other namespaces."""

    end_offset: int
    topic_count: int
    group_count: int
    deleted_topic_count: int
    deleted_group_count: int
