"""``config/delayOffset.json``: how far each delay level has been delivered, as RocketMQ keeps it.

    {"offsetTable": {"1": 17, "2": 4}}      level → the first message that is still to come

The truth is in the consumer offsets, which also know what was delivered out of order. This file is
written with them, for a RocketMQ that opens the store; and it is read where they know nothing,
because a RocketMQ has written the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from storage_engine.config import StoreConfig
from storage_engine.disk.files import Files
from storage_engine.layout import CONFIG_DIR, DELAY_OFFSET_FILE
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.delay_levels import DELAY_LEVEL_MAX
from storage_engine.schedule.source import Source

log = logging.getLogger(__name__)


class _File(msgspec.Struct, frozen=True):
    offsetTable: dict[str, int] = {}


class LevelOffsets:
    """See the module's docstring."""

    def __init__(self, config: StoreConfig, files: Files) -> None:
        self._files = files
        self._path = config.store_path / CONFIG_DIR / DELAY_OFFSET_FILE
        self._written: dict[str, int] = {}

    def first_of(self, queue: ConsumeQueue) -> int:
        """Where a queue of the schedule begins of which the consumer offsets know nothing."""
        try:
            file = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return queue.min_offset
        except (OSError, msgspec.MsgspecError) as exc:
            log.warning(
                "delay levels begin at their first messages",
                extra={"action": "delay_offsets_unread", "reason": str(exc)},
            )
            return queue.min_offset
        first = file.offsetTable.get(str(queue.queue_id + 1), 0)
        return min(max(first, queue.min_offset), queue.max_offset)

    def writer(self, sources: Iterable[Source]) -> Callable[[], None]:
        """Take down how far each level is now; what writes it into the file, on any thread.

        It raises ``DiskFull``; and does nothing where nothing has changed.
        """
        taken = {
            str(source.queue.queue_id + 1): source.progress.consumer_offset
            for source in sources
            if source.queue.queue_id < DELAY_LEVEL_MAX
        }
        return partial(self._write, taken)

    def _write(self, taken: dict[str, int]) -> None:
        if taken != self._written:
            self._files.replace(self._path, msgspec.json.encode(_File(taken)))
            self._written = taken
