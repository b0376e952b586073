"""Where a store stands in the replicated log: ``replication.json`` beside the store's files.

An owner writes it before it opens the log with an epoch, so that the next start knows which entries
are its own; a replica whenever it has applied small files. It names a place that may lie behind
what the store has, never before it: what is read again changes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from storage_engine.disk.files import Files
from storage_engine.disk.layout import REPLICATION_FILE
from storage_engine.errors import StoreCorrupt
from storage_engine.replicated_log.port import START, Position, ReplicatedLog
from storage_engine.replicated_log.snapshot_bucket import SnapshotBucket


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """``position``: where reading goes on; ``entry_epoch``, ``number`` and ``log_end`` of the entry
    before it.

    ``epochs``: those in which this store may have written behind ``position``; empty in a replica.
    ``has_own_files``: a former owner's, whose small files may say more than the log had; they count
    for nothing until those of the next owner have replaced all of them.
    ``is_partial``: a store that was there before its log is not all in the log yet, so nobody else
    can take it over. ``has_left``: it is served without a log, and that one is over.
    ``split_number``: of the split that made the store with which this one began anew; 0: it began
    with its log.
    """

    entry_epoch: int = 0
    number: int = 0
    log_end: int = 0
    position: Position = START
    epochs: list[int] = []
    has_own_files: bool = False
    is_partial: bool = False
    has_left: bool = False
    split_number: int = 0

    @property
    def epoch(self) -> int:
        """The newest that this store knows of."""
        return max([self.entry_epoch, *self.epochs])


class LogPlace(NamedTuple):
    """A log that is open for writing, and where its end is: ``tail.epochs`` ends with its epoch."""

    log: ReplicatedLog
    tail: Tail
    snapshots: SnapshotBucket | None


def read_tail(store: Path) -> Tail | None:
    """None where the store was never in a replicated log. Raises ``StoreCorrupt``."""
    path = store / REPLICATION_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Tail)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as exc:
        raise StoreCorrupt(
            f"{path} cannot be read ({exc}), so nobody knows what of the replicated log this store "
            "has. Nothing was changed: move the store away; a new one is built from the log"
        ) from exc


def write_tail(files: Files, store: Path, tail: Tail) -> None:
    """Durable on return. Raises ``DiskFull``."""
    files.replace(store / REPLICATION_FILE, msgspec.json.encode(tail))
