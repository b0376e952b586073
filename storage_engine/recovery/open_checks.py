"""Stores that must not be opened although their log can be read; changes nothing but the mark that
says whose a store is.

    names in the directory ──▶ [reject_foreign_files]  consume queues' units ──▶ [reject_gaps]

Consume queues are derived and prove nothing, but one that leads to a record which no segment holds
says that a segment is missing, which the log cannot say of its own first and last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    COMMIT_LOG_DIR,
    CONFIG_DIR,
    CONSUME_QUEUE_DIR,
    LOCK_FILE,
    LOST_AND_FOUND,
    SHARD_FILE,
    TEMPORARY_SUFFIX,
    TOPICS_FILE,
    base_offset_of,
    has_store,
)
from storage_engine.errors import ConfigInvalid, StoreCorrupt
from storage_engine.queues.consume_queue import PRE_BLANK_BYTES, UNIT, UNIT_BYTES, Unit

_PARTS: Final = frozenset({COMMIT_LOG_DIR, CONFIG_DIR, LOCK_FILE})
MAIN_SHARD: Final = "main"
_LIGHT_QUEUE: Final = "%LMQ%"  # RocketMQ's light message queues, which have no records of their own


def reject_foreign_files(store: Path) -> None:
    """Raises ``StoreCorrupt``: the directory has files, and is no store."""
    names = {path.name for path in store.iterdir()} if store.is_dir() else set()
    names -= {LOST_AND_FOUND, SHARD_FILE, SHARD_FILE + TEMPORARY_SUFFIX}
    names = {name for name in names if not name.startswith(".")}
    if names and not names & _PARTS:
        some = ", ".join(sorted(names)[:3])
        raise StoreCorrupt(
            f"{store} is not a store and not empty (it has {some}). Nothing was "
            "changed: name an empty directory, or the directory that has commitlog "
            "and config in it"
        )


def claim_store(files: Files, store: Path, shard: str) -> None:
    """Before a store is opened: a new one gets a mark that says whose it is, since a store of
    another shard would be served under a wrong name. The main shard's has none, as every store of
    an installation with one engine.

    Raises:
        ConfigInvalid: it is another shard's. StoreCorrupt: it is no store, or has messages and a
        mark that says nothing.
    """
    mark = store / SHARD_FILE
    owner = _owner(store, mark, shard)
    if owner is None:
        reject_foreign_files(store)
        files.make_dirs(store)
        files.replace(mark, shard.encode())
    elif owner != shard:
        raise ConfigInvalid(
            f"{store} is the store of the shard {owner}, and MQ_ENGINE_SHARD is {shard}: "
            "name the shard or the directory that is meant"
        )


def _owner(store: Path, mark: Path, shard: str) -> str | None:
    """Whose store it is; None where it is nobody's yet and ``shard`` has to mark it."""
    if not mark.exists():
        is_used = any((store / part).exists() for part in _PARTS)
        return MAIN_SHARD if is_used or shard == MAIN_SHARD else None
    owner = mark.read_text(encoding="utf-8", errors="replace").strip().strip("\0")
    if owner != shard and shard.startswith(owner) and not has_store(store):
        return None  # half of a mark, or none of it: the machine stopped while it was written
    if not owner:
        raise StoreCorrupt(
            f"{mark} is empty, so nobody knows which shard's messages {store} has. Nothing was "
            "changed: write the shard's name into that file, or delete it if this is the main "
            "shard's store"
        )
    return owner


class _Queue(NamedTuple):
    topic: str
    queue_id: int
    files: list[tuple[int, Path]]  # by base offset


def reject_gaps(
    store: Path, floors: Mapping[str, list[int]], *, log_start: int, log_end: int, is_ours: bool
) -> None:
    """Check consume queues and configuration against the segments that are there.

    ``floors``: least min_offset of each queue, by topic; ``is_ours``: they are complete.

    Raises:
        StoreCorrupt: the first or the last segments are missing, or the configuration is.
    """
    if log_end > log_start and not (store / CONFIG_DIR / TOPICS_FILE).exists():
        raise StoreCorrupt(
            f"{store} has a log but no {CONFIG_DIR}/{TOPICS_FILE}: its topics, groups "
            "and consumer offsets are missing. Nothing was changed: copy the store's "
            "config directory too"
        )
    if is_ours and not log_start:
        return
    for queue in _queues(store / CONSUME_QUEUE_DIR):
        if queue.topic.startswith(_LIGHT_QUEUE):
            raise StoreCorrupt(
                f"{store} has light message queues of RocketMQ ({queue.topic}), which "
                "this engine cannot read. Nothing was changed: let RocketMQ serve "
                "this store"
            )
        if is_ours:
            of_topic = floors.get(queue.topic, [])
            floor = of_topic[queue.queue_id] if queue.queue_id < len(of_topic) else 0
            unit = _unit_at(queue, floor)
            if unit is not None and unit[0] < log_start and 0 < unit[1] < PRE_BLANK_BYTES:
                _reject(queue, floor, unit, "the first segments are", log_start, log_end)
        else:
            last = _last_unit(queue)
            if last is not None and last[1][0] + last[1][1] > log_end:
                _reject(queue, *last, "the last segments are", log_start, log_end)


def _reject(
    queue: _Queue, queue_offset: int, unit: Unit, what: str, log_start: int, log_end: int
) -> None:
    raise StoreCorrupt(
        f"message {queue_offset} of {queue.topic}/{queue.queue_id} is at {unit[0]} of "
        f"the log, but the log goes from {log_start} to {log_end}: {what} missing. "
        "Nothing was changed: restore them, for example from a backup. If they are "
        f"gone for good, delete the store's {CONSUME_QUEUE_DIR} directory: it is "
        "rebuilt from the rest of the log"
    )


def _queues(root: Path) -> Iterator[_Queue]:
    for topic in sorted(root.iterdir()) if root.is_dir() else ():
        for directory in sorted(topic.iterdir()) if topic.is_dir() else ():
            if not directory.name.isdecimal() or not directory.is_dir():
                continue
            bases = [(base_offset_of(path.name), path) for path in directory.iterdir()]
            files = sorted((base, path) for base, path in bases if base is not None)
            yield _Queue(topic.name, int(directory.name), files)


def _unit_at(queue: _Queue, queue_offset: int) -> Unit | None:
    position = queue_offset * UNIT_BYTES
    for base_offset, path in reversed(queue.files):
        if base_offset <= position:
            return _read(path, position - base_offset)
    return None


def _last_unit(queue: _Queue) -> tuple[int, Unit] | None:
    """The last unit that is one, with its queue offset; None in an empty queue."""
    for base_offset, path in reversed(queue.files):
        low, high = 0, path.stat().st_size // UNIT_BYTES
        while low < high:
            middle = (low + high) // 2
            unit = _read(path, middle * UNIT_BYTES)
            if unit is not None and unit[1] > 0:
                low = middle + 1
            else:
                high = middle
        unit = _read(path, (low - 1) * UNIT_BYTES) if low else None
        if unit is not None and unit[1] < PRE_BLANK_BYTES:
            return base_offset // UNIT_BYTES + low - 1, unit
    return None


def _read(path: Path, position: int) -> Unit | None:
    with path.open("rb") as file:
        file.seek(position)
        content = file.read(UNIT_BYTES)
    return UNIT.unpack(content) if len(content) == UNIT_BYTES else None
