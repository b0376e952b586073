"""``config/delayOffset.json``: how far each delay level has been delivered, as RocketMQ keeps it.

    {"offsetTable":{1:17,2:4}}      level → the first message that is still to come

The truth is in the consumer offsets, which also know what was delivered out of order. This file is
written with them, for a RocketMQ that opens the store; and it counts where it is ahead of them,
because a RocketMQ has delivered from the store since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from storage_engine.config import StoreConfig
from storage_engine.disk import config_json
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CONFIG_DIR, DELAY_OFFSET_FILE
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.delay_levels import DELAY_LEVEL_MAX
from storage_engine.schedule.source import Source


class _File(msgspec.Struct, frozen=True):
    offsetTable: dict[int, int] = {}


class LevelOffsets:
    """See the module's docstring."""

    def __init__(self, config: StoreConfig, files: Files) -> None:
        self._files = files
        self._path = config.store_path / CONFIG_DIR / DELAY_OFFSET_FILE
        self._written: dict[int, int] = {}
        self._found: dict[int, int] = {}
        self._unknown: dict[str, msgspec.Raw] = {}  # RocketMQ's, kept as they are

    def load(self) -> None:
        """Read the file; changes nothing. Raises ``StoreCorrupt``."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return
        self._found = config_json.decode(content, _File, self._path).offsetTable
        self._unknown = config_json.unknown_fields(content, _File.__struct_fields__, self._path)

    def first_of(self, queue: ConsumeQueue) -> int:
        """Where a queue of the schedule begins, for all that the file knows."""
        first = self._found.get(queue.queue_id + 1, 0)
        return min(max(first, queue.min_offset), queue.max_offset)

    def writer(self, sources: Iterable[Source]) -> Callable[[], None]:
        """Take down how far each level is now; what writes it into the file, on any thread.

        It raises ``DiskFull``; and does nothing where nothing has changed.
        """
        taken = {
            source.queue.queue_id + 1: source.progress.consumer_offset
            for source in sources
            if source.queue.queue_id < DELAY_LEVEL_MAX
        }
        return partial(self._write, taken)

    def _write(self, taken: dict[int, int]) -> None:
        if taken != self._written:
            table = msgspec.Raw(config_json.integer_table(taken))
            content = msgspec.json.encode({**self._unknown, "offsetTable": table})
            self._files.replace(self._path, content)
            self._written = taken
