"""A store of this engine opened for export: read as a start reads it, and not changed.

config/*.json, offsets.journal, log ──▶ [OwnStore] ──▶ topics, groups, progress, records()
"""

from __future__ import annotations

from pathlib import Path

from storage_engine.catalog.config_table import GroupTable, TopicTable
from storage_engine.clock import SystemClock
from storage_engine.config import StoreConfig
from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.progress import Progress
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CHECKPOINT_FILE, COMMIT_LOG_DIR
from storage_engine.errors import StoreCorrupt
from storage_engine.log.checkpoint import read_checkpoint
from storage_engine.moves.dead_letters import REDRIVE_GROUP
from storage_engine.queues.min_offsets import MinOffsets
from storage_engine.records.record_parts import parts_of
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.records.settles import SETTLES_HEAD, settles_of
from storage_engine.records.topic_names import retry_topic_of
from storage_engine.schedule.schedule import SCHEDULE_GROUP
from storage_engine.tools.transfer.source import SourceRejected, StoreFiles


class OwnStore(StoreFiles):
    """See the module's docstring."""

    how_to_stop = "Stop it first (mqservice stop)"
    how_to_repair = "Nothing was changed. Run `mqservice engine verify`, or restore a backup"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        files, clock = Files(), SystemClock()  # only to read
        self.topics = TopicTable(files, path, clock)
        self.groups = GroupTable(files, path, clock)
        self._floors = MinOffsets(StoreConfig(store_dir=str(path)), files)
        self._offsets = ConsumerOffsets(files, path)

    def _require_kind(self) -> None:
        if not (self.path / COMMIT_LOG_DIR).is_dir():
            raise SourceRejected(
                f"{self.path} is not a store of this service: it has no "
                f"{COMMIT_LOG_DIR} directory. Name a data directory in which a "
                "service was started"
            )
        try:
            mark = read_checkpoint(self.path / CHECKPOINT_FILE)
        except StoreCorrupt as exc:
            raise SourceRejected(str(exc)) from exc
        if mark is None:
            raise SourceRejected(
                f"{self.path} has no checkpoint of this service: start the service on "
                "it once, and stop it again"
            )

    def _read_config(self) -> None:
        try:
            self.topics.load()
            self.groups.load()
            self._floors.load()
            self._offsets.load()
        except StoreCorrupt as exc:
            raise SourceRejected(f"{exc}. Nothing was changed") from exc

    def settle_moved(self) -> None:
        """Read the log once, for the records that took another one's place. Raises
        ``SourceRejected``.
        """
        found = []
        for record in self.records():
            parts = parts_of(record.view, record.at)
            if SETTLES_HEAD in parts.tail:
                settled = settles_of(parts.tail, parts.properties_at)
                if settled is not None:
                    found.append(settled)
        self._offsets.settle_recovered(found)

    def floor(self, topic: str, queue_id: int) -> int:
        """Where a queue begins: what stands below was deleted."""
        of_topic = self._floors.table.get(topic, [])
        return of_topic[queue_id] if queue_id < len(of_topic) else 0

    def progress(self, group: str, topic: str, queue_id: int) -> Progress | None:
        """How far a group is on a queue, by full names; None when it has not read it."""
        return self._offsets.find(group, topic, queue_id)

    def is_scheduled(self, queue_id: int, queue_offset: int) -> bool:
        """Whether a message of the schedule topic is still to come."""
        progress = self._offsets.find(SCHEDULE_GROUP, SCHEDULE_TOPIC, queue_id)
        return progress is None or not progress.is_settled(queue_offset)

    def is_to_retry(self, group: str, queue_id: int, queue_offset: int) -> bool:
        """Whether a message of the group's retry topic is still to be delivered."""
        progress = self._offsets.find(group, retry_topic_of(group), queue_id)
        return progress is None or not progress.is_settled(queue_offset)

    def is_dead(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Whether a dead letter was neither redriven nor dropped."""
        progress = self._offsets.find(REDRIVE_GROUP, topic, queue_id)
        return progress is None or not progress.is_settled(queue_offset)
