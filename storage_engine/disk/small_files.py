"""The files of a store besides the log and what is derived from it, as of one moment.

    look at all ─▶ read ─▶ look again: nothing was replaced ─▶ what a kill would have left

The engine replaces these files by renames and appends to the journal and to request keys. Read one
after the other without this, offsets of one checkpoint could meet the journal of the next, and a
reset would be in neither.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from storage_engine.disk.layout import (
    CHECKPOINT_FILE,
    CONFIG_DIR,
    DEDUP_DIR,
    JOURNAL_FILE,
    TEMPORARY_SUFFIX,
)

ATTEMPTS_MAX: Final = 500
PAUSE_S: Final = 0.02  # topics that are made one after another leave gaps as long as this
Identity = tuple[int, ...]
_NAME: Final = re.compile(
    f"{CHECKPOINT_FILE}|{re.escape(JOURNAL_FILE)}|{CONFIG_DIR}/[A-Za-z0-9_-][A-Za-z0-9._-]*"
    f"|{DEDUP_DIR}/[0-9]+"
)
_GROWING: Final = f"{DEDUP_DIR}/"

TakenT = TypeVar("TakenT")


class FilesKeptChanging(Exception):
    """The engine replaced some file during every attempt."""


def at_one_moment(
    store: Path,
    take: Callable[[dict[str, Identity]], TakenT],
    undo: Callable[[Iterable[str]], object] | None = None,
) -> TakenT:
    """What ``take`` makes of the files by name, when none of them was replaced meanwhile.

    Some milliseconds; ``undo`` follows each attempt in which one was. Raises FilesKeptChanging: 500
    attempts within some ten seconds met changes.
    """
    never = threading.Event()
    for _ in range(ATTEMPTS_MAX):
        before = identities(store)
        try:
            taken = take(before)
        except FileNotFoundError:
            pass
        else:
            if identities(store) == before:
                return taken
        if undo is not None:
            undo(before)
        never.wait(PAUSE_S)
    raise FilesKeptChanging(
        f"the tables of {store} changed during each of {ATTEMPTS_MAX} attempts to copy "
        "them; try again when fewer topics and groups change"
    )


def identities(store: Path) -> dict[str, Identity]:
    """Which file stands under each name; of one that only grows its size does not count."""
    found: dict[str, Identity] = {}
    root = f"{store}/"  # for each entry of a replicated log: paths of pathlib would take most of it
    for name in _names(root):
        try:
            stat = os.stat(root + name)
        except FileNotFoundError:
            continue
        found[name] = (
            (stat.st_ino,) if grows(name) else (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        )
    return found


def grows(name: str) -> bool:
    """Whether the file is only ever appended to, until another one takes its place."""
    return name == JOURNAL_FILE or name.startswith(_GROWING)


def is_small_file(name: str) -> bool:
    """Whether a file of this name, relative to its store, may be one of these."""
    return _NAME.fullmatch(name) is not None and not name.endswith(TEMPORARY_SUFFIX)


def _names(root: str) -> Iterator[str]:
    yield CHECKPOINT_FILE
    yield JOURNAL_FILE
    for directory in (CONFIG_DIR, DEDUP_DIR):
        try:
            names = sorted(os.listdir(root + directory))
        except FileNotFoundError:
            continue
        yield from (f"{directory}/{name}" for name in names if not name.endswith(TEMPORARY_SUFFIX))
