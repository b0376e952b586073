"""Where the parts of an installation are: those of ``mqservice up``, or of the environment.

environment, data directory ──▶ [installation_of] ──▶ store, socket, database, secrets
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mqservice.backups.errors import BackupRejected
from mqservice.supervisor.data_dir import DataDir


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """``secrets`` need not exist: in containers they are in the environment."""

    store: Path
    engine_socket: str
    database_url: str
    secrets: Path


def store_dir(environ: Mapping[str, str], data_dir: Path) -> Path:
    """Where the engine's store is, or will be."""
    told = environ.get("MQ_ENGINE_STORE_DIR")
    return Path(told).absolute() if told else DataDir(data_dir).store


def find_database_url(environ: Mapping[str, str]) -> str | None:
    """``DATABASE_URL``, or what stands in the file of ``DATABASE_URL_FILE``.

    Raises BackupRejected: that file cannot be read.
    """
    if environ.get("DATABASE_URL"):
        return environ["DATABASE_URL"]
    path = environ.get("DATABASE_URL_FILE")
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BackupRejected(f"DATABASE_URL_FILE: {error}") from error


def installation_of(env: Mapping[str, str], data_dir: Path) -> Installation:
    """``env``: that of a process of the service, see ``operating.service_environment``."""
    url = find_database_url(env)
    assert url is not None, "an environment of the service names its database"
    place = DataDir(data_dir)
    return Installation(
        store=store_dir(env, data_dir),
        engine_socket=env.get("MQ_ENGINE_SOCKET") or str(place.engine_socket),
        database_url=url,
        secrets=place.secrets,
    )
