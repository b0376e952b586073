"""Which segments of a log only the bucket has: a small file for each, in place of the segment.

    commitlog/BASE, in a published snapshot ── leave ──▶ bucket/BASE.json, and no commitlog/BASE

The file is durable before the segment goes, so that one of the two is always there; where both are,
the segment counts. So is the checkpoint's version, which keeps older engines away. They follow each
other without a gap up to the first segment that is here. JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    BUCKET_DIR,
    BUCKET_NOTE_SUFFIX,
    CHECKPOINT_FILE,
    COMMIT_LOG_DIR,
    base_offset_of,
    base_offsets_in,
    segment_name,
)
from storage_engine.errors import ConfigInvalid, StoreCorrupt
from storage_engine.log.checkpoint import is_stamped, read_checkpoint, write_checkpoint

_FILES_MAX: Final = 4_096  # remembered; 40 KB each


class BucketFile(msgspec.Struct, frozen=True, kw_only=True):
    """A sealed segment in the bucket: its ``pieces``, of which all but the last have
    ``piece_bytes``. ``first_ms``: when its first record was stored; 0 where nobody knows.
    """

    base_offset: int
    size_bytes: int
    piece_bytes: int
    pieces: list[str]
    first_ms: int = 0

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.size_bytes


def bucket_path(store: Path, base_offset: int) -> Path:
    return store / BUCKET_DIR / f"{segment_name(base_offset)}{BUCKET_NOTE_SUFFIX}"


def bucket_offsets(store: Path) -> list[int]:
    """Base offsets of the segments that only the bucket has, in order; two listings."""
    local = frozenset(base_offsets_in(store / COMMIT_LOG_DIR))
    return [base for base in _written(store) if base not in local]


def _written(store: Path) -> list[int]:
    directory = store / BUCKET_DIR
    names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    noted = [name.removesuffix(BUCKET_NOTE_SUFFIX) for name in names if BUCKET_NOTE_SUFFIX in name]
    found = [base_offset_of(name) for name in noted]
    return sorted([base for base in found if base is not None])


def read_bucket_files(store: Path) -> list[BucketFile]:
    """Of the segments that only the bucket has, in order. Raises ``StoreCorrupt``: one cannot be
    read, or a segment is neither here nor there.
    """
    found: list[BucketFile] = []
    local = base_offsets_in(store / COMMIT_LOG_DIR)
    for base in bucket_offsets(store):
        path = bucket_path(store, base)
        stat = path.stat()
        file = _read(path, stat.st_ino, stat.st_mtime_ns)
        is_sized = min(file.size_bytes, file.piece_bytes) > 0
        if (
            file.base_offset != base
            or not is_sized
            or (len(file.pieces) != -(-file.size_bytes // file.piece_bytes))
        ):
            raise _refused(f"{path} does not describe its segment")
        if found and found[-1].end_offset != base:
            raise _refused(f"the segment at {found[-1].end_offset} is not here, nor said to be")
        found.append(file)
    if found and (not local or local[0] != found[-1].end_offset):
        raise _refused(f"the segment at {found[-1].end_offset} is not here, nor said to be")
    return found


@lru_cache(maxsize=_FILES_MAX)
def _read(path: Path, inode: int, modified_ns: int) -> BucketFile:
    """A replica asks for all of them every few seconds, and they hardly ever change."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=BucketFile)
    except msgspec.MsgspecError as exc:
        raise _refused(f"{path} cannot be read ({exc})") from exc


def _refused(reason: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"{reason} in the bucket. Nothing was changed: move the store away; a new one is built "
        "from the bucket"
    )


def reject_bucket_files(store: Path) -> None:
    """Before a store is served, copied or changed by somebody who does not know the bucket.

    Raises ``ConfigInvalid``: a part of its log is only there.
    """
    count = len(bucket_offsets(store))
    if count:
        raise ConfigInvalid(
            f"{count} segments of {store} are only in the bucket with its shard's snapshots, so "
            "these files are not the whole store. Nothing was changed: serve it as the shard it "
            "is, with MQ_ENGINE_REPLICATED_LOG or MQ_ENGINE_SNAPSHOT_URL naming that bucket; the "
            "snapshots there are the copy that has all of it"
        )


def write_bucket_files(files: Files, store: Path, left: Sequence[BucketFile]) -> None:
    """Durable on return, and known to the checkpoint, if there is one. Raises ``DiskFull``,
    ``SyncFailed``.
    """
    if not left:
        return
    files.make_dirs(store / BUCKET_DIR)
    for each in left:
        files.replace(bucket_path(store, each.base_offset), msgspec.json.encode(each))
    stamp_checkpoint(files, store)


def stamp_checkpoint(files: Files, store: Path) -> None:
    """Let the checkpoint, if there is one, say whether an engine must know the bucket: one that
    does not would take what is only there for expired. Raises ``DiskFull``, ``SyncFailed``.
    """
    path = store / CHECKPOINT_FILE
    mark = read_checkpoint(path)
    if mark is not None and not is_stamped(path):
        write_checkpoint(files, path, mark)


def delete_left(files: Files, store: Path, left: Sequence[BucketFile]) -> None:
    """Delete the segments themselves, whose files are written; oldest first."""
    for each in left:
        files.unlink(store / COMMIT_LOG_DIR / segment_name(each.base_offset))
        files.sync_dir(store / COMMIT_LOG_DIR)  # after a power cut none behind it is gone before it


def forget_before(files: Files, store: Path, offset: int) -> None:
    """Of segments that end at or before an offset, which retention has deleted; oldest first."""
    bases = _written(store)
    following = [*bases[1:], *base_offsets_in(store / COMMIT_LOG_DIR)[:1]]
    gone = [base for base, end in zip(bases, following, strict=False) if end <= offset]
    forget(files, store, gone)


def forget(files: Files, store: Path, bases: Sequence[int]) -> None:
    """In this order; each is durably gone before the next one goes."""
    for base in bases:
        files.unlink(bucket_path(store, base))
        files.sync_dir(store / BUCKET_DIR)


def forget_all_but(files: Files, store: Path, wanted: Sequence[int]) -> None:
    """Where the files of a store are exchanged for others."""
    forget(files, store, [base for base in _written(store) if base not in wanted])
