"""Holds a snapshot of the log in the engine for as long as a copy takes.

[LogHold] ── snapshot, each few minutes a new one ──▶ engine: retention waits

A lease is short, so that a copier that dies holds nothing for long, and is taken anew well before
its end. An engine that is away meanwhile deletes nothing; one that came back may, and then a file
is missing, which whoever copies it finds out.
"""

from __future__ import annotations

import contextlib

from storage_engine.clock import measured_ns
from storage_engine.errors import StoreError
from storage_engine.wire.snapshots import SnapshotRelease, SnapshotReply, SnapshotRequest
from storage_engine.wire.sync_client import StoreClient

LEASE_MS = 600_000
_RENEW_AFTER_NS = 60_000_000_000


class LogHold:
    """See the module's docstring. ``taken`` is what the engine said last."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client
        self.taken = client.snapshot(SnapshotRequest(lease_ms=LEASE_MS))
        self._taken_ns = measured_ns()

    def renew(self, start_offset: int) -> SnapshotReply:
        """A new lease, from ``start_offset`` on, instead of the one before. Raises StoreError."""
        before = self.taken.snapshot_id
        request = SnapshotRequest(lease_ms=LEASE_MS, start_offset=start_offset)
        self.taken = self._client.snapshot(request)
        self._taken_ns = measured_ns()
        self._client.snapshot_release(SnapshotRelease(snapshot_id=before))
        return self.taken

    def renew_if_due(self, start_offset: int) -> None:
        """To be called often: takes a new lease when the one held grows old."""
        if measured_ns() - self._taken_ns < _RENEW_AFTER_NS:
            return
        try:
            self.renew(start_offset)
        except StoreError:
            self._taken_ns = measured_ns()  # the engine is away: asked again in a while

    def release(self) -> None:
        """End the lease; where the engine is away it ends by itself."""
        with contextlib.suppress(StoreError):
            self._client.snapshot_release(SnapshotRelease(snapshot_id=self.taken.snapshot_id))
