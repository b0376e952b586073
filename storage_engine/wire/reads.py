"""Reads that change no delivery state, on the engine's socket: pull, look-up, offset by time."""

from __future__ import annotations

import enum

import msgspec

from storage_engine.filters.message_filter import FilterKind
from storage_engine.wire.struct import Wire


class PullStatus(enum.StrEnum):
    """Outcome of a read at an offset, in RocketMQ's words."""

    FOUND = "found"
    NO_NEW_MSG = "no_new_msg"
    NO_MATCHED_MSG = "no_matched_msg"
    OFFSET_ILLEGAL = "offset_illegal"


class PullRequest(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Read records of one queue from ``queue_offset`` on; changes no delivery state.

    With ``tags``, only those that have one of them; with ``filter``, only those that match. Not
    both. ``shows_gone``: dead letters that were redriven or dropped, too.
    """

    topic: str
    queue_id: int
    queue_offset: int
    messages_max: int
    bytes_max: int
    tags: list[str] = msgspec.field(default_factory=list)
    filter: str = ""
    filter_kind: FilterKind = FilterKind.TAG
    shows_gone: bool = False


class PullHead(Wire, frozen=True, kw_only=True):
    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int


class LookUpRequest(Wire, frozen=True, kw_only=True):
    """Find the messages of a topic whose id or one of whose keys is ``key``, newest first.

    Stored from ``from_ms`` to ``to_ms``, both included. ``cursor`` is empty, or what the page
    before gave.
    """

    topic: str
    key: str
    messages_max: int
    bytes_max: int
    from_ms: int = 0
    to_ms: int = (1 << 63) - 1
    cursor: str = ""


class LookUpHead(Wire, frozen=True, kw_only=True):
    """``cursor`` is empty after the last page; before it a page may be short, or empty.

    ``is_complete`` is False while the index lacks the newest messages, say on a full disk.
    """

    cursor: str
    is_complete: bool


class KeyTopicsRequest(Wire, frozen=True, kw_only=True):
    """Which of ``topics`` may have a message whose id or one of whose keys is in ``keys``?"""

    topics: list[str]
    keys: list[str]


class KeyTopicsReply(Wire, frozen=True, kw_only=True):
    """``indexes`` into the topics of the request, ascending: the others have none.

    ``is_complete`` is False while the index lacks the newest messages.
    """

    indexes: list[int]
    is_complete: bool


class OffsetAtTimeRequest(Wire, frozen=True, kw_only=True):
    """Where is the first message of a queue that was stored at ``timestamp_ms`` or later? And at
    each of ``later_ms``, which ascend from there.
    """

    topic: str
    queue_id: int
    timestamp_ms: int
    later_ms: list[int] = msgspec.field(default_factory=list)


class OffsetAtTimeReply(Wire, frozen=True, kw_only=True):
    """``queue_offset`` is in [min_offset, max_offset]; max_offset when there is none so late."""

    queue_offset: int
    min_offset: int
    max_offset: int
    later_offsets: list[int] = msgspec.field(default_factory=list)
