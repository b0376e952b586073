"""``python -m storage_engine.tools.detach STORE [--again]``: takes a shard off its replicated log,
so that its store is served without one.

    log, snapshots ── read to the end, fence, read the rest ──▶ store, all of it on this disk
    log ◀── the last entry: the shard has left ── topics are ``sync`` ── the store may be served

Until the last entry is in the log the store is an owner's, and may be served with its log as
before; from then on nobody takes the shard over from there. Whoever was killed runs it again.

The shard and its log are what ``MQ_ENGINE_SHARD``, ``MQ_ENGINE_REPLICATED_LOG`` and
``MQ_ENGINE_SNAPSHOT_URL`` tell its engine. Exit codes: 0 done, 2 it cannot be done, 3 an engine has
the store open.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Container
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.catalog.config_table import TopicTable
from storage_engine.clock import Clock, SystemClock
from storage_engine.config import ENV_PREFIX, StoreConfig, config_from_env
from storage_engine.disk.files import Files
from storage_engine.errors import ConfigInvalid, StoreCorrupt, StoreError, StoreInUse
from storage_engine.recovery.open_checks import claim_store
from storage_engine.recovery.warm_replica import WarmReplica
from storage_engine.replicated_log.opening import open_shard
from storage_engine.replicated_log.port import ReplicatedLog
from storage_engine.replicated_log.snapshot_bucket import SnapshotBucket
from storage_engine.replication.entry import ReplicatedEntry, encode
from storage_engine.replication.follower import Follower, exchanging_stores, locked
from storage_engine.replication.replica import Derived
from storage_engine.replication.tail import Tail, read_tail, write_tail
from storage_engine.wire.topics import Durability

EXIT_FAILED: Final = 2
EXIT_IN_USE: Final = 3
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


def main(arguments: list[str] | None = None) -> int:
    """Exit code; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="storage_engine.tools.detach", description=__doc__)
    parser.add_argument("store", type=Path, help="the shard's store here, or an empty directory")
    parser.add_argument("--again", action="store_true", help="it left, and its store is lost")
    options = parser.parse_args(arguments)
    try:
        config = config_from_env({**os.environ, f"{ENV_PREFIX}STORE_DIR": str(options.store)})
        if not config.replicated_log:
            raise ConfigInvalid(f"{ENV_PREFIX}REPLICATED_LOG is not set: name the log to leave")
        tail = asyncio.run(_leave(config, is_again=options.again))
    except StoreInUse as exc:
        print(exc, file=sys.stderr)
        return EXIT_IN_USE
    except (StoreError, OSError) as exc:
        print(exc, file=sys.stderr)
        return EXIT_FAILED
    print(f"{options.store} has the shard up to {tail.log_end} and is served without a log")
    return 0


async def _leave(config: StoreConfig, *, is_again: bool) -> Tail:
    clock, files = SystemClock(), Files()
    claim_store(files, config.store_path, config.shard)

    async def leave(replicated_log: ReplicatedLog, snapshots: SnapshotBucket | None) -> Tail:
        try:
            return await leave_log(
                replicated_log,
                snapshots,
                config.store_path,
                files,
                clock,
                derived=WarmReplica(config, files, clock, None),
                has_left_before=is_again,
            )
        finally:
            await replicated_log.close()

    return await exchanging_stores(
        partial(open_shard, config, clock), config.store_path, files, leave
    )


if __name__ == "__main__":
    sys.exit(main())
