"""Keeps scheduled messages alive when retention deletes the segment they stand in.

    retention ── forward(below_offset) ──▶ [Forwarder] ── same records again ──▶ commit_log

They are appended again, byte for byte the same but for their place and store time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from storage_engine.log.commit_log import CommitLog, Entry
from storage_engine.queues.consume_queue import ConsumeQueue, Unit
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.records.record import STORE_TIMESTAMP_AT, SYSFLAG_AT, SYSFLAG_BORN_HOST_V6
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC_BYTES

_V6_MORE: Final = 12
_BATCH_COUNT: Final = 100


class Forwarder:
    """See the module's docstring. What stands in the topic's queues is still to come.

    ``appended(end_offset, entries)`` makes a batch known to those who publish it; ``durable_to``
    waits for the disk.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        appended: Callable[[int, list[Entry]], None],
        durable_to: Callable[[int], Awaitable[None]],
    ) -> None:
        self._commit_log = commit_log
        self._queues = queues
        self._appended = appended
        self._durable_to = durable_to
        self.forwarded_count = 0

    async def forward(self, below_offset: int) -> None:
        """Append again what is still to come and stands below ``below_offset``; durable on return.

        Raises ``DiskFull``, ``SyncFailed``: then nothing may be deleted.
        """
        for queue in self._queues.by_topic.get(SCHEDULE_TOPIC_BYTES, []):
            first = queue.min_offset
            end = queue.first_at_or_above(below_offset)
            while first < end:
                count = self._append(queue, first, min(_BATCH_COUNT, end - first))
                first += count
                self.forwarded_count += count
        await self._durable_to(self._commit_log.append_offset)

    def _append(self, queue: ConsumeQueue, first: int, count_max: int) -> int:
        """Append as many as a segment holds, but one at least; how many were looked at."""
        room = self._commit_log.batch_bytes_max
        units: list[Unit] = []
        for unit in queue.units(first, count_max):
            room -= unit[1]
            if units and room < 0:
                break
            units.append(unit)
        count = len(units)
        damaged = set(self._commit_log.damaged([unit[:2] for unit in units]))
        units = [unit for at, unit in enumerate(units) if at not in damaged]
        payload = self._commit_log.read_many([unit[:2] for unit in units])
        entries: list[Entry] = []
        at = 0
        for _, record_bytes, due_ms in units:
            sysflag = int.from_bytes(payload[at + SYSFLAG_AT : at + SYSFLAG_AT + 4])
            stamp_at = STORE_TIMESTAMP_AT + (_V6_MORE if sysflag & SYSFLAG_BORN_HOST_V6 else 0)
            entries.append((at, record_bytes, queue, stamp_at, due_ms))
            at += record_bytes
        if entries:
            self._commit_log.append(payload, entries)
            self._appended(self._commit_log.append_offset, entries)
        return count
