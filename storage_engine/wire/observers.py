"""Requests of observers: which consumer offsets have changed, and the state of the engine."""

from __future__ import annotations

import msgspec

from storage_engine.wire.struct import Wire


class OffsetsChangedRequest(Wire, frozen=True, kw_only=True):
    """``epoch`` and ``since`` of the reply before; 0 and 0 for all that there is."""

    epoch: int = 0
    since: int = 0
    rows_max: int = 10_000


class ChangedOffset(msgspec.Struct, frozen=True, array_like=True):
    """Where a group stood on a queue when the engine last looked. Names are full names."""

    group: str
    topic: str
    queue_id: int
    consumer_offset: int
    reset_count: int


class OffsetsChangedReply(Wire, frozen=True, kw_only=True):
    """Rows in the order of their changes, each once. ``next``: the following ``since``.

    ``is_complete``: False when more has changed. An epoch that is not the request's says that the
    engine has started since, and that the rows are all there are.
    """

    epoch: int
    next: int
    is_complete: bool
    rows: list[ChangedOffset]


class ObserveReply(Wire, frozen=True, kw_only=True):
    """How the engine fares.

    ``disk_state``: fine, clean, force or full. ``lost_message_count``: since the start, expired
    before a group had settled them. ``member_counts``: by group; those without members are left
    out.
    """

    broker: str
    epoch: int
    disk_total_bytes: int
    disk_free_bytes: int
    disk_state: str
    is_writable: bool
    lost_message_count: int
    member_counts: dict[str, int]
