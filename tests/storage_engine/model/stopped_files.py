"""What can be seen of a store's files, and done to them while no engine runs.

machine ── files, model ──▶ [derived] ──▶ what must come back after [delete_derived]
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from storage_engine.queues.consume_queue import UNIT_BYTES
from tests.storage_engine.crash.log_reader import Unit, read_units
from tests.storage_engine.doubles import SEGMENT_BYTES, UNITS, fingerprint
from tests.storage_engine.model.store_model import Queue, QueueModel, Stored, StoreModel


class Derived(NamedTuple):
    """Units of all that is readable; and, while nothing was damaged or deleted, the very files.

    Not those with units of expired messages only: a rebuild makes them again for as long as the log
    has the messages, and the next pass of retention deletes them.
    """

    units: dict[Queue, list[Unit]]
    files: dict[str, bytes]


def derived(store_dir: Path, model: StoreModel) -> Derived:
    """What consume queues and index hold now."""
    units: dict[Queue, list[Unit]] = {}
    for name, queue in model.queues.items():
        whole = set(queue.whole())
        if whole:
            found = read_units(store_dir, *name, queue.min_offset, queue.max_offset)
            units[name] = [unit for at, unit in enumerate(found, queue.min_offset) if at in whole]
    expired = {path for name, queue in model.queues.items() for path in _expired(name, queue)}
    files: dict[str, bytes] = {}
    for directory in ("consumequeue", "index") if model.is_pristine else ():
        for path, content in fingerprint(store_dir / directory).items():
            # A frame takes room for more units than a queue may get: files without any.
            if any(content) and f"{directory}/{path}" not in expired:
                files[f"{directory}/{path}"] = content
    return Derived(units, files)


def _expired(name: Queue, queue: QueueModel) -> list[str]:
    """The files of a consume queue that hold no unit from its min_offset on."""
    file_bytes = UNITS * UNIT_BYTES
    end = queue.min_offset * UNIT_BYTES // file_bytes * file_bytes
    topic, queue_id = name
    return [f"consumequeue/{topic}/{queue_id}/{base:020d}" for base in range(0, end, file_bytes)]


def delete_derived(store_dir: Path, directories: set[str], queue_file: int) -> None:
    """Whole directories, and, unless it is negative, one file of a consume queue."""
    files = [path for path in (store_dir / "consumequeue").rglob("*") if path.is_file()]
    if files and queue_file >= 0:
        sorted(files)[queue_file % len(files)].unlink()
    for name in sorted(directories):
        shutil.rmtree(store_dir / name, ignore_errors=True)


def flip_bit(store_dir: Path, one: Stored, bit: int) -> None:
    """Damage a record in the log."""
    base = one.physical_offset - one.physical_offset % SEGMENT_BYTES
    path = store_dir / "commitlog" / f"{base:020d}"
    at = one.physical_offset - base + bit // 8 % one.record_bytes
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit % 8
    path.write_bytes(content)
