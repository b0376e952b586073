"""Dead letters on the engine's socket: sent on their way again, or dropped."""

from __future__ import annotations

import enum

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
