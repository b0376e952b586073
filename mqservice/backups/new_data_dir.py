"""A data directory that is filled in one step: from a backup, or from another system's store.

    marker ─▶ store, aside ─▶ all else ─▶ store's name ─▶ no marker

While the marker is there nothing counts: `mqservice up` refuses the directory and names the command
that finishes it, the engine finds no store, and the next run of that command begins with removing
what is left.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from mqservice.backups.errors import BackupRejected
from mqservice.backups.manifest import sync_directory
from mqservice.backups.new_directory import require_no_mount
from mqservice.supervisor import binaries
from mqservice.supervisor.child import Child
from mqservice.supervisor.data_dir import DataDir, DataDirLock
from mqservice.supervisor.errors import StartFailed
from mqservice.supervisor.output import Output
from mqservice.supervisor.ports import choose_ports
from mqservice.supervisor.postgres import PostgresServer
from mqservice.supervisor.secrets_file import load_or_create_secrets

_ASIDE_SUFFIX: Final = ".restoring"
_MAY_BE_THERE: Final = frozenset({"lost+found"})


@contextmanager
def reserved_data_dir(place: DataDir, store: Path, *, command: str) -> Iterator[Path]:
    """Holds the places until they are whole; after a failure nothing of it is left in them.

    Gives the path at which the store is to be made before it gets its name. ``command``: what an
    operator runs again after a kill, without ``mqservice``.

    Raises BackupRejected: they are not empty.
    """
    marker = place.restoring
    aside = store.with_name(store.name + _ASIDE_SUFFIX)
    if not marker.exists() and _contents(place):
        raise BackupRejected(f"{place.path} is not empty; name an empty or new directory")
    # One that was killed at its very end has left the store under its name.
    is_left = marker.exists() and store.is_relative_to(place.path)
    if not is_left and store.exists() and any(store.iterdir()):
        raise BackupRejected(f"{store} is not empty")
    require_no_mount(store)
    place.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = DataDirLock(place)  # also tells `up` that the directory is one of this service
    lock.acquire()
    try:
        marker.touch(mode=0o600)
        marker.write_text(command, encoding="utf-8")
        sync_directory(place.path)
        _remove([aside, *_contents(place)])
        try:
            yield aside
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


@asynccontextmanager
async def embedded_database(place: DataDir, environ: Mapping[str, str]) -> AsyncIterator[str]:
    """The cluster of ``mqservice up``, made where it is not there and running; its database's URL.

    Raises SupervisorError: it cannot be made, or it ended meanwhile.
    """
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
        yield server.url
    finally:
        await child.stop()
        output.close()
    if failures:
        raise StartFailed(failures[0])
