"""Restores a backup into an empty data directory and an empty database.

    marker ─▶ store, aside ─▶ secrets ─▶ database, in one transaction ─▶ store's name ─▶ no marker

While the marker is there nothing counts: `mqservice up` refuses the directory, the engine finds no
store, and the next restore begins with removing what is left. A database that is not ours to
remove must be empty, and is filled by one transaction, which also says by which backup: one that
this backup has filled already, before its restore was killed, is taken as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from mqservice.backups import database
from mqservice.backups.engine_copy import adopt
from mqservice.backups.errors import BackupDamaged, BackupError, BackupRejected
from mqservice.backups.files import check_file, copy_checked
from mqservice.backups.installation import find_database_url, store_dir
from mqservice.backups.manifest import (
    DUMP,
    SECRETS,
    STORE,
    Manifest,
    read_manifest,
    stamp_of,
    sync_directory,
)
from mqservice.backups.new_data_dir import embedded_database, reserved_data_dir
from mqservice.supervisor.binaries import PostgresClients, find_postgres_clients
from mqservice.supervisor.data_dir import DataDir

_COMMAND: Final = "backup restore"


def restore(
    environ: Mapping[str, str],
    data_dir: Path,
    backup: Path,
    *,
    on_progress: Callable[[int, int], None],
) -> Manifest:
    """Bring ``backup`` back into ``data_dir``; durable on return.

    ``DATABASE_URL`` of ``environ`` names the database, else the embedded one is made.
    ``on_progress`` gets the bytes of the backup that are copied, and of all of it.

    Raises:
        BackupRejected: a place is not empty, or the backup of a newer format; nothing was done.
        BackupDamaged: a file of it is not what it should be.
        BackupError, SupervisorError: there is nothing of it, or the next restore removes it.
    """
    manifest = read_manifest(backup)
    url = find_database_url(environ)
    if url is None and not manifest.has(SECRETS):
        raise BackupRejected(
            "the backup has no secrets.toml, because its service had its secrets in "
            "the environment: set DATABASE_URL and MQ_SECRET_KEY here as well"
        )
    store = store_dir(environ, data_dir)
    place = DataDir(data_dir)
    try:
        stamp = stamp_of(backup)
        is_filled = url is not None and database.restored_from(url) == stamp
        clients = _clients_for(manifest, url, is_filled=is_filled)
        with reserved_data_dir(place, store, command=_COMMAND) as aside:
            aside.mkdir(mode=0o700)
            _copy_files(backup, manifest, place, aside, on_progress)
            adopt(environ, aside)
            if url is None:
                asyncio.run(_restore_embedded(place, clients, backup / DUMP, environ, stamp))
            elif not is_filled:
                database.restore(clients, url, backup / DUMP, stamp=stamp)
            aside.rename(store)
            sync_directory(store.parent)
        if url is not None:  # now that nothing is done again
            database.forget_restore(url)
    except OSError as error:
        raise BackupError(f"cannot restore the backup: {error}") from error
    return manifest


def _clients_for(manifest: Manifest, url: str | None, *, is_filled: bool) -> PostgresClients:
    """Raises BackupRejected: the database is not empty, or older than what was dumped."""
    if url is None:
        return find_postgres_clients(manifest.postgres_version)
    version = database.server_version(url)
    if version < manifest.postgres_version:
        raise BackupRejected(
            f"the backup was made with PostgreSQL {manifest.postgres_version}, but "
            f"the server has version {version}"
        )
    if not is_filled:
        database.require_empty(url)
    return find_postgres_clients(version)


def _copy_files(
    backup: Path,
    manifest: Manifest,
    place: DataDir,
    store: Path,
    on_progress: Callable[[int, int], None],
) -> None:
    done_bytes = 0

    def passed(byte_count: int) -> None:
        nonlocal done_bytes
        done_bytes += byte_count
        on_progress(done_bytes, manifest.byte_count)

    for file in manifest.files:
        path = Path(file.path)
        if path.parts[0] == STORE:
            copy_checked(backup, file, store / path.relative_to(STORE), passed=passed)
        elif file.path == SECRETS:
            copy_checked(backup, file, place.secrets, passed=passed)
        else:
            # Read where it is; a damaged dump must be found before a database is touched.
            fault = check_file(backup, file, passed=passed)
            if fault:
                raise BackupDamaged(f"the backup is damaged: {fault}")


async def _restore_embedded(
    place: DataDir, clients: PostgresClients, dump: Path, environ: Mapping[str, str], stamp: str
) -> None:
    """Make the cluster of ``mqservice up``, start it, fill its database, stop it."""
    async with embedded_database(place, environ) as url:
        await asyncio.to_thread(database.restore, clients, url, dump, stamp=stamp)
        await asyncio.to_thread(database.forget_restore, url)
