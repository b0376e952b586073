"""What the log of a former owner has beyond the one of the next owner, and so has to lose.

    segments ── data_beyond(start) ──▶ bytes that are cut off
                keep(start) ──▶ STORE.cut-EPOCH: a store with them, which an engine can open

The replicated log never had them. Nobody was told that a message of a ``replicated`` topic among
them is stored, so they are kept only where there are others: with the segments that they are in and
the small files of then. Of such copies the last three stay.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    COMMIT_LOG_DIR,
    CONFIG_DIR,
    SHARD_FILE,
    TOPICS_FILE,
    base_offsets_in,
    segment_name,
)
from storage_engine.disk.mapped_file import are_zeros
from storage_engine.disk.mapped_files import MappedFiles
from storage_engine.disk.small_files import identities
from storage_engine.errors import StoreError
from storage_engine.log.log_scan import Damage, Run, read_through
from storage_engine.records.record_parts import parts_of
from storage_engine.wire.topics import DURABILITY_ATTRIBUTE, Durability

log = logging.getLogger(__name__)

_KEPT_MAX: Final = 3
_PIECE_BYTES: Final = 1024 * 1024
_SUFFIX: Final = ".cut-"
_PART: Final = ".part"


class _Topic(msgspec.Struct):
    attributes: dict[str, str] = {}


class _Topics(msgspec.Struct):
    """Of the file, names and durability only."""

    topicConfigTable: dict[str, _Topic] = {}


def data_beyond(files: Files, store: Path, start: int) -> Iterator[tuple[Path, int, bytes]]:
    """Segment, position there and content of all that is not zeros, from an offset of the log on:
    pieces of a MiB at most, in their order.
    """
    directory = store / COMMIT_LOG_DIR
    for base in base_offsets_in(directory):
        path = directory / segment_name(base)
        yield from _data(files, path, max(start - base, 0))


def _data(files: Files, path: Path, start: int) -> Iterator[tuple[Path, int, bytes]]:
    for first, end in files.data_ranges(path, start, path.stat().st_size):
        with path.open("rb") as file:
            file.seek(first)
            for at in range(first, end, _PIECE_BYTES):
                content = file.read(min(_PIECE_BYTES, end - at))
                if not are_zeros(content):
                    yield path, at, content


def keep(files: Files, store: Path, start: int, epoch: int) -> None:
    """Keep what is there from ``start`` on, unless none of it was acknowledged; durable on return.

    Raises ``DiskFull``, ``SyncFailed``, ``StoreError``: it could not be kept.
    """
    kept = store.with_name(f"{store.name}{_SUFFIX}{epoch}")
    if kept.exists() or not _has_acknowledged(files, store, start):
        return
    log.warning(
        "This store has messages of the last moments that its shard's next owner has not; keeping "
        "them beside it. Delete them when nobody needs them any more",
        extra={"action": "messages_cut_off", "path": str(kept), "offset": start},
    )
    part = kept.with_name(kept.name + _PART)
    try:
        shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
        _copy(files, store, part, start)
        part.rename(kept)
    except OSError as exc:
        raise StoreError(
            f"what {store} has more than its replicated log could not be kept as {kept}: "
            f"{exc.strerror}. Make room there, or move the store away: a new one is built from the "
            "log"
        ) from exc
    files.sync_dir(kept.parent)
    _forget_oldest(store)


def _has_acknowledged(files: Files, store: Path, start: int) -> bool:
    """Whether somebody may have been told that a message from there on is stored."""
    directory = store / COMMIT_LOG_DIR
    found = next(data_beyond(files, store, start), None)
    if found is None:
        return False
    replicated = _replicated_topics(store)
    run = MappedFiles(files, directory, found[0].stat().st_size)
    run.open_read_only()
    try:
        # Bytes behind the end that are no record were never acknowledged.
        for each in read_through(run.files, start, start, keeps_whole=True):
            match each:
                case Run(segment, _, _):
                    topics = (parts_of(segment.view, at).topic for at in each.positions())
                    if any(topic not in replicated for topic in topics):
                        return True
                case Damage():
                    return True
    finally:
        run.close()
    return False


def _replicated_topics(store: Path) -> set[bytes]:
    try:
        content = (store / CONFIG_DIR / TOPICS_FILE).read_bytes()
        rows = msgspec.json.decode(content, type=_Topics).topicConfigTable
    except (FileNotFoundError, msgspec.MsgspecError):
        return set()
    return {
        name.encode()
        for name, row in rows.items()
        if row.attributes.get(DURABILITY_ATTRIBUTE) == Durability.REPLICATED
    }


def _copy(files: Files, store: Path, to: Path, start: int) -> None:
    files.make_dirs(to / COMMIT_LOG_DIR)
    names = [SHARD_FILE] if (store / SHARD_FILE).exists() else []
    for name in [*identities(store), *names]:
        files.make_dirs((to / name).parent)
        files.replace(to / name, (store / name).read_bytes())
    for base in base_offsets_in(store / COMMIT_LOG_DIR):
        path = store / COMMIT_LOG_DIR / segment_name(base)
        size_bytes = path.stat().st_size
        if base + size_bytes <= start:
            continue
        copy = to / COMMIT_LOG_DIR / path.name
        files.create(copy, size_bytes, 1)
        for _, at, content in _data(files, path, 0):
            files.write_at(copy, at, content)
        files.sync_path(copy)


def _forget_oldest(store: Path) -> None:
    found: list[tuple[int, Path]] = []
    for path in store.parent.glob(f"{store.name}{_SUFFIX}*"):
        epoch = path.name.removeprefix(f"{store.name}{_SUFFIX}")
        if epoch.isdecimal():
            found.append((int(epoch), path))
    for _, path in sorted(found)[:-_KEPT_MAX]:
        log.warning(
            "Deleting the oldest of the copies of messages that were cut off",
            extra={"action": "cut_off_messages_deleted", "path": str(path)},
        )
        shutil.rmtree(path, ignore_errors=True)
