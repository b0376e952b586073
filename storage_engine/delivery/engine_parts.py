"""What everything works with that delivers messages, moves them or lets them go.

    Store.open ──▶ [EngineParts] ──▶ delivery, moves, schedule, lag, groups, retention

The parts are those of one open store. Loop thread only.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.notices import Notices
from storage_engine.disk.disk_space import DiskSpace
from storage_engine.disk.files import Files
from storage_engine.log.commit_log import CommitLog
from storage_engine.log.quarantine import Quarantine
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.queues.min_offsets import MinOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """See the module's docstring."""

    config: StoreConfig
    clock: Clock
    files: Files
    disk: DiskSpace
    commit_log: CommitLog
    queues: ConsumeQueues
    min_offsets: MinOffsets
    quarantine: Quarantine
    consumer_offsets: ConsumerOffsets
    loop: asyncio.AbstractEventLoop
    notices: Notices = field(default_factory=Notices)

    def read_checked(self, records: list[tuple[int, int]]) -> tuple[bytes, list[int]]:
        """See ``CommitLog.read_checked``; what is damaged is put into quarantine."""
        content, damaged = self.commit_log.read_checked(records)
        self.quarantine.note_unreadable([records[at] for at in damaged])
        return content, damaged
