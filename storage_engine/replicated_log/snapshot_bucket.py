"""Snapshots of a shard's store in a bucket: what the log holds no more, and where a node begins.

    snapshots/SHARD/newest                     who may write, and the last SNAPSHOTS_KEPT snapshots
    snapshots/SHARD/pieces/EPOCH-NUMBER-SHA    bytes of a file, or of a manifest that names files
    snapshots/SHARD/splits/NUMBER-…            the same of a store that a split has made for it

A snapshot is a manifest, whose pieces ``newest`` lists; a manifest names the pieces of the files
(``replication/manifest.py``). ``newest`` is written last, where it is still what was read.

*Who may write.* An owner claims ``newest`` for its epoch before it builds on it, and an older one
cannot write it any more.

*Deleting.* A piece has the epoch and number of the snapshot that it was uploaded for in its name,
so no name is ever written for two. A snapshot consists of its own pieces and of pieces that the one
before has. So what was uploaded for one of the past, and is in none of those that ``newest`` lists,
can be in no later one: it is nobody's, however late a deletion arrives and whoever asked for it.
Readers of a snapshot have as long as it takes to make SNAPSHOTS_KEPT others.

What a split has made is the shard's once its log says so, and numbers of splits only grow. So what
has a higher number than the last one in the log is nobody's once that split has been given up.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from functools import partial
from random import Random
from typing import Final

import msgspec

from storage_engine.clock import Clock
from storage_engine.replicated_log.bucket import Bucket, BucketUnreachable
from storage_engine.replicated_log.errors import Damaged, Trimmed
from storage_engine.replicated_log.object_format import Kind, LogObject, encode
from storage_engine.replicated_log.object_requests import ObjectRequests, refuse_newer
from storage_engine.replicated_log.port import MIB

SNAPSHOTS_KEPT: Final = 3
PIECE_BYTES: Final = 4 * MIB
_CONFIRMED_AT_ONCE: Final = 8


class Listed(msgspec.Struct, frozen=True):
    """A snapshot: who made it, its number among theirs, and the pieces of its manifest."""

    epoch: int
    number: int
    manifest: list[str]


class SnapshotBucket:
    """See the module's docstring. Who only reads claims nothing. Loop thread only."""

    def __init__(
        self,
        bucket: Bucket,
        *,
        shard: str,
        deployment: str,
        clock: Clock,
        random: Random,
        split_number: int = 0,
    ) -> None:
        """``split_number``: of what ``of_split`` returns."""
        self._requests = ObjectRequests(bucket, deployment=deployment, clock=clock, random=random)
        self._bucket = bucket
        self._of_split = partial(
            SnapshotBucket, bucket, shard=shard, deployment=deployment, clock=clock, random=random
        )
        self._splits = f"snapshots/{shard}/splits/"
        self._newest_name = f"snapshots/{shard}/newest"
        self._pieces = f"snapshots/{shard}/pieces/"
        if split_number:
            self._pieces = f"{self._splits}{split_number:020}-"
            self._newest_name = f"{self._pieces}newest"
        self._epoch = 0
        self._number = 0  # of the snapshot that is being made
        self._known: dict[str, str] = {}  # SHA-256 → piece
        self._listed: list[Listed] = []

    def of_split(self, number: int) -> SnapshotBucket:
        """What a split has made for this shard to begin with. Nobody else writes there."""
        return self._of_split(split_number=number)

    async def delete_splits(self, number: int, *, after: int = 0) -> None:
        """What splits up to this one have made, but those up to ``after``: every snapshot here has
        it by now, or nobody ever will. Raises Unavailable, Misconfigured.
        """
        await self._requests.check_deployment()
        since, before = (f"{self._splits}{each + 1:020}" for each in (after, number))
        await self._requests.patiently(
            lambda: self._requests.delete_before(self._splits, before, since=since)
        )

    # Reading --------------------------------------------------------------------------------

    async def listed(self) -> list[Listed]:
        """The newest first. Raises Unavailable, Misconfigured, Damaged."""
        await self._requests.check_deployment()
        found = await self._requests.patiently(lambda: self._requests.fetch(self._newest_name))
        return [] if found is None else _listed(found[0])

    async def read(self, piece: str) -> bytes:
        """Raises Trimmed: newer snapshots have taken the place of those that had it; Damaged,
        Unavailable, Misconfigured.
        """
        await self._requests.check_deployment()
        name = self._pieces + piece
        found = await self._requests.patiently(
            lambda: self._requests.fetch_as(name, lambda content: _checked(name, content))
        )
        if found is None:
            raise Trimmed(f"{name} is gone: begin with a newer snapshot")
        return found[0]

    async def manifest(self, listed: Listed) -> bytes:
        return b"".join([await self.read(piece) for piece in listed.manifest])

    # Writing --------------------------------------------------------------------------------

    async def claim(self, epoch: int) -> list[Listed]:
        """From now on no older epoch makes snapshots; those that there are, the newest first.

        Raises Fenced, Unavailable, Misconfigured, Damaged.
        """
        await self._requests.check_deployment()

        async def claim_now() -> LogObject:
            found = await self._requests.fetch(self._newest_name)
            if found is not None:
                refuse_newer(epoch, self._requests.writer, found[0])
                if found[0].epoch == epoch:
                    return found[0]
            content = b"[]" if found is None else found[0].content
            claimed = LogObject(Kind.SNAPSHOTS, epoch, 0, self._requests.writer, content)
            version = None if found is None else found[1]
            await self._bucket.put(self._newest_name, encode(claimed), version=version)
            raise BucketUnreachable("somebody else claims it just now")  # read what came of it

        self._listed = _listed(await self._requests.patiently(claim_now))
        self._epoch = epoch
        return self._listed

    def begin(self, known: Iterable[str]) -> None:
        """Another snapshot, after ``claim`` and after each that was published; ``known``: pieces
        of the newest one, which need no upload. One that failed is gone on with instead.
        """
        self._number += 1
        self._known = {_digest_of(piece): piece for piece in known}

    async def write(self, content: bytes) -> str:
        """Upload a piece unless it is known; its name. Raises Unavailable, Misconfigured."""
        digest = await asyncio.to_thread(_digest, content)
        if digest not in self._known:
            piece = f"{self._epoch:020}-{self._number:010}-{digest}"
            await self._requests.patiently(lambda: self._write_now(piece, content))
            self._known[digest] = piece
        return self._known[digest]

    async def _write_now(self, piece: str, content: bytes) -> None:
        name = self._pieces + piece
        is_new = await self._bucket.put(name, content, version=None)
        if not is_new and not await self._bucket.exists(name):
            raise BucketUnreachable(f"{name} was not taken just now")

    async def publish(self, manifest: list[str]) -> list[Listed]:
        """Let a manifest, whose pieces are all there, be the newest; what is listed from now on.

        Raises Fenced: a newer owner makes the snapshots. Unavailable, Misconfigured: unknown.
        """
        listed = [Listed(self._epoch, self._number, manifest), *self._listed][:SNAPSHOTS_KEPT]
        content = msgspec.json.encode(listed)
        wanted = LogObject(Kind.SNAPSHOTS, self._epoch, 0, self._requests.writer, content)

        async def publish_now() -> None:
            found = await self._requests.fetch(self._newest_name)
            if found is None:
                raise Damaged(f"{self._newest_name} is gone: somebody has deleted it")
            refuse_newer(self._epoch, self._requests.writer, found[0])
            if found[0].epoch < self._epoch:
                raise Damaged(f"{self._newest_name} was put back to epoch {found[0].epoch}")
            if found[0] != wanted:
                await self._bucket.put(self._newest_name, encode(wanted), version=found[1])
                raise BucketUnreachable("not written")  # read what came of it

        await self._requests.patiently(publish_now)
        self._listed = listed
        return listed

    async def confirm(self, pieces: Sequence[str]) -> None:
        """That the bucket has all of these. Raises Damaged: it has not, though a snapshot has them;
        Unavailable, Misconfigured.
        """
        await self._requests.check_deployment()
        for at in range(0, len(pieces), _CONFIRMED_AT_ONCE):
            names = [self._pieces + piece for piece in pieces[at : at + _CONFIRMED_AT_ONCE]]
            for name, is_there in zip(
                names, await asyncio.gather(*map(self._exists, names)), strict=True
            ):
                if not is_there:
                    raise Damaged(f"{name} is gone: somebody has deleted it")

    async def _exists(self, name: str) -> bool:
        return await self._requests.patiently(lambda: self._bucket.exists(name))

    async def delete_unlisted(self, pieces: Iterable[str]) -> int:
        """After ``publish``: delete what was uploaded up to then, but ``pieces``, which are those
        of all files of all snapshots that are listed; how many. Raises Unavailable, Misconfigured.
        """
        of_manifests = [piece for listed in self._listed for piece in listed.manifest]
        keep = {self._pieces + piece for piece in [*pieces, *of_manifests]}
        before = f"{self._pieces}{self._epoch:020}-{self._listed[0].number + 1:010}"
        return await self._requests.patiently(
            lambda: self._requests.delete_before(self._pieces, before, keep=keep)
        )


def _listed(found: LogObject) -> list[Listed]:
    return msgspec.json.decode(found.content, type=list[Listed])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_of(piece: str) -> str:
    return piece.rpartition("-")[2]


def is_piece(piece: str, content: bytes) -> bool:
    """Whether these are the bytes of a piece."""
    return _digest(content) == _digest_of(piece)


def _checked(name: str, content: bytes) -> bytes:
    if not is_piece(name, content):
        raise Damaged(f"{name} ({len(content)} bytes) does not have the SHA-256 of its name")
    return content
