"""What a snapshot consists of: every file of a store as of one entry of the log, by its pieces.

    owner's files ── Snapshotter ──▶ [Manifest] ── Restorer ──▶ the same files, elsewhere

A file's pieces stand one behind the other; all but the last have ``piece_bytes``. Of the newest
segment only what the log had by then is in it. JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from storage_engine.disk.layout import COMMIT_LOG_DIR, segment_name
from storage_engine.disk.small_files import is_small_file
from storage_engine.errors import StoreCorrupt
from storage_engine.log.bucket_files import BucketFile
from storage_engine.replication.tail import Tail

VERSION: Final = 1


class StoredFile(msgspec.Struct, frozen=True):
    """``name`` is relative to the store. ``first_ms``: of a segment, when its first record was
    stored; 0 where that is damaged, or the snapshot of an older engine.
    """

    name: str
    size_bytes: int
    pieces: list[str]
    first_ms: int = 0


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """See the module's docstring. ``tail``: of a replica that has the snapshot and nothing else.
    ``local_start``: what of the log is below, the owner itself had only in the bucket.
    """

    version: int = VERSION
    tail: Tail
    log_start: int
    segment_bytes: int
    piece_bytes: int
    segments: list[StoredFile]  # one behind the other
    files: list[StoredFile]
    local_start: int = 0

    @property
    def pieces(self) -> Iterator[str]:
        """Of all files; some more than once."""
        for file in (*self.segments, *self.files):
            yield from file.pieces


def segment_base(offset: int, segment_bytes: int) -> int:
    """Where the segment that has an offset begins."""
    return offset - offset % segment_bytes


def sealed_segments(manifest: Manifest) -> dict[int, BucketFile]:
    """Those that it has whole, which never change, by their base offset."""
    base = segment_base(manifest.log_start, manifest.segment_bytes)
    found: dict[int, BucketFile] = {}
    for each in manifest.segments:
        if each.size_bytes == manifest.segment_bytes:
            found[base] = BucketFile(
                base_offset=base,
                size_bytes=each.size_bytes,
                piece_bytes=manifest.piece_bytes,
                pieces=each.pieces,
                first_ms=each.first_ms,
            )
        base += manifest.segment_bytes
    return found


def encode(manifest: Manifest) -> bytes:
    return msgspec.json.encode(manifest)


def decode(content: bytes) -> Manifest:
    """Raises ``StoreCorrupt`` for anything that ``encode`` would not have made."""
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.MsgspecError as exc:
        raise _refused(str(exc)) from exc
    if manifest.version != VERSION:
        raise _refused(
            f"it has version {manifest.version}, this engine knows {VERSION}: start the newer "
            "engine that wrote it"
        )
    sizes = (manifest.segment_bytes, manifest.piece_bytes)
    if min(sizes) < 1 or manifest.log_start > manifest.tail.log_end:
        raise _refused(f"sizes {sizes}, log from {manifest.log_start} to {manifest.tail.log_end}")
    wanted = segments_of(manifest.log_start, manifest.tail.log_end, manifest.segment_bytes)
    if [(each.name, each.size_bytes) for each in manifest.segments] != wanted:
        raise _refused("its segments are not those of its log")
    for each in manifest.files:
        if not is_small_file(each.name):
            raise _refused(f"a file of the name {each.name!r}")
    for each in (*manifest.segments, *manifest.files):
        if len(each.pieces) != -(-each.size_bytes // manifest.piece_bytes):
            raise _refused(f"{each.name} has {each.size_bytes} bytes in {len(each.pieces)} pieces")
    return manifest


def segments_of(log_start: int, log_end: int, segment_bytes: int) -> list[tuple[str, int]]:
    """Names of the segments that have a part of the log, and the bytes up to where it ends."""
    first = segment_base(log_start, segment_bytes)
    return [
        (f"{COMMIT_LOG_DIR}/{segment_name(base)}", min(segment_bytes, log_end - base))
        for base in range(first, log_end, segment_bytes)
    ]


def _refused(reason: str) -> StoreCorrupt:
    return StoreCorrupt(f"the manifest of a snapshot cannot be read: {reason}")
