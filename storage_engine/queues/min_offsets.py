"""Where each queue begins since retention last deleted something: ``config/minOffsets.json``.

    retention ── save ──▶ [MinOffsets] ── floors ──▶ recovery

Truth that nothing else holds once the segments are gone: consume queues that are rebuilt from what
is left of the log would else begin at 0 again and use queue offsets twice. Written before the
segments are deleted. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from storage_engine.disk.files import Files
from storage_engine.errors import StoreCorrupt
from storage_engine.layout import CONFIG_DIR, MIN_OFFSETS_FILE
from storage_engine.queues.consume_queue import ConsumeQueue


class _File(msgspec.Struct):
    """Topic → min_offset by queue id."""

    offsetTable: dict[str, list[int]] = {}


class MinOffsets:
    """See the module's docstring. ``table``: topic → min_offset by queue id."""

    def __init__(self, files: Files, store_path: Path) -> None:
        self._files = files
        self._path = store_path / CONFIG_DIR / MIN_OFFSETS_FILE
        self.table: dict[str, list[int]] = {}

    def load(self) -> None:
        """Raises ``StoreCorrupt`` when the file is there and cannot be read."""
        try:
            self.table = msgspec.json.decode(self._path.read_bytes(), type=_File).offsetTable
        except FileNotFoundError:
            self.table = {}
        except msgspec.MsgspecError as exc:
            raise StoreCorrupt(f"{self._path}: {exc}") from exc

    def save(self, queues: Iterable[ConsumeQueue]) -> None:
        """Write where the queues begin now; durable on return. Raises ``DiskFull``."""
        table: dict[str, list[int]] = {}
        for queue in queues:
            of_topic = table.setdefault(queue.topic, [])
            assert len(of_topic) == queue.queue_id
            of_topic.append(queue.min_offset)
        table = {topic: offsets for topic, offsets in table.items() if any(offsets)}
        if table != self.table:
            self._files.replace(self._path, msgspec.json.encode(_File(table)))
            self.table = table
