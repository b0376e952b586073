"""The table of all consume queues, by topic.

    store ── get(topic, queue_id) ──▶ [ConsumeQueues] ──▶ ConsumeQueue
    recovery ── load(dispatched_offset) ──▶

A topic's queues exist from the moment the topic does; their files only from the first message on.
Loop thread only.
"""

from __future__ import annotations

from collections.abc import Iterator

from storage_engine.config import StoreConfig
from storage_engine.consume_queue import ConsumeQueue
from storage_engine.files import Files
from storage_engine.layout import CONSUME_QUEUE_DIR, consume_queue_dir


class ConsumeQueues:
    """See the module's docstring. ``by_topic`` is keyed by the topic's UTF-8 bytes, as records hold
    it.
    """

    def __init__(self, config: StoreConfig, files: Files) -> None:
        self._config = config
        self._files = files
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
                )
            )
        return queues

    def load(self, dispatched_offset: int) -> None:
        """Open the queues that have a directory, cut to the records below ``dispatched_offset``."""
        root = self._config.store_path / CONSUME_QUEUE_DIR
        for topic_dir in sorted(root.iterdir()) if root.is_dir() else ():
            ids = [int(path.name) for path in topic_dir.iterdir() if path.name.isdecimal()]
            if ids:
                for queue in self.ensure(topic_dir.name, max(ids) + 1):
                    queue.recover(dispatched_offset)

    def __iter__(self) -> Iterator[ConsumeQueue]:
        for queues in self.by_topic.values():
            yield from queues

    def close(self) -> None:
        for queue in self:
            queue.close()
