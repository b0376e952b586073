"""Keeps scheduled messages alive when retention deletes the segment they stand in.

    retention ── forward(below_offset) ──▶ [Forwarder] ── same records again ──▶ engine_puts

They are appended again, byte for byte the same but for their place and store time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from storage_engine.engine_puts import EnginePuts
from storage_engine.log.commit_log import CommitLog
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC_BYTES

_BATCH_COUNT: Final = 100


class Forwarder:
    """See the module's docstring. What stands in the topic's queues is still to come.

    ``durable_to`` waits for the disk.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        puts: EnginePuts,
        durable_to: Callable[[int], Awaitable[None]],
    ) -> None:
        self._commit_log = commit_log
        self._queues = queues
        self._puts = puts
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
                count = min(_BATCH_COUNT, end - first)
                self._append(queue, first, count)
                first += count
                self.forwarded_count += count
        await self._durable_to(self._commit_log.append_offset)

    def _append(self, queue: ConsumeQueue, first: int, count: int) -> None:
        records = [unit[:2] for unit in queue.units(first, count)]
        damaged = set(self._commit_log.damaged(records))
        records = [record for at, record in enumerate(records) if at not in damaged]
        if records:
            self._puts.append(self._commit_log.read_many(records))
