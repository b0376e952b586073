"""Consumer offsets on the engine's socket: commits of pull consumers, and resets."""

from __future__ import annotations

import enum

import msgspec

from storage_engine.wire.struct import Wire


class OffsetCommitRequest(Wire, frozen=True, kw_only=True):
    """Settle everything of a queue below ``offset``, for a group that pulls and takes no leases, or
    for a client of one that broadcasts.
    """

    group: str
    topic: str
    queue_id: int
    offset: int
    client_id: str = ""


class OffsetCommitReply(Wire, frozen=True, kw_only=True):
    """``from_offset``: where the group was before."""

    from_offset: int
    min_offset: int
    max_offset: int


class ResetTo(enum.StrEnum):
    """Where a reset leads. TIMESTAMP and OFFSET take a value."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSET = "offset"


class OffsetResetRequest(Wire, frozen=True, kw_only=True):
    """Let a group go on from another place of a topic.

    ``value``: epoch ms of a time, or an offset in [min_offset, max_offset] of every queue that is
    reset; max_offset is the end. ``offsets``: for OFFSET, by queue id, where a queue has one of its
    own. ``queue_ids``: empty for all. ``client_id``: of a broadcast group only this client, else
    all that have read the topic.
    """

    group: str
    topic: str
    to: ResetTo
    value: int = 0
    queue_ids: tuple[int, ...] = ()
    is_dry_run: bool = False
    client_id: str = ""
    offsets: dict[int, int] = msgspec.field(default_factory=dict)


class QueueReset(Wire, frozen=True, kw_only=True):
    """What a reset does, or would do, to one queue.

    ``skipped_count``: messages not settled yet that the group will not get; ``replayed_count``:
    settled ones that it gets again. These and ``from_offset`` are None when the group had never
    read the queue. ``inflight_count``: leases that end. With several clients ``from_offset`` is the
    lowest of theirs, and the counts are of all together.
    """

    queue_id: int
    min_offset: int
    max_offset: int
    from_offset: int | None
    to_offset: int
    skipped_count: int | None
    replayed_count: int | None
    inflight_count: int


class OffsetResetReply(Wire, frozen=True, kw_only=True):
    """By queue id, and what stays as it is: failed messages of the group that wait to be delivered
    again, in its retry topic and in the schedule; the latter is None when nobody knows.
    ``client_count``: of a broadcast group that it concerns.
    """

    queues: list[QueueReset]
    retry_count: int
    scheduled_count: int | None
    client_count: int = 0
