"""Dead letters on the engine's socket: count, redrive, drop."""

from __future__ import annotations

import enum

import msgspec

from storage_engine.wire.struct import Wire


class RedriveOutcome(enum.StrEnum):
    """What became of one dead letter.

    GONE: redriven or dropped before, or expired. NO_TOPIC: the topic it came from does not exist
    any more. LATER: not looked at; ask again.
    """

    MOVED = "moved"
    GONE = "gone"
    NO_TOPIC = "no_topic"
    DAMAGED = "damaged"
    LATER = "later"


class RedriveRequest(Wire, frozen=True, kw_only=True):
    """Offsets in the group's DLQ; to ``topic`` (full name), or each to where it came from."""

    group: str
    queue_offsets: list[int]
    topic: str = ""


class RedriveReply(Wire, frozen=True, kw_only=True):
    """An outcome for each offset of the request."""

    outcomes: list[RedriveOutcome]


class PurgeRequest(Wire, frozen=True, kw_only=True):
    """Drop dead letters by their offset in the group's DLQ."""

    group: str
    queue_offsets: list[int]


class PurgeReply(Wire, frozen=True, kw_only=True):
    purged_count: int


class DeadLettersRequest(Wire, frozen=True, kw_only=True):
    """How many dead letters groups have, and how many of them were given up before each of some
    times, ms.
    """

    groups: list[str]
    before_ms: list[int] = msgspec.field(default_factory=list)


class DeadLetterCount(Wire, frozen=True, kw_only=True):
    """Of one group. ``count``: those that are there, ``before_counts``: of these, for each time.

    Their offsets are in [min_offset, max_offset), with gaps where letters are gone. ``oldest_ms``:
    when the oldest was given up; 0 without one, or when no times were asked for.
    """

    count: int
    min_offset: int
    max_offset: int
    before_counts: list[int]
    oldest_ms: int


class DeadLettersReply(Wire, frozen=True, kw_only=True):
    """A count for each group of the request; of an unknown one, or one without any, all is 0."""

    counts: list[DeadLetterCount]
