"""The table of all consume queues, by topic.

    store ── get(topic, queue_id) ──▶ [ConsumeQueues] ──▶ ConsumeQueue
    recovery ── load(dispatched_offset) ──▶

A topic's queues exist from the moment the topic does; their files only from the first message on.
Loop thread only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from storage_engine.config import StoreConfig
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CONSUME_QUEUE_DIR, consume_queue_dir
from storage_engine.disk.mapped_file import MappedFile, MapPool
from storage_engine.queues.consume_queue import ConsumeQueue, Unit

# A sync of each takes a millisecond or so; of more than these, one for the whole disk is quicker.
SYNC_EACH_MAX: Final = 256


class ConsumeQueues:
    """See the module's docstring. ``by_topic`` is keyed by the topic's UTF-8 bytes, as records hold
    it.
    """

    def __init__(self, config: StoreConfig, files: Files) -> None:
        self._config = config
        self._files = files
        self.pool = MapPool(config.map_count_max)
        self.by_topic: dict[bytes, list[ConsumeQueue]] = {}

    def ensure(self, topic: str, queue_count: int) -> list[ConsumeQueue]:
        """The topic's queues, at least ``queue_count`` of them, in order of queue id."""
        queues = self.by_topic.setdefault(topic.encode(), [])
        for queue_id in range(len(queues), queue_count):
            queues.append(
                ConsumeQueue(
                    self._files,
                    consume_queue_dir(self._config.store_path, topic, queue_id),
                    topic,
                    queue_id,
                    file_bytes=self._config.consume_queue_file_bytes,
                    allocate_bytes=self._config.consume_queue_allocate_bytes,
                    pool=self.pool,
                )
            )
        return queues

    def load(
        self, dispatched_offset: int, floors: Mapping[str, list[int]]
    ) -> list[tuple[ConsumeQueue, int, Unit]]:
        """Open the queues that have a directory, cut to the records below ``dispatched_offset``.

        ``floors``: least min_offset of each queue, by topic. Returns the units that were cut, as
        (queue, queue_offset, unit), in the order of the log.
        """
        root = self._config.store_path / CONSUME_QUEUE_DIR
        counts = {topic: len(offsets) for topic, offsets in floors.items()}
        for topic_dir in root.iterdir() if root.is_dir() else ():
            ids = [int(path.name) for path in topic_dir.iterdir() if path.name.isdecimal()]
            if ids:
                counts[topic_dir.name] = max(max(ids) + 1, counts.get(topic_dir.name, 0))
        cut = []
        for topic, count in sorted(counts.items()):
            known = floors.get(topic, [])
            for queue in self.ensure(topic, count):
                floor = known[queue.queue_id] if queue.queue_id < len(known) else 0
                cut += [(queue, *entry) for entry in queue.recover(dispatched_offset, floor)]
        return sorted(cut, key=lambda entry: entry[2][0])

    def forget(self, topic: str) -> bool:
        """Delete the queues of a topic, whose records must be gone from the log.

        Not while a checkpoint may be syncing one: then False.
        """
        queues = self.by_topic.get(topic.encode(), [])
        if any(queue.is_dirty(queue.max_offset) for queue in queues):
            return False
        self.by_topic.pop(topic.encode(), None)
        for queue in queues:
            queue.delete_files()
        return True

    def sync(self, files: list[MappedFile]) -> None:
        """Make the content and the names of queue files durable; any thread.

        Raises ``SyncFailed``.
        """
        if len(files) > SYNC_EACH_MAX:
            self._files.sync_file_system(self._config.store_path)
        else:
            for file in files:
                file.sync_whole()
            for directory in {path for file in files if file.is_new for path in self._above(file)}:
                self._files.sync_dir(directory)
        for file in files:
            file.is_new = False

    def make_durable(self) -> int:
        """All units, at once; how many there are. Raises ``SyncFailed``."""
        ends = [(queue, queue.max_offset) for queue in self]
        dirty = [(queue, end) for queue, end in ends if queue.is_dirty(end)]
        self.sync([file for queue, end in dirty for file in queue.dirty_files(end)])
        for queue, end in dirty:
            queue.synced(end)
        return sum([end for _, end in ends])

    def _above(self, file: MappedFile) -> list[Path]:
        """The directories whose names lead to a queue file."""
        parents = file.path.parents
        return list(parents[: parents.index(self._config.store_path) + 1])

    def __iter__(self) -> Iterator[ConsumeQueue]:
        for queues in self.by_topic.values():
            yield from queues

    def close(self) -> None:
        for queue in self:
            queue.close()
