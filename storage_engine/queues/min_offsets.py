"""The first readable offset of each queue since the last deletion: ``config/minOffsets.json``.

    retention, deletions ── save ──▶ [MinOffsets] ── floors ──▶ recovery
                                          └── is_orphan(record) ──▶ schedule, forwarder

Truth that nothing else holds once the segments are gone: consume queues that are rebuilt from what
is left of the log would else begin at 0 again and use queue offsets twice. Written before the
segments are deleted.

A topic that was deleted is here as long as the log may hold records from before: with the ends of
its queues, which a new topic of its name goes on from, and with the log offset of its deletion. So
is one that was purged, with where the log ended then. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from storage_engine.config import StoreConfig
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CONFIG_DIR, MIN_OFFSETS_FILE, SPARE_FILE
from storage_engine.disk.spare_file import SpareFile
from storage_engine.errors import DiskFull, StoreCorrupt
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.record import parse_head
from storage_engine.records.record_draft import read_draft
from storage_engine.records.retry_record import RETRY_TOPIC
from storage_engine.records.schedule_topic import REAL_TOPIC, SCHEDULE_TOPIC

_SPARE_PART: Final = 16  # of the reserve: 1 MiB, some 50,000 queues


class _File(msgspec.Struct):
    """Topic → min_offset by queue id; topic → where the log ended when it went, or was purged; of
    what was scheduled for a purged topic, ``SCHEDULE_TOPIC_XXXX%topic``.
    """

    offsetTable: dict[str, list[int]] = {}
    deletedTable: dict[str, int] = {}
    purgedTable: dict[str, int] = {}


class MinOffsets:
    """See the module's docstring. ``table``: topic → min_offset by queue id; ``deleted``: topic →
    log offset above which all its records belong to a new topic of that name; ``purged``: topic →
    log offset below which nothing is to be retried, and ``scheduled_for(topic)`` → below which what
    was scheduled is not to come; ``spare``: see ``save``.
    """

    def __init__(self, config: StoreConfig, files: Files) -> None:
        self._files = files
        self._path = config.store_path / CONFIG_DIR / MIN_OFFSETS_FILE
        spare_bytes = config.reserve_bytes // _SPARE_PART
        self.spare = SpareFile(files, config.store_path / SPARE_FILE, spare_bytes)
        self.table: dict[str, list[int]] = {}
        self.deleted: dict[str, int] = {}
        self.purged: dict[str, int] = {}

    def load(self) -> None:
        """Raises ``StoreCorrupt`` when the file is there and cannot be read."""
        try:
            file = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            file = _File()
        except msgspec.MsgspecError as exc:
            raise StoreCorrupt(f"{self._path}: {exc}") from exc
        self.table, self.deleted = file.offsetTable, file.deletedTable
        self.purged = file.purgedTable

    def clamp(self, end_offset: int, queues: Iterable[ConsumeQueue]) -> None:
        """Let no deletion and no purge lie behind the end that the log has after a start.

        A power cut may take records that were not durable when a topic was deleted; what comes in
        their place is of a new topic. Raises ``DiskFull``.
        """
        deleted = {topic: min(at, end_offset) for topic, at in self.deleted.items()}
        purged = {topic: min(at, end_offset) for topic, at in self.purged.items()}
        if deleted != self.deleted or purged != self.purged:
            self.save(queues, deleted=deleted, purged=purged)

    def save(
        self,
        queues: Iterable[ConsumeQueue],
        *,
        emptied: Collection[ConsumeQueue] = (),
        begins: Mapping[ConsumeQueue, int] | None = None,
        deleted: dict[str, int] | None = None,
        purged: dict[str, int] | None = None,
        frees_disk: bool = False,
    ) -> None:
        """Write where the queues begin now; durable on return. Raises ``DiskFull``.

        ``emptied``: those that are to begin at their ends; ``begins``: where others are to begin;
        ``deleted``, ``purged``: instead of what is known; ``frees_disk``: so that segments can be
        deleted, for which the spare file is there.
        """
        deleted = self.deleted if deleted is None else deleted
        purged = self.purged if purged is None else purged
        begins = dict(begins or {})
        begins |= {queue: queue.append_offset for queue in emptied}
        table: dict[str, list[int]] = {}
        for queue in queues:
            of_topic = table.setdefault(queue.topic, [])
            assert len(of_topic) == queue.queue_id
            of_topic.append(max(queue.min_offset, begins.get(queue, 0)))
        table = {topic: offsets for topic, offsets in table.items() if any(offsets)}
        if (table, deleted, purged) != (self.table, self.deleted, self.purged):
            content = msgspec.json.encode(_File(table, deleted, purged))
            try:
                self._files.replace(self._path, content)
            except DiskFull:
                if not frees_disk:
                    raise
                self.spare.replace(self._path, content)
            self.table, self.deleted, self.purged = table, deleted, purged

    # What was deleted or purged since it was stored -------------------------------------------

    def is_orphan(self, record: bytes) -> bool:
        """Whether a scheduled record was stored for a topic or group that was deleted since, or for
        a topic that was purged of it since.
        """
        if not self.deleted and not self.purged:
            return False
        properties = read_draft(record).properties
        real, retried = (
            properties.get(name.encode(), b"").decode() for name in (REAL_TOPIC, RETRY_TOPIC)
        )
        return parse_head(record, 0).physical_offset < self.gone_below(real, retried)

    def gone_below(self, real: str, retried: str) -> int:
        """Physical offset below which records of the schedule for the topic ``real``, retries of
        the topic ``retried`` if they are, go nowhere any more.
        """
        deleted, purged = self.deleted, self.purged
        return max(
            deleted.get(real, 0),
            deleted.get(retried, 0),
            purged.get(retried, 0),
            purged.get(scheduled_for(real), 0),
        )


def scheduled_for(topic: str) -> str:
    """Under which what producers have scheduled for a topic is purged; no topic's name."""
    return f"{SCHEDULE_TOPIC}%{topic}"
