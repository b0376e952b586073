"""The members of a group, on the engine's socket."""

from __future__ import annotations

from storage_engine.wire.struct import Wire


class Member(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """``queue_ids``: assigned to it, in an exclusive group. ``silent_ms``: since it was heard of;
    a member that waits is there now. ``client_id``: whose member it is, in a broadcast group.
    """

    member_id: str
    silent_ms: int
    is_waiting: bool = False
    inflight_count: int = 0
    queue_ids: tuple[int, ...] = ()
    zone: str = ""
    client_id: str = ""


class TopicMembers(Wire, frozen=True, kw_only=True):
    """``generation`` counts the changes of an exclusive group's members; of others it is 0.

    ``unassigned``: queues that nobody reads. ``is_complete``: whether ``members`` are all.
    ``filter``: through which all of them read, in its canonical form; empty for everything.
    ``is_full``: as many messages of a queue are in flight as may be, while others wait there.
    """

    topic: str
    generation: int
    unassigned: tuple[int, ...]
    members: list[Member]
    is_complete: bool
    filter: str = ""
    filter_kind: str = ""
    is_full: bool = False


class GroupMembers(Wire, frozen=True, kw_only=True):
    group: str
    topics: list[TopicMembers]
