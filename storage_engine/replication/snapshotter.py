"""Makes snapshots of the owner's store in a bucket, and trims the log that they cover.

    Shipper ── Moment ──▶ [Snapshotter] ── pieces, manifest, newest ──▶ SnapshotBucket
                               └── then trim(log), and delete what no snapshot has any more

What the snapshot before has is not read again: below what the log has, no byte of a commit log
ever changes, but in the newest segment when another one takes over, as recovery may cut something
off. The log is trimmed up to the oldest snapshot that is listed, so that who begins with any of
them, and a replica that is a little late, finds what follows. Loop thread only.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from storage_engine.config import StoreConfig
from storage_engine.disk.small_files import FilesKeptChanging
from storage_engine.errors import StoreError
from storage_engine.log.bucket_files import BucketFile
from storage_engine.replicated_log.errors import LogError
from storage_engine.replicated_log.port import ReplicatedLog
from storage_engine.replicated_log.snapshot_bucket import PIECE_BYTES, SnapshotBucket
from storage_engine.replication.changes import ChangeReader
from storage_engine.replication.manifest import (
    Manifest,
    StoredFile,
    decode,
    encode,
    sealed_segments,
    segment_base,
)
from storage_engine.replication.shipper import Moment, Shipper
from storage_engine.replication.tail import Tail
from storage_engine.replication.uploads import upload_file, upload_log

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.25  # between looks whether one is due
_PAUSE_S: Final = 30.0  # after one that failed


class Snapshotter:
    """See the module's docstring.

    ``covered(tail)`` writes down that this store needs nothing of the log before ``tail``;
    ``hold(offset)`` keeps retention from the log from there on, until it gets None.
    """

    def __init__(
        self,
        bucket: SnapshotBucket,
        replicated_log: ReplicatedLog,
        shipper: Shipper,
        reader: ChangeReader,
        config: StoreConfig,
        *,
        epoch: int,
        split_number: int,
        covered: Callable[[Tail], Awaitable[None]],
        hold: Callable[[int | None], None],
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self._bucket = bucket
        self._log = replicated_log
        self._shipper = shipper
        self._reader = reader
        self._bytes_max = config.snapshot_log_bytes
        self._entries_max = config.snapshot_log_entries
        self._epoch = epoch
        self._split_number = split_number
        self._has_splits = split_number > 0  # in the bucket, which older snapshots need
        self._covered = covered
        self._hold = hold
        self._piece_bytes = piece_bytes
        self._manifests: list[Manifest] | None = None  # of those listed, the newest first
        self.sealed_segments: Mapping[int, BucketFile] = {}  # of the newest, by base offset
        self._unchanged_to = 0  # the newest one's bytes of the log below are ours
        self._shipped_bytes = 0  # when the newest was made

    async def run(self) -> None:
        """Make one whenever it is due, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                if await self.is_due():
                    await self.take()
            except (LogError, StoreError, FilesKeptChanging, OSError) as exc:
                log.error(
                    "Could not make a snapshot; the replicated log grows until one is made. "
                    "Trying again",
                    extra={"action": "snapshot_failed", "reason": str(exc)},
                )
                await asyncio.sleep(_PAUSE_S)

    async def is_due(self) -> bool:
        """Whether the log has so much behind the newest one that beginning there takes long.

        Raises as ``take`` does.
        """
        manifests = await self._begun()
        if manifests and not self._goes_on(manifests[0]):
            return True
        tail = manifests[0].tail if manifests else Tail()
        shipper = self._shipper
        behind_bytes = max(
            shipper.replicated_offset - tail.log_end, shipper.shipped_bytes - self._shipped_bytes
        )
        behind_entries = shipper.number - tail.number
        # What retention has deleted is deleted from the bucket by the next snapshots.
        expired_bytes = self._reader.log_start - (manifests[0].log_start if manifests else 0)
        behind_bytes = max(behind_bytes, expired_bytes)
        return behind_bytes >= self._bytes_max or behind_entries >= self._entries_max

    async def take(self) -> Manifest:
        """Raises ``LogError``, ``StoreError``, ``FilesKeptChanging`` and ``OSError``: there is none
        that is newer, or it is there and what it covers has not been deleted yet.
        """
        before = await self._begun()
        shipped_bytes = self._shipper.shipped_bytes
        moment = await self._shipper.ship_whole()
        self._hold(moment.log_start)
        try:
            segments = await self._upload_log(moment, self._going_on(before))
        finally:
            self._hold(None)
        files = [
            StoredFile(
                name, len(content), await upload_file(self._bucket, content, self._piece_bytes)
            )
            for name, content in moment.files.items()
        ]
        manifest = Manifest(
            local_start=moment.local_start,
            tail=moment.tail,
            log_start=moment.log_start,
            segment_bytes=self._reader.segment_bytes,
            piece_bytes=self._piece_bytes,
            segments=segments,
            files=files,
        )
        listed = await self._bucket.publish(
            await upload_file(self._bucket, encode(manifest), self._piece_bytes)
        )
        manifests = self._manifests = [manifest, *before][: len(listed)]
        self.sealed_segments = sealed_segments(manifest)
        self._unchanged_to = moment.tail.log_end
        self._shipped_bytes = shipped_bytes
        self._bucket.begin(manifest.pieces)
        log.info(
            "Made a snapshot of the store",
            extra={
                "action": "snapshot_made",
                "end_offset": moment.tail.log_end,
                "entry_number": moment.tail.number,
            },
        )
        oldest = manifests[-1].tail
        await self._covered(oldest)
        await self._log.trim(oldest.position)
        await self._bucket.delete_unlisted(
            itertools.chain.from_iterable(each.pieces for each in manifests)
        )
        if self._has_splits and all(map(self._goes_on, manifests)):
            await self._bucket.delete_splits(self._split_number)
            self._has_splits = False
        return manifest

    async def confirm(self, pieces: Sequence[str]) -> None:
        """See that the bucket has them; one request each. Raises ``LogError``."""
        await self._bucket.confirm(pieces)

    def _goes_on(self, manifest: Manifest) -> bool:
        """Whether the store is still the one of which this is a snapshot, and not what a split has
        made for the shard since.
        """
        return manifest.tail.split_number == self._split_number

    def _going_on(self, manifests: Sequence[Manifest]) -> Manifest | None:
        """The newest, if there is one of this store."""
        return manifests[0] if manifests and self._goes_on(manifests[0]) else None

    async def _begun(self) -> list[Manifest]:
        """The snapshots that are there, which only this owner adds to from now on."""
        if self._manifests is None:
            listed = await self._bucket.claim(self._epoch)
            found = [decode(await self._bucket.manifest(each)) for each in listed]
            newest = self._going_on(found)
            if newest is not None:
                self._unchanged_to = segment_base(newest.tail.log_end, newest.segment_bytes)
                self._piece_bytes = newest.piece_bytes  # of segments that are not here any more
                self.sealed_segments = sealed_segments(newest)
            self._bucket.begin(newest.pieces if newest is not None else ())
            self._manifests = found
        return self._manifests

    async def _upload_log(self, moment: Moment, before: Manifest | None) -> list[StoredFile]:
        sizes = (self._reader.segment_bytes, self._piece_bytes)
        known: dict[str, StoredFile] = {}
        if before is not None and (before.segment_bytes, before.piece_bytes) == sizes:
            known = {each.name: each for each in before.segments}
        return await upload_log(
            self._bucket,
            self._reader,
            moment.log_start,
            moment.tail.log_end,
            known=known,
            unchanged_to=self._unchanged_to,
            piece_bytes=self._piece_bytes,
        )
