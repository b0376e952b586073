"""``python -m storage_engine.tools.split STORE TARGET --socket S --shard NAME --number N
--namespace NAME …``: makes TARGET, of a shard NAME, of what the running engine's STORE has of some
namespaces. Lines of JSON on stdin and stdout say when (``protocol_lines.py``). Where the shards
have a replicated log, TARGET is uploaded for the replicas of that shard. With ``--plan``: only says
how much room it takes.

Exit codes: 0 done, 1 not, with the reason in the last line of stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from storage_engine.clock import Clock, SystemClock
from storage_engine.config import ENV_PREFIX, StoreConfig, config_from_env
from storage_engine.disk.adopted_store import incoming_path, write_uploaded
from storage_engine.disk.files import Files
from storage_engine.disk.small_files import FilesKeptChanging
from storage_engine.errors import ConfigInvalid, StoreError
from storage_engine.log.bucket_files import reject_bucket_files
from storage_engine.recovery.open_checks import claim_store
from storage_engine.replicated_log.errors import LogError
from storage_engine.replicated_log.opening import open_shard
from storage_engine.replicated_log.snapshot_bucket import SnapshotBucket
from storage_engine.replication.replica import NothingDerived
from storage_engine.replication.restorer import Restorer
from storage_engine.replication.tail import read_tail
from storage_engine.replication.uploads import StoreUpload, split_store
from storage_engine.tools.backup.take_backup import BackupFailed, LogHold, reject_other_engine
from storage_engine.tools.program_lines import print_line, print_progress
from storage_engine.tools.split.copy_room import gone_path, plan_copy, reject_without_room
from storage_engine.tools.split.keep_namespaces import keep_namespaces
from storage_engine.tools.split.protocol_lines import (
    CopyPlan,
    CopyRound,
    Discard,
    Finish,
    PartDone,
    RoundDone,
)
from storage_engine.tools.split.store_copy import StoreCopy
from storage_engine.wire.sync_client import StoreClient

TIMEOUT_MS = 60_000
# For deletions in the bucket: while the namespaces may be held, and else.
_SOON_S: Final = 2.0
_LATER_S: Final = 60.0


def main(arguments: list[str] | None = None) -> int:
    """Exit code; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="storage_engine.tools.split", description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("target", type=Path, help="the store that the other shard has now")
    parser.add_argument("--socket", required=True, help="of the engine that has STORE")
    parser.add_argument("--shard", required=True, help="which TARGET is for")
    parser.add_argument("--plan", action="store_true", help="only say how much room it takes")
    parser.add_argument("--number", type=int, default=0, help="of this attempt")
    parser.add_argument(
        "--after",
        type=int,
        metavar="NUMBER",
        help="of the last split that the log of the other shard says: what attempts between it and "
        "this one have uploaded is deleted",
    )
    parser.add_argument("--namespace", action="append", default=[])
    options = parser.parse_args(arguments)
    if options.plan:
        return _plan(options.store, options.target, options.socket)
    if not options.number or not options.namespace:
        parser.error("--number and --namespace are needed")
    target = incoming_path(options.target)
    environ = {
        **os.environ,
        f"{ENV_PREFIX}STORE_DIR": str(target),
        f"{ENV_PREFIX}SHARD": options.shard,
    }
    try:
        config = config_from_env(environ)
        uploads = _Uploads(config, options.target, options.number, options.after)
    except StoreError as exc:
        print(exc, file=sys.stderr)
        return 1
    try:
        _delete(target)  # of an attempt before
        with StoreClient(options.socket, client_name="split", timeout_ms=TIMEOUT_MS) as client:
            reject_without_room(_room(options.store, options.target, client), options.target)
            uploads.delete_left()
            _split(options.store, config, client, options.namespace, options.number)
    except (BackupFailed, FilesKeptChanging, LogError, StoreError, OSError) as exc:
        _delete(target)  # the disk may be full of it
        if not isinstance(exc, LogError):  # else the bucket may be away
            uploads.delete_own(_SOON_S)
        print(exc, file=sys.stderr)
        return 1
    line = sys.stdin.buffer.readline()  # none: its caller has ended, and all of it stays
    if line:
        discard = msgspec.json.decode(line, type=Discard)
        _delete(target)
        if not discard.is_in_log:
            uploads.delete_own(_LATER_S)
    return 0


class _Uploads:
    """What attempts to split something off for a shard have uploaded, and nobody will begin with.

    ``last_number``: the last split that the log of the shard says, as its owner has answered since
    this attempt began; None: nobody has asked. No attempt between the two can be in the log any
    more: they were all given up before this one began. What is not deleted in time the next attempt
    deletes.
    """

    def __init__(
        self, config: StoreConfig, target: Path, number: int, last_number: int | None
    ) -> None:
        """``target``: the store that the shard has now. Raises ``StoreCorrupt``."""
        self._config = config
        self._number = number
        self._last_number = last_number
        tail = read_tail(target)
        self._known_number = max(last_number or 0, 0 if tail is None else tail.split_number)

    def delete_left(self) -> None:
        """That of attempts before this one, which were killed."""
        if self._last_number is not None:
            self._delete(self._number - 1, after=self._known_number, seconds_max=_LATER_S)

    def delete_own(self, seconds_max: float) -> None:
        """No engine was asked to begin with it, or its shard's owner has answered that the log does
        not say so, and never will.
        """
        after = max(self._number - 1, self._known_number)
        self._delete(self._number, after=after, seconds_max=seconds_max)

    def _delete(self, number: int, *, after: int, seconds_max: float) -> None:
        if not self._config.replicated_log:
            return

        async def delete() -> None:
            async with asyncio.timeout(seconds_max):
                bucket = _bucket(self._config, SystemClock(), self._config.shard)
                await bucket.delete_splits(number, after=after)

        with contextlib.suppress(LogError, StoreError, TimeoutError), asyncio.Runner() as runner:
            runner.run(delete())


def _plan(store: Path, target: Path, socket: str) -> int:
    """Exit code. Changes nothing."""
    try:
        with StoreClient(socket, client_name="split", timeout_ms=TIMEOUT_MS) as client:
            print_line(_room(store, target, client))
    except (BackupFailed, StoreError, OSError) as exc:
        print(exc, file=sys.stderr)
        return 1
    return 0


def _room(store: Path, target: Path, client: StoreClient) -> CopyPlan:
    reject_other_engine(store, client)
    held = LogHold(client)
    try:
        return plan_copy(store, target, Files())
    finally:
        held.release()


def _delete(incoming: Path) -> None:
    """An engine finds all of it or nothing meanwhile."""
    gone = gone_path(incoming)
    shutil.rmtree(gone, ignore_errors=True)  # of a process that was killed meanwhile
    with contextlib.suppress(FileNotFoundError):
        incoming.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _split(
    store: Path, config: StoreConfig, client: StoreClient, namespaces: list[str], number: int
) -> None:
    files, clock, target = Files(), SystemClock(), config.store_path
    claim_store(files, target, config.shard)
    with asyncio.Runner() as runner:
        copy = StoreCopy(store, config, client, files, clock, say=print_progress)
        try:
            upload = None
            if config.replicated_log:
                bucket = _bucket(config, clock, config.shard).of_split(number)
                upload = StoreUpload(bucket, target, segment_bytes=copy.segment_bytes)
                bucket = _bucket(config, clock, client.shard)
                restorer = Restorer(bucket, files, target, NothingDerived())
                copy.fetch_old(lambda old: runner.run(restorer.fetch(old)))
            else:
                reject_bucket_files(store)
            while isinstance(_next_order(), CopyRound):
                copied_bytes = copy.copy()
                if upload is not None:
                    for end_offset in copy.steps(upload.log_end):
                        runner.run(upload.upload_log(end_offset))
                print_line(RoundDone(end_offset=copy.end_offset, copied_bytes=copied_bytes))
            copy.copy()
        finally:
            copy.close()
        kept = runner.run(keep_namespaces(config, files, clock, namespaces, number))
        if upload is not None:
            runner.run(upload.finish(split_store(target, number).log_end))
            write_uploaded(files, target)
    print_line(PartDone(end_offset=copy.end_offset, **kept._asdict()))


def _bucket(config: StoreConfig, clock: Clock, shard: str) -> SnapshotBucket:
    """Raises ``ConfigInvalid``: the shards have none."""
    _, snapshots = open_shard(replace(config, shard=shard), clock)
    if snapshots is None:
        raise ConfigInvalid(
            f"{ENV_PREFIX}SNAPSHOT_URL is not set, and a log in Kafka has no bucket: without one "
            "the other machines could not begin with what is split off"
        )
    return snapshots


def _next_order() -> CopyRound | Finish:
    """Raises ``BackupFailed``: nobody wants the copy any more."""
    line = sys.stdin.buffer.readline()
    if not line:
        raise BackupFailed("the process that asked for the copy is gone")
    order = msgspec.json.decode(line, type=CopyRound | Finish | Discard)
    if isinstance(order, Discard):
        raise BackupFailed("the split was given up before the copy was ready")
    return order


if __name__ == "__main__":
    sys.exit(main())
