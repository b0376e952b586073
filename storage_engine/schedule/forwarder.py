"""Copies scheduled messages forward when retention deletes the segment they are in.

    retention ── forward(below_offset) ──▶ [Forwarder] ── same records again ──▶ moves

The same message, at the end of the log; the new record says which one it takes the place of.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.errors import RecordRefused, StoreCorrupt
from storage_engine.log.durability import Durability
from storage_engine.moves.moves import Move, settles_for
from storage_engine.records.retry_record import forwarded_record
from storage_engine.schedule.schedule import Schedule
from storage_engine.schedule.source import Source

log = logging.getLogger(__name__)

_BATCH_COUNT_MAX: Final = 100


class Forwarder:
    """See the module's docstring."""

    def __init__(self, parts: EngineParts, schedule: Schedule, durability: Durability) -> None:
        self._commit_log = parts.commit_log
        self._is_orphan = parts.min_offsets.is_orphan
        self._schedule = schedule
        self._mover = schedule.mover
        self._durable_to = durability.durable_to

    async def forward(self, below_offset: int) -> None:
        """Append again what is still to come and stands below ``below_offset``; durable on return.

        Raises ``DiskFull``, ``SyncFailed``, ``StoreReadOnly``: then nothing may be deleted.
        """
        self._schedule.follow()
        for source in self._schedule.sources:
            first = source.queue.min_offset
            end = source.queue.first_at_or_above(below_offset)
            while first < end:
                first = self._append(source, first, end)
                await asyncio.sleep(0)
        # What is on its way already must have arrived as well.
        await self._durable_to(self._commit_log.append_offset)

    def _append(self, source: Source, first: int, end: int) -> int:
        """Append some of what stands in ``[first, end)`` again; the offset of the next one."""
        moves: list[Move] = []
        batch_bytes = 0
        for unit in source.queue.units(first, min(_BATCH_COUNT_MAX, end - first)):
            if source.is_pending(first) and not self._commit_log.damaged([unit[:2]]):
                old = self._commit_log.read_many([unit[:2]])
                if self._is_orphan(old):
                    first += 1
                    continue
                record = self._forwarded(source, first, old)
                if record is None:
                    first += 1
                    continue
                batch_bytes += len(record)
                if moves and batch_bytes > self._mover.batch_bytes_max:
                    break
                moves.append(Move(record, source.progress, first))
            first += 1
        if moves:
            taken = {move.queue_offset for move in moves}
            self._mover.move(moves, lambda: source.moving.difference_update(taken))
            source.moving |= taken
        return first

    def _forwarded(self, source: Source, queue_offset: int, old: bytes) -> bytes | None:
        """The record again; None for one that no record can take the place of.

        Such one is lost, and only it: were it kept, all that is younger would be kept with it, and
        the disk fill up for everybody. A producer cannot make one: what it may send leaves room.
        """
        try:
            record = forwarded_record(old, settles=settles_for(source.progress, queue_offset))
            self._mover.check(record)
        except (RecordRefused, StoreCorrupt) as exc:
            log.error(
                "Dropped a scheduled message that could not be rewritten",
                extra={
                    "action": "scheduled_message_dropped",
                    "offset": queue_offset,
                    "reason": str(exc),
                },
            )
            return None
        return record
