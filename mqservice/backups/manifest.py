"""The contents of a backup. A directory without a manifest is not a backup.

files ──▶ manifest.json.sha256 ──▶ manifest.json (by rename, last) ──▶ [read_manifest]
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from mqservice.backups.errors import BackupDamaged, BackupRejected
from mqservice.supervisor.data_dir import write_private

FORMAT_VERSION: Final = 1
MANIFEST: Final = "manifest.json"
MANIFEST_SUM: Final = "manifest.json.sha256"
STORE: Final = "store"
DUMP: Final = "database.dump"
SECRETS: Final = "secrets.toml"


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the backup. ``source_…``: which file a segment was copied from, else 0."""

    path: str
    size_bytes: int
    sha256: str
    source_inode: int = 0
    source_mtime_ns: int = 0
    is_linked: bool = False


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """``[start_offset, end_offset)``: what of the commit log the backup holds, in bytes."""

    format_version: int
    made_at: str  # UTC
    start_offset: int
    end_offset: int
    segment_bytes: int
    postgres_version: int  # major version of the server
    files: list[FileEntry]

    def has(self, path: str) -> bool:
        return any(file.path == path for file in self.files)

    @property
    def byte_count(self) -> int:
        return sum(file.size_bytes for file in self.files)


class _Versioned(msgspec.Struct, frozen=True, kw_only=True):
    format_version: int


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Makes a backup of the files in ``directory``; durable on return. Raises OSError."""
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
    digest = hashlib.sha256(content).hexdigest()
    write_private(directory / MANIFEST_SUM, f"{digest}  {MANIFEST}\n")
    write_private(directory / MANIFEST, content.decode())
    sync_directory(directory)


def read_manifest(directory: Path) -> Manifest:
    """Raises BackupRejected: there is none, or it is of a newer format; BackupDamaged."""
    path = directory / MANIFEST
    try:
        content = path.read_bytes()
        said = (directory / MANIFEST_SUM).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise BackupRejected(
            f"{directory} is not a backup, or was never finished: {error}"
        ) from error
    if said.split()[:1] != [hashlib.sha256(content).hexdigest()]:
        raise BackupDamaged(
            f"{path} is damaged: its SHA-256 differs from the one in {MANIFEST_SUM}"
        )
    try:
        version = msgspec.json.decode(content, type=_Versioned).format_version
        if version > FORMAT_VERSION:
            raise BackupRejected(
                f"{path} has format version {version}, but this version of mqservice "
                f"knows only {FORMAT_VERSION}: use the version that created the "
                "backup, or a newer one"
            )
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.DecodeError as error:
        raise BackupDamaged(f"cannot read {path}: {error}") from error
    for file in manifest.files:
        parts = PurePosixPath(file.path).parts
        if file.path.startswith("/") or ".." in parts or not parts:
            raise BackupDamaged(f"{path} lists a file outside of the backup: {file.path}")
    return manifest


def stamp_of(directory: Path) -> str:
    """What tells this backup from all others, in hex digits; of one that was read without error."""
    return hashlib.sha256((directory / MANIFEST).read_bytes()).hexdigest()


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
