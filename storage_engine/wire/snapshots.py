"""Snapshots of the log on the engine's socket."""

from __future__ import annotations

from storage_engine.wire.struct import Wire


class SnapshotRequest(Wire, frozen=True, kw_only=True):
    """Keep the log for a reader of its files, for ``lease_ms`` at most.

    ``start_offset``: what lies in segments below may go; 0 keeps all that is there.
    """

    lease_ms: int
    start_offset: int = 0


class SnapshotReply(Wire, frozen=True, kw_only=True):
    """Records in ``[start_offset, end_offset)`` are durable, and their files stay.

    Until ``lease_until_ms``, a release, or until the disk needs them; what a release says tells.
    """

    snapshot_id: int
    start_offset: int
    end_offset: int
    segment_bytes: int
    lease_until_ms: int


class SnapshotRelease(Wire, frozen=True, kw_only=True):
    """The reader is done."""

    snapshot_id: int


class SnapshotReleaseReply(Wire, frozen=True, kw_only=True):
    """``was_held``: the files stayed until now. Else files may be missing from what was read:
    the lease ended, the disk needed them, or the engine has started anew.
    """

    was_held: bool
