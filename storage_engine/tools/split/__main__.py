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
from storage_engine.replication.uploads import StoreUpload, split_store
from storage_engine.tools.backup.take_backup import BackupFailed, LogHold, reject_other_engine
from storage_engine.tools.program_lines import print_line, print_progress
from storage_engine.tools.split.copy_room import gone_path, plan_copy, reject_without_room
from storage_engine.tools.split.keep_namespaces import keep_namespaces
from storage_engine.tools.split.protocol_lines import (
    CopyPlan,
    CopyRound,
    Finish,
    PartDone,
    RoundDone,
)
from storage_engine.tools.split.store_copy import StoreCopy
from storage_engine.wire.sync_client import StoreClient

TIMEOUT_MS = 60_000


def main(arguments: list[str] | None = None) -> int:
    """Exit code; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="storage_engine.tools.split", description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("target", type=Path, help="the store that the other shard has now")
    parser.add_argument("--socket", required=True, help="of the engine that has STORE")
    parser.add_argument("--shard", required=True, help="which TARGET is for")
    parser.add_argument("--plan", action="store_true", help="only say how much room it takes")
    parser.add_argument("--number", type=int, default=0, help="of this attempt")
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
        _delete(target)  # of an attempt before
        with StoreClient(options.socket, client_name="split", timeout_ms=TIMEOUT_MS) as client:
            reject_without_room(_room(options.store, options.target, client), options.target)
            _split(options.store, config, client, options.namespace, options.number)
    except (BackupFailed, FilesKeptChanging, LogError, StoreError, OSError) as exc:
        _delete(target)  # the disk may be full of it
        print(exc, file=sys.stderr)
        return 1
    if sys.stdin.buffer.readline():  # ``Discard``; else its caller has ended, and it stays
        _delete(target)
    return 0


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
    line = sys.stdin.buffer.readline()
    if not line:
        raise BackupFailed("the process that asked for the copy is gone")
    return msgspec.json.decode(line, type=CopyRound | Finish)


if __name__ == "__main__":
    sys.exit(main())
