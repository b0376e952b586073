"""Keeps files of the log from being deleted while other processes read them, for a limited time.

    reader ── take(lease_ms) ──▶ [Snapshots] ── held_from ──▶ retention deletes nothing at or above
    reader ── release(id) ─────▶     │
    retention ── drop_all() ───▶     └── a disk at its force watermark ends every lease

A lease holds files against age and the size limit; not against a disk that must be freed, not
beyond its end, and not over a restart: it costs no write, and leaves nothing behind when a reader
dies. What a lease held is told when it is released, so that a reader never takes a log with holes
for a whole one. Messages expire as ever, only their files wait. Loop thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.errors import BadRequest, StoreBusy
from storage_engine.wire.snapshots import SnapshotReply, SnapshotRequest

log = logging.getLogger(__name__)


class _Lease(NamedTuple):
    start_offset: int
    until_ms: int  # monotonic


class Snapshots:
    """See the module's docstring. ``first_id`` must be above all ids of earlier runs."""

    def __init__(self, parts: EngineParts, *, first_id: int) -> None:
        self._config = parts.config
        self._clock = parts.clock
        self._commit_log = parts.commit_log
        self._leases: dict[int, _Lease] = {}
        self._next_id = first_id
        # What a replicated log lacks is held as well, whatever the disk needs.
        self.replicated_offset: Callable[[], int] | None = None
        self._uploading_from: int | None = None
        self.going_to = 0  # retention is about to delete everything below

    def take(self, request: SnapshotRequest) -> SnapshotReply:
        """The log from ``start_offset`` on, or from its first segment, as far as it is durable.

        Raises:
            BadRequest: the lease is no time or too long, or nothing is durable at the offset.
            StoreBusy: as many are held as may be.
        """
        lease_ms, longest_ms = request.lease_ms, self._config.snapshot_lease_ms_max
        if not 1 <= lease_ms <= longest_ms:
            raise BadRequest(f"lease_ms is {lease_ms}, it must be 1 to {longest_ms}")
        end_offset = self._commit_log.flushed_offset
        if not 0 <= request.start_offset <= end_offset:
            raise BadRequest(
                f"start_offset is {request.start_offset}, but the log is durable only "
                f"up to {end_offset}"
            )
        self._expire()
        if len(self._leases) >= self._config.snapshot_count_max:
            raise StoreBusy(f"{len(self._leases)} snapshots are held already, which is the limit")
        snapshot_id, self._next_id = self._next_id, self._next_id + 1
        start_offset = max(request.start_offset, self._commit_log.local_start_offset, self.going_to)
        self._leases[snapshot_id] = _Lease(start_offset, self._clock.monotonic_ms() + lease_ms)
        return SnapshotReply(
            snapshot_id=snapshot_id,
            start_offset=start_offset,
            end_offset=end_offset,
            segment_bytes=self._config.segment_bytes,
            lease_until_ms=self._clock.now_ms() + lease_ms,
        )

    def release(self, snapshot_id: int) -> bool:
        """End a lease; whether it was still held."""
        self._expire()
        return self._leases.pop(snapshot_id, None) is not None

    def lowest_held_offset(self) -> int | None:
        """The lowest physical offset whose file must stay; None when nothing is held."""
        self._expire()
        held = [lease.start_offset for lease in self._leases.values()]
        if self.replicated_offset is not None:
            held.append(self.replicated_offset())
        if self._uploading_from is not None:
            held.append(self._uploading_from)
        return min(held, default=None)

    def hold_upload(self, start_offset: int | None) -> None:
        """Hold the log from there on for a snapshot that is being uploaded, as a lease would until
        told otherwise; None: no more.
        """
        self._uploading_from = start_offset

    def drop_all(self) -> None:
        """End every lease: the disk needs its files more than their readers do."""
        self._uploading_from = None
        if self._leases:
            log.warning(
                "Ended all snapshots to free disk space",
                extra={"action": "snapshots_dropped", "snapshot_count": len(self._leases)},
            )
            self._leases.clear()

    def _expire(self) -> None:
        now_ms = self._clock.monotonic_ms()
        ended = [number for number, lease in self._leases.items() if lease.until_ms <= now_ms]
        for number in ended:
            del self._leases[number]
            log.warning(
                "A snapshot's lease expired before the snapshot was released",
                extra={"action": "snapshot_expired", "snapshot_id": number},
            )
