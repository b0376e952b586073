"""Copies every file of a running store except the log, all as of one moment.

    what stands there ──▶ copy ──▶ does the same still stand there? ──▶ yes: one moment's
                            ▲────────────── no, begin again ◀──┘

The engine replaces these files by renames and appends to the journal and to the keys of requests.
When none was replaced between the two looks, the copy is what a kill in between would have left,
and that is what recovery is made for. Taken one after the other without this, offsets of one
checkpoint could meet the journal of the next, and a reset would be in neither.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from storage_engine.delivery.offset_journal import read_entries
from storage_engine.disk.layout import (
    CHECKPOINT_FILE,
    CONFIG_DIR,
    DEDUP_DIR,
    JOURNAL_FILE,
    TEMPORARY_SUFFIX,
)
from storage_engine.tools.backup.file_copy import copy_file, write_file
from storage_engine.tools.backup.protocol_lines import CopiedFile

ATTEMPTS_MAX: Final = 500
PAUSE_S: Final = 0.02  # topics that are made one after another leave gaps as long as this
_Identities = dict[str, tuple[int, ...]]


class FilesKeptChanging(Exception):
    """The engine replaced some file during every attempt."""


def copy_small_files(store: Path, target: Path) -> list[CopiedFile]:
    """Copy them; some milliseconds, durable on return.

    Raises:
        FilesKeptChanging: 500 attempts within some ten seconds met changes.
        OSError: a file cannot be read or written.
    """
    never = threading.Event()
    for _ in range(ATTEMPTS_MAX):
        before = _file_identities(store)
        try:
            copied = [_copy(store, target, path) for path in before]
        except FileNotFoundError:
            copied = []
        if copied and _file_identities(store) == before:
            return copied
        for path in before:
            (target / path).unlink(missing_ok=True)
        never.wait(PAUSE_S)
    raise FilesKeptChanging(
        f"the tables of {store} changed during each of {ATTEMPTS_MAX} attempts to copy "
        "them; try again when fewer topics and groups change"
    )


def _copy(store: Path, target: Path, path: str) -> CopiedFile:
    (target / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path != JOURNAL_FILE:
        return copy_file(store / path, target / path, name=path)
    # An entry that is being written just now is no entry yet.
    content = (store / path).read_bytes()
    return write_file(target / path, content[: read_entries(content)[2]], name=path)


def _file_identities(store: Path) -> _Identities:
    """Which file stands under each name; of one that only grows its size does not count."""
    found: _Identities = {}
    for path in _paths(store):
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue
        name = str(path.relative_to(store))
        grows = name == JOURNAL_FILE or path.parent.name == DEDUP_DIR
        found[name] = (stat.st_ino,) if grows else (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    return found


def _paths(store: Path) -> Iterator[Path]:
    yield store / CHECKPOINT_FILE
    yield store / JOURNAL_FILE
    for directory in (store / CONFIG_DIR, store / DEDUP_DIR):
        names = sorted(os.listdir(directory)) if directory.is_dir() else []
        yield from (directory / name for name in names if not name.endswith(TEMPORARY_SUFFIX))
