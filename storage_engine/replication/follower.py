"""Brings the files of a store to the end of its shard's log: to follow an owner, or to be the next.

    replicated log ── entries ──▶ [Follower] ──▶ Replica ──▶ files

    replication.json says       the log has behind that         what happens
    nothing, and no store       anything                        the newest snapshot is taken, then
                                                                all that follows is applied
    nothing, and a store        nothing                         the store is shipped to it, and
                                                                nobody else can take it over before
                                                                the log has all of it
    nothing, and a store        entries                         refused: of another shard, or a copy
    anything                    the end of a shard that left it refused
    a replica                   anything                        applied
    a replica                   no more what follows            the newest snapshot is taken first
    an owner                    entries of its own epochs       compared; the store may have more,
                                                                which is shipped
    an owner                    the next owner's                cut off where that one begins, and
                                                                applied: a replica from then on
    an owner                    no more what follows            a replica from then on, which takes
                                                                the newest snapshot first
    an owner                    other bytes than its own        the store is put aside and built
                                                                anew from the log
    a replica, an owner         that it begins anew             what a split made takes its place:
                                                                it lies beside it, or is fetched

What is cut off is kept beside the store where somebody may have been told of it (``cut_off.py``).
Taking over is to fence whoever had the shard, to read on to the end, and to let the engine recover
the files as after any stop. What the log lacks is shipped before anybody is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import Awaitable, Callable, Container, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from storage_engine.disk.adopted_store import exchange, incoming_path, split_number_of
from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    ABORT_FILE,
    COMMIT_LOG_DIR,
    LOCK_FILE,
    REPLICATION_FILE,
    SHARD_FILE,
    base_offsets_in,
    has_store,
    segment_name,
)
from storage_engine.disk.lock import StoreLock
from storage_engine.errors import (
    ConfigInvalid,
    NotLeader,
    ReplicationUnavailable,
    StoreCorrupt,
    StoreError,
)
from storage_engine.log.bucket_files import (
    BucketFile,
    bucket_offsets,
    read_bucket_files,
    reject_bucket_files,
    stamp_checkpoint,
)
from storage_engine.replicated_log.errors import Fenced, LogError, Trimmed, Unavailable
from storage_engine.replicated_log.port import Entry, Position, ReplicatedLog
from storage_engine.replicated_log.snapshot_bucket import Listed, SnapshotBucket
from storage_engine.replication.cut_off import keep
from storage_engine.replication.entry import Kind, ReplicatedEntry, decode, encode
from storage_engine.replication.manifest import decode as decode_manifest
from storage_engine.replication.manifest import sealed_segments
from storage_engine.replication.replica import BeginsAnew, Derived, NothingDerived, Replica
from storage_engine.replication.restorer import Restorer, split_without_bucket
from storage_engine.replication.tail import LogPlace, Tail, read_tail, write_tail

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

_PAUSE_S: Final = 1.0  # between attempts to reach the log
_FLUSH_S: Final = 1.0  # between syncs of what a replica has read
_LEAVE_S: Final = 60.0  # between looks for what the owner has only in the bucket
# Segments deleted at once. A gigabyte takes a disk up to a second, and a replica that has not been
# at the end of the log for some seconds may not take over.
_LEFT_MAX: Final = 4
_EPOCHS_TRIED_MAX: Final = 16  # of owners that wrote nothing, and so left no entry to know them by


class Follower:
    """See the module's docstring. ``leaves_old``: segments that the owner has only in the bucket
    are not here either; ``passes_left``: epochs whose owner may have left the log for good.
    """

    def __init__(
        self,
        replicated_log: ReplicatedLog,
        snapshots: SnapshotBucket | None,
        store_path: Path,
        files: Files,
        derived: Derived | None = None,
        *,
        leaves_old: bool = False,
        passes_left: Container[int] = (),
    ) -> None:
        self._log = replicated_log
        self._passes_left = passes_left
        self._derived = derived or NothingDerived()
        self._path = store_path
        self._files = files
        self._snapshots = snapshots
        self._leaves_old = leaves_old and snapshots is not None
        self._looked_at: Listed | None = None
        self._leaving: tuple[int, dict[int, BucketFile]] | None = None
        self._restorer: Restorer | None = None
        if snapshots is not None:
            self._restorer = Restorer(
                snapshots, files, store_path, self._derived, leaves_old=leaves_old
            )
        found = read_tail(store_path)
        if found is not None and found.has_left:
            found = None
        self._is_known = found is not None
        self._tail = found or Tail()
        self._replica: Replica | None = None
        if found is None and not has_store(store_path):
            self._follow_from(self._tail)
        elif found is not None and not found.epochs:
            self._follow_from(found)

    @property
    def tail(self) -> Tail:
        """What has been taken in."""
        return self._tail if self._replica is None else self._replica.tail

    @property
    def could_take_over(self) -> bool:
        """Whether the log has all of the store that its first owner began to upload."""
        return self._replica is None or not self._replica.tail.is_partial

    async def take_over(self, wanted_epoch: int) -> LogPlace:
        """See ``take_over`` of this module."""
        await self.read_on()  # most of it, while the owner may still be served
        self._reject_partial()
        end, epoch = await self.fence(wanted_epoch)
        await self.read_on()
        self._reject_partial()
        return await self.finish(end, epoch)

    def _reject_partial(self) -> None:
        if not self.could_take_over:
            raise ReplicationUnavailable(
                "the replicated log has only a part of the store that another engine uploads to "
                "it. Start that engine, with its disk, until it serves; then others can take over"
            )

    async def fence(self, wanted_epoch: int) -> tuple[Position, int]:
        """End the epochs of all others: the end of the log, and the epoch that it is open with.

        ``wanted_epoch``: 0 for one more than is known. Raises ``Fenced``.
        """
        epoch = wanted_epoch or self.tail.epoch + 1
        tried = 0
        while True:
            # Before it is used: what is written with it is known to be of this store.
            known = self.tail
            noted = msgspec.structs.replace(
                known,
                epochs=[*known.epochs, epoch],
                is_partial=known.is_partial or not self._is_known,
            )
            if self._replica is None:
                self._tail = noted
                await asyncio.to_thread(write_tail, self._files, self._path, noted)
            try:
                return await self._log.open(epoch), epoch
            except Unavailable as exc:
                await _pause(exc)
            except Fenced:
                tried += 1
                if wanted_epoch or tried == _EPOCHS_TRIED_MAX:
                    raise
                epoch += 1

    async def read_on(self) -> None:
        """Take in what the log has behind what is known here; small files wait for ``flush``."""
        while True:
            try:
                if self._replica is not None and not self._replica.tail.number:
                    await self._restore()
                if await self._took_all():
                    return
            except _BuiltAnew:
                continue
            except Trimmed as exc:
                await self._catch_up(exc)
            except Unavailable as exc:
                await _pause(exc)

    async def _took_all(self) -> bool:
        """False: the store is another one now, and more may follow."""
        try:
            async for each in self._log.read(self.tail.position):
                await asyncio.to_thread(self._take, each)
        except BeginsAnew as exc:
            await self._begin_anew(exc.tail)
            return False
        return True

    async def flush(self) -> None:
        """Write what waits to be written, so that the next start need not read it again."""
        if self._replica is not None:
            await asyncio.to_thread(self._replica.flush)

    async def leave_old(self) -> bool:
        """Delete some of the segments that the owner has only in the bucket; whether there are
        more, and the next call goes on with these. One request to the bucket where it begins anew,
        and a few where there is a new snapshot.
        """
        if self._replica is None or self._snapshots is None or not self._leaves_old:
            return False
        if not self._leaving:
            self._leaving = await self._left_by_owner(self._snapshots)
        epoch, left = self._leaving or (0, {})
        if not left or epoch != self.tail.entry_epoch:
            self._leaving = None  # another owner may have changed what is here
            return False
        has_more = await asyncio.to_thread(self._replica.leave, left, segments_max=_LEFT_MAX)
        if not has_more:
            self._leaving = None
        return has_more

    async def _left_by_owner(
        self, snapshots: SnapshotBucket
    ) -> tuple[int, dict[int, BucketFile]] | None:
        """The segments that the owner has only in the bucket, by base offset, and its epoch; None
        where it has said nothing new.
        """
        try:
            listed = await snapshots.listed()
            if not listed or listed[0] == self._looked_at:
                return None
            manifest = decode_manifest(await snapshots.manifest(listed[0]))
        except (LogError, StoreCorrupt) as exc:  # a newer engine's, for one
            log.warning(
                "Could not read the newest snapshot; old segments stay on the local disk for now",
                extra={"action": "local_retention_failed", "reason": str(exc)},
            )
            return None
        is_same_store = manifest.tail.split_number == self.tail.split_number
        if manifest.tail.entry_epoch != self.tail.entry_epoch or not is_same_store:
            return None  # its owner may have changed what is here
        sealed = sealed_segments(manifest)
        left = {at: each for at, each in sealed.items() if each.end_offset <= manifest.local_start}
        self._looked_at = listed[0]
        return manifest.tail.entry_epoch, left

    async def finish(self, end: Position, epoch: int) -> LogPlace:
        """Write down that what follows ``end`` is this store's own; the rest is durable by then."""
        if self.tail.has_own_files:
            # The next owner was lost before its first change was whole.
            await asyncio.to_thread(
                self._put_aside, "only a part of the next owner's files is in the log"
            )
            await self.read_on()
        await self.flush()
        if self._replica is not None:
            await asyncio.to_thread(self._replica.sync_log)
        self._derived.close()
        tail = msgspec.structs.replace(self.tail, position=end, epochs=[epoch])
        await asyncio.to_thread(write_tail, self._files, self._path, tail)
        if tail.is_partial and not tail.number:
            tail = await self._begin_upload(tail)
        return LogPlace(self._log, tail, self._snapshots)

    async def _begin_upload(self, tail: Tail) -> Tail:
        """Tell everybody that there is more to come, before recovery takes its time."""
        begun = ReplicatedEntry(tail.epoch, 1, 0, 0, 0, is_first=True, is_cut=True)
        position = await self._log.append(encode(begun))
        return msgspec.structs.replace(
            tail, entry_epoch=tail.epoch, number=1, position=Entry(position, b"").end
        )

    async def bring_back(self) -> None:
        """Download the segments that only the bucket has. Raises as ``read_on`` does."""
        left = await asyncio.to_thread(read_bucket_files, self._path)
        if left and self._restorer is None:
            reject_bucket_files(self._path)
        assert self._restorer is not None or not left
        for file in reversed(left):  # there is never a gap behind those that are still missing
            assert self._restorer is not None
            await self._restorer.bring_back(file)
        if left:
            await asyncio.to_thread(stamp_checkpoint, self._files, self._path)

    async def _begin_anew(self, tail: Tail) -> None:
        """Have what a split has made. Raises ``SplitLiesReady``: it lies beside the store."""
        if split_number_of(incoming_path(self._path)) == tail.split_number:
            self._derived.close()
            raise SplitLiesReady(tail)
        if self._restorer is None:
            raise split_without_bucket(tail)
        if self._replica is None:
            # If this one is killed meanwhile, it is a replica that has not come so far.
            await asyncio.to_thread(
                self._be_replica, msgspec.structs.replace(self._tail, epochs=[])
            )
        self._follow_from(await self._restorer.begin_anew(tail, self.tail))

    async def _restore(self) -> bool:
        """Go to the newest snapshot; False: there is none that is newer than what is here."""
        assert self._replica is not None
        tail = None if self._restorer is None else await self._restorer.restore(self.tail)
        if tail is not None:
            self._follow_from(tail)
        return tail is not None

    def _follow_from(self, tail: Tail) -> Replica:
        self._leaving = None  # of what was followed before
        self._replica = Replica(self._files, self._path, tail, self._derived)
        return self._replica

    async def _catch_up(self, trimmed: Trimmed) -> None:
        """The log has no more what follows; a snapshot has it."""
        if self._replica is not None:
            if not await self._restore():
                raise Trimmed(
                    f"{trimmed}, and no snapshot has them: set MQ_ENGINE_SNAPSHOT_URL as the "
                    "shard's owner has it"
                ) from trimmed
        elif self._is_known and not self._tail.is_partial:
            # An owner writes down what it does not need before it trims the log: this is the next
            # one's. Whatever comes after what is known may be of this store alone.
            await asyncio.to_thread(self._step_down, self._tail.log_end)
        else:
            raise self._stranger()

    def _take(self, read: Entry) -> None:
        entry = decode(read.content)
        if entry.is_left and entry.epoch not in self._passes_left:
            raise ReplicationUnavailable(
                f"the shard left this replicated log with epoch {entry.epoch}: its store is served "
                "without one since. Nothing was changed: take the shard out of the settings of "
                "this machine, or name the URL of another log"
            )
        if self._replica is not None:
            self._replica.apply(entry, read.end)
            return
        if not self._is_known or (self._tail.is_partial and entry.epoch not in self._tail.epochs):
            raise self._stranger()
        if self._is_of_next_owner(entry):
            self._step_down(min(entry.log_from, self._tail.log_end)).apply(entry, read.end)
            return
        reason = self._why_foreign(entry)
        if reason:
            self._put_aside(reason)
            raise _BuiltAnew
        if entry.split_number:
            raise BeginsAnew(entry, read.end)
        self._tail = msgspec.structs.replace(
            self._tail,
            position=read.end,
            entry_epoch=entry.epoch,
            number=entry.number,
            log_end=entry.log_end,
            is_partial=self._tail.is_partial and not entry.is_whole,
        )

    def _stranger(self) -> StoreCorrupt:
        return StoreCorrupt(
            f"{self._path} has messages, and so has the replicated log, and nothing says that they "
            "belong together. Nothing was changed: name an empty directory, which is filled from "
            "the log, or the URL of another log"
        )

    def _is_of_next_owner(self, entry: ReplicatedEntry) -> bool:
        """Whether it goes on where this store's own entries end, of which the store has all."""
        tail = self._tail
        if entry.epoch in tail.epochs or not entry.is_first or entry.number != tail.number + 1:
            return False
        local = base_offsets_in(self._path / COMMIT_LOG_DIR)
        bases = [*bucket_offsets(self._path), *local]
        first, last = bases[0] if bases else 0, bases[-1] + entry.segment_bytes if bases else 0
        is_complete = len(bases) * entry.segment_bytes == last - first
        return is_complete and first <= entry.log_start and last >= tail.log_end

    def _step_down(self, boundary: int) -> Replica:
        """Be a replica from now on. ``boundary``: the log below it is the replicated log's."""
        keep(self._files, self._path, boundary, self._tail.epoch)
        log.info(
            "Another engine owns this shard now; following it",
            extra={"action": "stepped_down", "offset": boundary},
        )
        tail = msgspec.structs.replace(self._tail, epochs=[], has_own_files=True)
        return self._be_replica(tail)

    def _be_replica(self, tail: Tail) -> Replica:
        """Of what an owner has here."""
        write_tail(self._files, self._path, tail)
        self._files.unlink(self._path / ABORT_FILE)  # of its run
        return self._follow_from(tail)

    def _why_foreign(self, entry: ReplicatedEntry) -> str:
        """Why an entry is none that this store has written; empty where it is one."""
        if entry.epoch not in self._tail.epochs:
            return f"epoch {entry.epoch} wrote to the log meanwhile"
        for kind, position, content, _ in entry.sections:
            if kind is Kind.LOG and not self._has_bytes(position, content, entry.segment_bytes):
                return f"the log has other bytes at {position}"
        return ""

    def _has_bytes(self, position: int, content: bytes, segment_bytes: int) -> bool:
        """Also where retention has deleted their segment since, which it does from the first on."""
        start = position % segment_bytes
        directory = self._path / COMMIT_LOG_DIR
        path = directory / segment_name(position - start)
        try:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(len(content)) == content
        except FileNotFoundError:
            bases = base_offsets_in(directory)
            return bool(bases) and position < bases[0]

    def _move(self, name: str, aside: Path) -> None:
        """Raises FileExistsError: nothing that was put aside is ever replaced."""
        if (aside / name).exists():
            raise FileExistsError(errno.EEXIST, f"{name} is there already")
        (self._path / name).rename(aside / name)

    def _put_aside(self, reason: str) -> None:
        aside = self._path.with_name(f"{self._path.name}.aside-{self.tail.epoch}")
        log.warning(
            "The store differs from its replicated log; keeping its files aside and building it "
            "anew from the log. Delete them when nobody needs what they have more",
            extra={"action": "store_put_aside", "path": str(aside), "reason": reason},
        )
        try:
            aside.mkdir(mode=0o700, exist_ok=True)  # a process that was killed may have begun
            staying = {LOCK_FILE, SHARD_FILE}
            if self._replica is not None:  # goes on with an empty store after a kill, too
                write_tail(self._files, self._path, Tail())
                staying.add(REPLICATION_FILE)
            for name in sorted(os.listdir(self._path)):
                if name not in staying:
                    self._move(name, aside)
        except OSError as exc:
            raise StoreError(
                f"{self._path} differs from its replicated log ({reason}) and could not be put "
                f"aside as {aside}: {exc.strerror}. Move its files away by hand"
            ) from exc
        self._files.sync_dir(aside)
        self._files.sync_dir(self._path)
        self._files.sync_dir(self._path.parent)
        self._follow_from(Tail())


class SplitLiesReady(Exception):
    """The shard begins anew with what a split made, and that lies beside this store: no engine has
    either open any more. ``tail``: where the log goes on behind it.
    """

    def __init__(self, tail: Tail) -> None:
        super().__init__(tail.split_number)
        self.tail = tail


async def exchanging_stores(
    open_log: Callable[[], tuple[ReplicatedLog, SnapshotBucket | None]],
    store_path: Path,
    files: Files,
    lead: Callable[[ReplicatedLog, SnapshotBucket | None], Awaitable[ResultT]],
) -> ResultT:
    """What ``lead`` makes of a shard; again with a log that is opened anew, where it raises
    ``SplitLiesReady``: the store is a replica's then, with what the split made. Raises what
    ``lead`` does, ``BadRequest``, ``OSError``.
    """
    while True:
        replicated_log, snapshots = open_log()
        try:
            return await lead(replicated_log, snapshots)
        except SplitLiesReady as exc:
            await replicated_log.close()
            write_tail(files, incoming_path(store_path), exc.tail)
            exchange(files, store_path, number=exc.tail.split_number)
            log.info(
                "The shard begins anew with a part of another one's store",
                extra={"action": "store_adopted", "split_number": exc.tail.split_number},
            )


class _BuiltAnew(Exception):
    """Reading begins again, for a store that has nothing."""


def reject_attached(store_path: Path) -> None:
    """Before a store is served without a replicated log. Raises ConfigInvalid: it has not left its
    log, which may have more, or be another engine's by now.
    """
    tail = read_tail(store_path)
    if tail is not None and not tail.has_left:
        reason = (
            "another machine may own its shard by now"
            if tail.epochs
            else "it is a replica, and messages that were acknowledged may be in that log only"
        )
        raise ConfigInvalid(
            f"{store_path} belongs to a replicated log: {reason}. Nothing was changed: set "
            "MQ_ENGINE_REPLICATED_LOG to the URL of that log, or run `mqservice shard detach` to "
            "serve the shard without one. If the log is gone for good, delete "
            f"{store_path / REPLICATION_FILE} to serve what is here"
        )


async def take_over(
    replicated_log: ReplicatedLog,
    snapshots: SnapshotBucket | None,
    store_path: Path,
    files: Files,
    *,
    epoch: int,
    derived: Derived | None = None,
    leaves_old: bool = False,
) -> LogPlace:
    """The log, open for writing, and the store's files at its end.

    ``epoch``: above that of every owner before; 0: one more than is known.

    Raises:
        NotLeader: the log has seen this epoch, or a newer one.
        StoreCorrupt: what is here is not of this log, or an entry cannot be applied.
        StoreInUse: an engine runs on the store.
        SplitLiesReady: exchange the stores first.
    """
    with locked(store_path, files):
        known = replicated_log, snapshots, store_path, files, derived
        return await Follower(*known, leaves_old=leaves_old).take_over(epoch)


async def follow(
    replicated_log: ReplicatedLog,
    snapshots: SnapshotBucket | None,
    store_path: Path,
    files: Files,
    *,
    interval_ms: int,
    caught_up: Callable[[Tail], None],
    wanted_epoch: asyncio.Future[int],
    derived: Derived | None = None,
    leaves_old: bool = False,
) -> LogPlace:
    """Apply what comes, and tell ``caught_up`` whenever that was all, until ``wanted_epoch`` says
    with which epoch to take over. Raises as ``take_over`` does.
    """
    with locked(store_path, files):
        known = replicated_log, snapshots, store_path, files, derived
        follower = Follower(*known, leaves_old=leaves_old)
        loop = asyncio.get_running_loop()
        flushed_s = -_FLUSH_S
        left_s = loop.time()
        while not wanted_epoch.done():
            await follower.read_on()
            if follower.could_take_over:
                caught_up(follower.tail)
            if loop.time() - flushed_s >= _FLUSH_S:
                await follower.flush()
                flushed_s = loop.time()
            if loop.time() - left_s >= _LEAVE_S and not await follower.leave_old():
                left_s = loop.time()
            await asyncio.wait([wanted_epoch], timeout=interval_ms / 1_000)
        return await follower.take_over(wanted_epoch.result())


@contextlib.contextmanager
def locked(store_path: Path, files: Files) -> Iterator[None]:
    """No engine runs on the store meanwhile; errors of the log come as the engine's."""
    files.make_dirs(store_path)
    lock = StoreLock(store_path)
    lock.acquire()
    lock.write_owner()
    try:
        yield
    except Fenced as exc:
        raise NotLeader(
            f"cannot take over this shard: {exc}. Another engine owns it: stop that one, or let "
            "MQ_ENGINE_SHARD_EPOCH be higher"
        ) from exc
    except LogError as exc:
        raise ReplicationUnavailable(f"the replicated log cannot be used: {exc}") from exc
    finally:
        lock.release()


async def _pause(error: Unavailable) -> None:
    log.warning(
        "The replicated log is not responding; trying again. No client is served until it responds",
        extra={"action": "replicated_log_awaited", "reason": str(error)},
    )
    await asyncio.sleep(_PAUSE_S)
