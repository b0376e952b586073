"""Takes a shard off its replicated log for good, so that its store is served without one.

    log, snapshots ── read to the end, fence, read the rest ──▶ store, all of it on this disk
    log ◀── the last entry: the shard has left ── topics are ``sync`` ── the store may be served

Until the last entry is in the log the store is an owner's, and may be served with its log as
before; from then on nobody takes the shard over from there. Whoever was killed runs it again.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.catalog.config_table import TopicTable
from storage_engine.clock import Clock
from storage_engine.disk.files import Files
from storage_engine.errors import StoreCorrupt
from storage_engine.replicated_log.port import ReplicatedLog
from storage_engine.replicated_log.snapshot_bucket import SnapshotBucket
from storage_engine.replication.entry import ReplicatedEntry, encode
from storage_engine.replication.follower import Follower, locked
from storage_engine.replication.replica import Derived
from storage_engine.replication.tail import Tail, read_tail, write_tail
from storage_engine.wire.topics import Durability

_ANY_EPOCH: Final = range(1 << 63)


async def leave_log(
    replicated_log: ReplicatedLog,
    snapshots: SnapshotBucket | None,
    store_path: Path,
    files: Files,
    clock: Clock,
    *,
    derived: Derived | None = None,
    has_left_before: bool = False,
) -> Tail:
    """What of the log the store has, all that there is. Its directory may be empty, or that of any
    node of the shard; where it has left already, nothing is done. ``has_left_before``: the shard
    left the log, and the store that it left with is lost.

    Raises:
        NotLeader: somebody else has taken the shard over meanwhile.
        StoreCorrupt: nothing of the shard is in the log, or the store is not of this log.
        ReplicationUnavailable: the log or its bucket cannot be read, or the shard has left it.
        DiskFull, SyncFailed, StoreInUse.
    """
    known = read_tail(store_path)
    if known is not None and known.has_left:
        return known
    passes: Container[int] = known.epochs if known is not None else ()
    if has_left_before:
        passes = _ANY_EPOCH
    with locked(store_path, files):
        follower = Follower(
            replicated_log, snapshots, store_path, files, derived, passes_left=passes
        )
        await follower.read_on()
        if not follower.tail.number:
            raise StoreCorrupt(
                "nothing of this shard is in the replicated log: check its URL and the shard's name"
            )
        await follower.bring_back()
        tail = (await follower.take_over(0)).tail
        left = ReplicatedEntry(
            tail.epoch, tail.number + 1, 0, tail.log_end, 0, is_first=True, is_left=True
        )
        await replicated_log.append(encode(left))
        _make_synced(store_path, files, clock)
        tail = msgspec.structs.replace(tail, has_left=True)
        write_tail(files, store_path, tail)
        return tail


def _make_synced(store_path: Path, files: Files, clock: Clock) -> None:
    """No topic waits for a log that there is not."""
    topics = TopicTable(files, store_path, clock)
    topics.load()
    changed = [
        msgspec.structs.replace(each, durability=Durability.SYNC)
        for each in topics.configs.values()
        if each.durability is Durability.REPLICATED
    ]
    if changed:
        topics.change(topics.staged(changed))
