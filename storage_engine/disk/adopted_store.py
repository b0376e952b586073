"""The store that a shard begins with when another one is split, and how it takes its place.

    STORE.incoming, whole, with split.json ── exchange ──▶ STORE
    STORE, of a shard without namespaces ────────────────▶ deleted, or STORE.aside-NUMBER

``split.json`` says which split a store came from, and up to which number splits were given up: what
such a one has copied is not adopted any more. ``uploaded``: other machines can have it too.

No engine has either of them open meanwhile. A process that dies between the two renames leaves no
store, and the next one begins an empty one. Without a replicated log whoever ordered the exchange
then finds another number than its own; with one the stores are exchanged again.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.disk.files import Files
from storage_engine.disk.layout import CONFIG_DIR, SPLIT_FILE, has_store
from storage_engine.errors import BadRequest

_INCOMING: Final = ".incoming"
_ASIDE: Final = ".aside-"


class _Split(msgspec.Struct, frozen=True):
    number: int = 0
    discarded: int = 0
    uploaded: bool = False


def incoming_path(store: Path) -> Path:
    """Where the store lies that is to take the place of ``store``."""
    return store.with_name(store.name + _INCOMING)


def split_number_of(store: Path) -> int:
    """Of the split that a store came from; 0: of none."""
    return _split_of(store).number


def discarded_number_of(store: Path) -> int:
    """Up to which number splits were given up, as far as this store knows."""
    return _split_of(store).discarded


def write_split_number(files: Files, store: Path, number: int) -> None:
    """Durable on return: the store is whole, and may be served. Raises ``DiskFull``."""
    files.replace(_path(store), msgspec.json.encode(_Split(number)))


def write_uploaded(files: Files, store: Path) -> None:
    """Durable on return: the bucket of the shard's snapshots has the store as well. Raises
    ``DiskFull``.
    """
    files.replace(_path(store), msgspec.json.encode(_Split(split_number_of(store), uploaded=True)))


def write_discarded_number(files: Files, store: Path, number: int) -> None:
    """Durable on return: no store of a split up to this number takes the place of this one. Raises
    ``DiskFull``.
    """
    split = msgspec.structs.replace(_split_of(store), discarded=number)
    files.replace(_path(store), msgspec.json.encode(split))


def _path(store: Path) -> Path:
    return store / CONFIG_DIR / SPLIT_FILE


def _split_of(store: Path) -> _Split:
    try:
        return msgspec.json.decode(_path(store).read_bytes(), type=_Split)
    except (FileNotFoundError, msgspec.MsgspecError):
        return _Split()


def check_incoming(store: Path, number: int, *, is_replicated: bool = False) -> None:
    """Raises ``BadRequest``: no store of that number lies ready, for a shard that has a replicated
    log if ``is_replicated``, or it was given up.
    """
    found = _split_of(incoming_path(store))
    if found.number != number or not number:
        raise BadRequest(f"{incoming_path(store)} is not the store of split {number}")
    if is_replicated and not found.uploaded:
        raise BadRequest(
            f"{incoming_path(store)} was not uploaded for the other machines of its shard: was "
            "MQ_REPLICATED_LOG set for the command that split it off?"
        )
    if number <= discarded_number_of(store):
        raise BadRequest(f"split {number} comes too late: it was given up")


def exchange(files: Files, store: Path, *, number: int) -> None:
    """Let the incoming store take the place of ``store``; durable on return.

    ``store`` is deleted if it is of a split that was given up, or has neither topics nor messages;
    any other is moved aside. Raises ``BadRequest``, ``OSError``.
    """
    check_incoming(store, number)
    asides = [store.with_name(f"{store.name}{_ASIDE}{number}")]
    while asides[-1].exists():  # a process died between the two renames
        asides.append(asides[-1].with_name(f"{asides[-1].name}-again"))
    os.rename(store, asides[-1])
    os.rename(incoming_path(store), store)
    files.sync_dir(store.parent)
    for aside in filter(_is_unwanted, asides):
        shutil.rmtree(aside, ignore_errors=True)


def _is_unwanted(store: Path) -> bool:
    return not has_store(store) or 0 < split_number_of(store) <= discarded_number_of(store)
