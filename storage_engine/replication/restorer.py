"""Brings a replica's files to the newest snapshot of its shard, where the log does not go back far
enough.

    SnapshotBucket ── manifest, pieces ──▶ [Restorer] ──▶ the same files, ``replication.json`` last

What the files have already is not fetched: each piece's bytes are compared with its SHA-256, once.
So who is interrupted, or overtaken by newer snapshots, goes on with what is missing. Until
``replication.json`` is written the replica stands where it stood, which is of no use but is no
damage: the log does not have what follows any more, and so it is restored again. Loop thread only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    CHECKPOINT_FILE,
    COMMIT_LOG_DIR,
    TEMPORARY_SUFFIX,
    base_offsets_in,
    segment_name,
)
from storage_engine.disk.small_files import identities
from storage_engine.errors import StoreCorrupt
from storage_engine.log.bucket_files import (
    BucketFile,
    bucket_path,
    forget,
    forget_all_but,
    write_bucket_files,
)
from storage_engine.log.checkpoint import replace_checkpoint
from storage_engine.replicated_log.errors import Trimmed
from storage_engine.replicated_log.snapshot_bucket import SnapshotBucket, is_piece
from storage_engine.replication.manifest import (
    Manifest,
    StoredFile,
    decode,
    sealed_segments,
    segment_base,
)
from storage_engine.replication.replica import Derived
from storage_engine.replication.tail import Tail, write_tail

log = logging.getLogger(__name__)

_FETCHES_MAX: Final = 8  # at once, of a piece each
_ZEROS: Final = bytes(1024 * 1024)


def split_without_bucket(tail: Tail) -> StoreCorrupt:
    """Why the store cannot be what a split has made."""
    return StoreCorrupt(
        f"the shard begins anew with what split {tail.split_number} made, which is in the bucket "
        "of its snapshots: set MQ_ENGINE_SNAPSHOT_URL as the shard's owner has it"
    )


class _Place(NamedTuple):
    """A piece of a segment, and where its bytes belong."""

    piece: str
    path: Path
    start: int
    length: int


class Restorer:
    """See the module's docstring. ``chosen``: what of a snapshot, and of the bucket that has it, is
    wanted; else all of it. ``leaves_old``: segments that its owner had only in the bucket stay
    there.
    """

    def __init__(
        self,
        bucket: SnapshotBucket,
        files: Files,
        store_path: Path,
        derived: Derived,
        chosen: Callable[[SnapshotBucket, Manifest], Awaitable[Manifest]] | None = None,
        *,
        leaves_old: bool = False,
    ) -> None:
        self._bucket = bucket
        self._chosen = chosen
        self._leaves_old = leaves_old
        self._files = files
        self._path = store_path
        self._derived = derived
        self._have: dict[Path, list[str]] = {}  # pieces of whole size, known to be in a segment

    async def restore(self, tail: Tail) -> Tail | None:
        """Where the replica stands now; None: there is no snapshot that is newer than ``tail``.

        Raises ``LogError``, ``StoreCorrupt``, ``DiskFull``, ``SyncFailed``.
        """
        while True:
            listed = await self._bucket.listed()
            if not listed:
                return None
            try:
                manifest = decode(await self._bucket.manifest(listed[0]))
                if manifest.tail.number <= tail.number:
                    return None
                return await self._restore(manifest)
            except Trimmed:
                if await self._bucket.listed() == listed:
                    raise

    async def begin_anew(self, tail: Tail, before: Tail) -> Tail:
        """Where the replica stands, which stood at ``before``, when it has what a split made:
        ``tail``, or a snapshot that has come since.

        Raises as ``restore`` does; ``StoreCorrupt`` where the bucket has something else.
        """
        made = self._bucket.of_split(tail.split_number)
        restorer = Restorer(made, self._files, self._path, self._derived, self._chosen)
        try:
            return await restorer._restore_split(tail)
        except (Trimmed, StoreCorrupt):
            newest = await self.restore(before)  # the bucket keeps it until its snapshots have it
            if newest is None:
                raise
            return newest

    async def _restore_split(self, tail: Tail) -> Tail:
        listed = await self._bucket.listed()
        manifest = decode(await self._bucket.manifest(listed[0])) if listed else None
        if manifest is None or manifest.tail.log_end != tail.log_end:
            raise StoreCorrupt(
                f"the shard begins anew with what split {tail.split_number} made, and the bucket "
                "has neither that nor a newer snapshot. Nothing was changed: let "
                "MQ_ENGINE_SNAPSHOT_URL be as the shard's owner has it"
            )
        return await self._restore(msgspec.structs.replace(manifest, tail=tail))

    async def _restore(self, manifest: Manifest) -> Tail:
        if self._chosen is not None:
            manifest = await self._chosen(self._bucket, manifest)
        await asyncio.to_thread(self._derived.forget)
        # What the next snapshot no longer has comes first: small files, the newest segment.
        contents = {each.name: await self._read(each.pieces) for each in manifest.files}
        left = self._left(manifest)
        sizes = manifest.piece_bytes, manifest.segment_bytes
        for segment in reversed(manifest.segments[len(left) :]):
            await self._restore_segment(self._path / segment.name, segment, *sizes)
        await asyncio.to_thread(self._finish, manifest, contents, left)
        log.info(
            "Began with a snapshot of the shard's store",
            extra={
                "action": "snapshot_restored",
                "end_offset": manifest.tail.log_end,
                "entry_number": manifest.tail.number,
            },
        )
        return manifest.tail

    def _left(self, manifest: Manifest) -> list[BucketFile]:
        """The oldest segments, which stay in the bucket."""
        if not self._leaves_old:
            return []
        sealed = sealed_segments(manifest).values()
        return [each for each in sealed if each.end_offset <= manifest.local_start]

    async def _read(self, pieces: list[str]) -> bytes:
        found: list[bytes] = []
        for at in range(0, len(pieces), _FETCHES_MAX):
            found += await asyncio.gather(*map(self._bucket.read, pieces[at : at + _FETCHES_MAX]))
        return b"".join(found)

    async def fetch(self, file: BucketFile) -> None:
        """Have a segment here that only the bucket has, in a store that nobody uses yet. Raises as
        ``restore`` does.
        """
        path = self._path / COMMIT_LOG_DIR / segment_name(file.base_offset)
        await self._restore_segment(path, file, file.piece_bytes, file.size_bytes)

    async def bring_back(self, file: BucketFile) -> None:
        """Have a segment here that only the bucket has, whole or not at all. Raises as ``restore``
        does.
        """
        path = self._path / COMMIT_LOG_DIR / segment_name(file.base_offset)
        part = bucket_path(self._path, file.base_offset).with_suffix(TEMPORARY_SUFFIX)
        await self._restore_segment(part, file, file.piece_bytes, file.size_bytes)
        self._files.rename(part, path)
        self._files.sync_dir(path.parent)
        forget(self._files, self._path, [file.base_offset])

    async def _restore_segment(
        self, path: Path, segment: StoredFile | BucketFile, piece_bytes: int, segment_bytes: int
    ) -> None:
        sizes = piece_bytes, segment_bytes
        missing = await asyncio.to_thread(self._missing, path, segment, *sizes)
        for at in range(0, len(missing), _FETCHES_MAX):
            places = missing[at : at + _FETCHES_MAX]
            contents = await asyncio.gather(*[self._bucket.read(each.piece) for each in places])
            await asyncio.to_thread(self._write, places, contents)
        await asyncio.to_thread(self._clear_behind, path, segment.size_bytes)
        whole_count = segment.size_bytes // piece_bytes
        self._have[path] = segment.pieces[:whole_count]

    def _missing(
        self, path: Path, segment: StoredFile | BucketFile, piece_bytes: int, segment_bytes: int
    ) -> list[_Place]:
        """What the file does not have yet; it has the size of a segment on return."""
        if not path.exists() or path.stat().st_size != segment_bytes:
            self._files.create(path, segment_bytes, segment_bytes)
            self._have.pop(path, None)
        have = self._have.get(path, [])
        missing: list[_Place] = []
        with path.open("rb") as file:
            for number, piece in enumerate(segment.pieces):
                if have[number : number + 1] == [piece]:
                    continue
                start = number * piece_bytes
                length = min(piece_bytes, segment.size_bytes - start)
                file.seek(start)
                if not is_piece(piece, file.read(length)):
                    missing.append(_Place(piece, path, start, length))
        return missing

    def _write(self, places: list[_Place], contents: list[bytes]) -> None:
        for (piece, path, start, length), content in zip(places, contents, strict=True):
            if len(content) != length:
                raise StoreCorrupt(f"{piece} has {len(content)} bytes, the snapshot says {length}")
            self._files.write_at(path, start, content)

    def _clear_behind(self, path: Path, offset: int) -> None:
        """What a deposed owner wrote there is no part of the log; then all of it is durable."""
        for start, end in self._files.data_ranges(path, offset, path.stat().st_size):
            for at in range(start, end, len(_ZEROS)):
                self._files.write_at(path, at, memoryview(_ZEROS)[: end - at])
        self._files.sync_path(path)

    def _finish(
        self, manifest: Manifest, contents: dict[str, bytes], left: list[BucketFile]
    ) -> None:
        segments = self._path / COMMIT_LOG_DIR
        wanted = {self._path / each.name for each in manifest.segments[len(left) :]}
        if not wanted and manifest.tail.log_end:  # says where the log goes on
            base = segment_base(manifest.tail.log_end, manifest.segment_bytes)
            path = segments / segment_name(base)
            self._files.create(path, manifest.segment_bytes, manifest.segment_bytes)
            wanted.add(path)
        for base in base_offsets_in(segments):
            if segments / segment_name(base) not in wanted:
                self._files.unlink(segments / segment_name(base))
        write_bucket_files(self._files, self._path, left)
        forget_all_but(self._files, self._path, [each.base_offset for each in left])
        for name in sorted(contents, key=CHECKPOINT_FILE.__eq__):
            path, content = self._path / name, contents[name]
            self._files.make_dirs(path.parent)
            if name == CHECKPOINT_FILE:  # the last one: it counts what stands in the others
                replace_checkpoint(self._files, path, self._derived.localize(content))
            else:
                self._files.replace(path, content)
        for name in identities(self._path).keys() - contents.keys():
            self._files.unlink(self._path / name)
        write_tail(self._files, self._path, manifest.tail)
