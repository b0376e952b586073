"""Brings a backup back: into an empty data directory, and an empty database.

    marker ─▶ store, aside ─▶ secrets ─▶ database, in one transaction ─▶ store's name ─▶ no marker

While the marker is there nothing counts: `mqservice up` refuses the directory, the engine finds no
store, and the next restore begins with removing what is left. A database that is not ours to
remove must be empty, and is filled by one transaction, which also says by which backup: one that
this backup has filled already, before its restore was killed, is taken as it is.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mqservice.backups import database
from mqservice.backups.engine_copy import adopt
from mqservice.backups.errors import BackupDamaged, BackupError, BackupRefused
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
from mqservice.backups.place import require_no_mount
from mqservice.supervisor import binaries
from mqservice.supervisor.binaries import PostgresClients, find_postgres_clients
from mqservice.supervisor.child import Child
from mqservice.supervisor.data_dir import DataDir, DataDirLock
from mqservice.supervisor.errors import StartFailed
from mqservice.supervisor.output import Output
from mqservice.supervisor.ports import choose_ports
from mqservice.supervisor.postgres import PostgresServer
from mqservice.supervisor.secrets_file import load_or_create_secrets

_ASIDE_SUFFIX: Final = ".restoring"
_MAY_BE_THERE: Final = frozenset({"lost+found"})


def restore(
    environ: Mapping[str, str],
    data_dir: Path,
    backup: Path,
    *,
    told: Callable[[int, int], None],
) -> Manifest:
    """Bring ``backup`` back into ``data_dir``; durable on return.

    ``DATABASE_URL`` of ``environ`` names the database, else the embedded one is made. ``told``:
    bytes of the backup that are copied, and of all of it.

    Raises:
        BackupRefused: a place is not empty, or the backup of a newer format; nothing was done.
        BackupDamaged: a file of it is not what it should be.
        BackupError, SupervisorError: there is nothing of it, or the next restore removes it.
    """
    manifest = read_manifest(backup)
    url = find_database_url(environ)
    if url is None and not manifest.has(SECRETS):
        raise BackupRefused(
            "the backup has no secrets.toml, since its service was told its secrets by the "
            "environment: set DATABASE_URL and MQ_SECRET_KEY here as well"
        )
    store = store_dir(environ, data_dir)
    place = DataDir(data_dir)
    try:
        stamp = stamp_of(backup)
        is_filled = url is not None and database.restored_from(url) == stamp
        clients = _clients_for(manifest, url, is_filled=is_filled)
        with _marked(place, store):
            aside = store.with_name(store.name + _ASIDE_SUFFIX)
            aside.mkdir(mode=0o700)
            _copy_files(backup, manifest, place, aside, told)
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
        raise BackupError(f"the backup could not be brought back: {error}") from error
    return manifest


def _clients_for(manifest: Manifest, url: str | None, *, is_filled: bool) -> PostgresClients:
    """Raises BackupRefused: the database is not empty, or older than what was dumped."""
    if url is None:
        return find_postgres_clients(manifest.postgres_version)
    version = database.server_version(url)
    if version < manifest.postgres_version:
        raise BackupRefused(
            f"the backup is of PostgreSQL {manifest.postgres_version}, the server is {version}"
        )
    if not is_filled:
        database.require_empty(url)
    return find_postgres_clients(version)


@contextmanager
def _marked(place: DataDir, store: Path) -> Iterator[None]:
    """Holds the places until they are whole; after a failure nothing of it is left in them.

    Raises BackupRefused: they are not empty.
    """
    marker = place.restoring
    aside = store.with_name(store.name + _ASIDE_SUFFIX)
    if not marker.exists() and _contents(place):
        raise BackupRefused(f"{place.path} is not empty; name an empty or a new directory")
    # One that was killed at its very end has left the store under its name.
    is_left = marker.exists() and store.is_relative_to(place.path)
    if not is_left and store.exists() and any(store.iterdir()):
        raise BackupRefused(f"{store} is not empty")
    require_no_mount(store)
    place.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = DataDirLock(place)  # also tells `up` that the directory is one of this service
    lock.acquire()
    try:
        marker.touch(mode=0o600)
        sync_directory(place.path)
        _remove([aside, *_contents(place)])
        try:
            yield
            marker.unlink()
            sync_directory(place.path)
        except BaseException:
            # The marker last, and only when nothing else is left: it is what `up` heeds.
            _remove([aside, *_contents(place)])
            if not (aside.exists() or _contents(place)):
                marker.unlink(missing_ok=True)
                place.lock.unlink(missing_ok=True)
            raise
    finally:
        lock.release()


def _contents(place: DataDir) -> list[Path]:
    """What is in the data directory besides what holds it for a restore."""
    if not place.path.exists():
        return []
    own = (place.restoring, place.lock)
    return [
        path for path in place.path.iterdir() if path not in own and path.name not in _MAY_BE_THERE
    ]


def _remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _copy_files(
    backup: Path,
    manifest: Manifest,
    place: DataDir,
    store: Path,
    told: Callable[[int, int], None],
) -> None:
    done_bytes = 0

    def passed(byte_count: int) -> None:
        nonlocal done_bytes
        done_bytes += byte_count
        told(done_bytes, manifest.byte_count)

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
    secrets = load_or_create_secrets(place.secrets)
    account = binaries.server_account()
    server = PostgresServer(
        directory=place.postgres,
        port=choose_ports(place.ports, ("postgres",))["postgres"],
        programs=await asyncio.to_thread(binaries.find_postgres, account),
        account=account,
        admin_password=secrets.postgres_admin_password,
        password=secrets.postgres_password,
    )
    await asyncio.to_thread(server.prepare)
    place.logs.mkdir(mode=0o700, exist_ok=True)
    output = Output(place.logs, is_quiet=True)
    failures: list[str] = []
    child = Child(
        server.child_spec(environ), output, on_change=lambda: None, on_fatal=failures.append
    )
    try:
        await child.start()
        await server.ensure_database()
        await asyncio.to_thread(database.restore, clients, server.url, dump, stamp=stamp)
        await asyncio.to_thread(database.forget_restore, server.url)
    finally:
        await child.stop()
        output.close()
    if failures:
        raise StartFailed(failures[0])
