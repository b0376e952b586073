"""Creates a backup of a running installation, all parts as of the same moment.

engine's files held ─▶ topics, groups locked ─▶ database's moment ─▶ engine's moment ─▶ unlocked
    ─▶ segments and pg_dump, for as long as they take ─▶ secrets ─▶ manifest ─▶ its name
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from mqservice.backups import database
from mqservice.backups.engine_copy import EngineCopy, known_segments
from mqservice.backups.errors import BackupError
from mqservice.backups.files import entry_of
from mqservice.backups.installation import Installation
from mqservice.backups.manifest import (
    DUMP,
    FORMAT_VERSION,
    SECRETS,
    STORE,
    Manifest,
    read_manifest,
    write_manifest,
)
from mqservice.backups.new_directory import new_directory
from mqservice.supervisor.binaries import find_postgres_clients


def create(
    env: Mapping[str, str],
    installation: Installation,
    target: Path,
    *,
    base: Path | None,
    rate_bytes: int,
    on_progress: Callable[[int, int], None],
) -> Manifest:
    """Make a backup in ``target``; durable on return.

    Args:
        base: an earlier backup; full segments that it holds are linked instead of copied.
        rate_bytes: of the log, a second at most; 0: no limit.
        on_progress: called with the bytes of the log that are copied, and of all of it.

    Raises:
        BackupError, SupervisorError: there is none, and nothing is left of it.
    """
    known = []
    if base is not None:
        base = base.absolute()
        known = known_segments(base, read_manifest(base))
    database.require_one_shard(installation.database_url)
    version = database.server_version(installation.database_url)
    clients = find_postgres_clients(version)
    url = installation.database_url
    try:
        with new_directory(target) as partial:
            (partial / STORE).mkdir(mode=0o700)
            with EngineCopy(
                env,
                installation.store,
                installation.engine_socket,
                partial / STORE,
                rate_bytes=rate_bytes,
                on_progress=on_progress,
            ) as copy:
                copy.wait_until_ready()
                with database.frozen_database(url) as moment:
                    taken = copy.start(known)
                    moment.unlock()
                    dump = database.start_dump(clients, url, moment.snapshot, partial / DUMP)
                    try:
                        files = copy.finish()
                        dump.finish()
                    finally:
                        dump.kill()
            (partial / DUMP).chmod(0o600)
            files.append(entry_of(partial, DUMP))
            if installation.secrets.is_file():
                shutil.copyfile(installation.secrets, partial / SECRETS)
                (partial / SECRETS).chmod(0o600)
                files.append(entry_of(partial, SECRETS))
            manifest = Manifest(
                format_version=FORMAT_VERSION,
                made_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
                start_offset=taken.start_offset,
                end_offset=taken.end_offset,
                segment_bytes=taken.segment_bytes,
                postgres_version=version,
                files=files,
            )
            write_manifest(partial, manifest)
    except OSError as error:
        raise BackupError(f"cannot write the backup: {error}") from error
    return manifest
