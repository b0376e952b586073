"""Takes a shard off its replicated log, so that this machine serves it without one.

    rows: is a node still there? ─▶ python -m storage_engine.tools.detach ─▶ rows: no owner, sync

Nothing of the service runs here meanwhile. Whoever is killed runs it again: what was done already
is not done once more.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from mqservice.backups.installation import find_database_url, store_dir
from mqservice.backups.new_data_dir import embedded_database
from mqservice.lib.names import MAIN_SHARD
from mqservice.lib.replicated_log import REPLICATED_LOG_VARIABLE, has_replicated_log
from mqservice.supervisor.data_dir import DataDir, DataDirLock
from mqservice.supervisor.operator_commands import run_command
from mqservice.supervisor.processes import PYTHON, engine_env, segment_bytes
from mqservice.supervisor.shard_engines import place_of_shard
from mqservice.transfers.errors import TransferError, TransferRejected

_PROGRAM: Final = (*PYTHON, "storage_engine.tools.detach")


def detach(
    environ: Mapping[str, str],
    data_dir: Path,
    shard: str,
    *,
    is_dry_run: bool,
    has_left_before: bool,
) -> Path:
    """The directory of its store, which has all of it on return; a dry run changes nothing.

    Raises TransferRejected: a node still has the shard, or no log is named; TransferError: it
    could not be done; SupervisorError: the service runs here, or its database cannot be reached.
    """
    if not has_replicated_log(environ):
        raise TransferRejected(
            f"{REPLICATED_LOG_VARIABLE} is not set: name the log that the shard is to leave"
        )
    place = DataDir(data_dir)
    found = place_of_shard(shard, place)
    store = store_dir(environ, data_dir) if shard == MAIN_SHARD else found.store
    is_embedded = find_database_url(environ) is None
    if is_embedded and not place.secrets.exists():
        raise TransferRejected(
            f"no service was started in {data_dir}: set DATABASE_URL and MQ_SECRET_KEY as the "
            "other machines have them"
        )
    place.create(segment_bytes=segment_bytes(environ))
    lock = DataDirLock(place)
    lock.acquire()
    try:
        env = {**environ, "MQ_ENGINE_SHARD": shard}
        asyncio.run(_detach(env, place, shard, store, is_embedded, is_dry_run, has_left_before))
    finally:
        lock.release()
    return store


async def _detach(
    environ: Mapping[str, str],
    place: DataDir,
    shard: str,
    store: Path,
    is_embedded: bool,
    is_dry_run: bool,
    has_left_before: bool,
) -> None:
    async with AsyncExitStack() as stack:
        if is_embedded:
            await stack.enter_async_context(embedded_database(place, environ))

        async def command(*options: str) -> None:
            arguments = ["shard", *options, "--", "detach", shard]
            await asyncio.to_thread(run_command, environ, place.path, arguments)

        await command("--dry-run")
        if not is_dry_run:
            await asyncio.to_thread(_leave, environ, place, store, has_left_before)
            await command()


def _leave(environ: Mapping[str, str], place: DataDir, store: Path, has_left_before: bool) -> None:
    done = subprocess.run(
        [*_PROGRAM, str(store), *(["--again"] if has_left_before else [])],
        env=engine_env(environ),
        cwd=place.path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise TransferError(said[-1] if said else f"it ended with code {done.returncode}")
