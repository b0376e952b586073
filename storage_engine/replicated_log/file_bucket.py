"""A bucket that is a directory: of this machine, for trying things out, or of a shared file system.

An object is written aside, synced, and linked to its name; links are refused where the name exists.
All is done below the directory that was there at first. If another one has its path, such as an
empty one below a file system that was unmounted, what would be written there is not in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from storage_engine.replicated_log.bucket import BucketRefused, BucketUnreachable, Found, Version

_T = TypeVar("_T")
_ASIDE: Final = ".tmp"


class FileBucket:
    linger_ms = 2

    def __init__(self, root: Path) -> None:
        self._root = root
        self._identity: tuple[int, int] | None = None  # of the directory that was there at first

    async def get(self, name: str) -> Found | None:
        return await self._run(partial(_get, name))

    async def exists(self, name: str) -> bool:
        return await self._run(partial(_exists, name))

    async def put(self, name: str, content: bytes, *, version: Version | None) -> bool:
        return await self._run(partial(_put, name, content, version))

    async def delete(self, names: Sequence[str]) -> None:
        await self._run(partial(_delete, names))

    async def list_before(self, prefix: str, before: str) -> list[str]:
        names = await self._run(partial(_names, prefix))
        return sorted(name for name in names if name < before)

    async def _run(self, work: Callable[[int], _T]) -> _T:
        """``work``: given the directory's descriptor, below which it stays."""
        try:
            return await asyncio.to_thread(self._below_root, work)
        except PermissionError as exc:
            raise BucketRefused(f"{self._root}: {exc}") from exc
        except OSError as exc:
            raise BucketUnreachable(f"{self._root}: {exc}") from exc

    def _below_root(self, work: Callable[[int], _T]) -> _T:
        try:
            root = _open_directory(self._root)
        except (FileNotFoundError, NotADirectoryError) as exc:
            raise BucketRefused(f"{self._root} is no directory: create it, or mount it") from exc
        try:
            found = os.fstat(root)
            if self._identity is None:
                self._identity = found.st_dev, found.st_ino
            elif self._identity != (found.st_dev, found.st_ino):
                raise BucketRefused(
                    f"{self._root} is another directory than before: mount the file system again "
                    "that had it, or restart the engine if it is meant to be another one"
                )
            return work(root)
        finally:
            os.close(root)


# Each is given the descriptor of the bucket's directory ------------------------------------------


def _get(name: str, root: int) -> Found | None:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=root)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        content = file.read()
    return Found(content, (hashlib.sha256(content).hexdigest(), None))


def _exists(name: str, root: int) -> bool:
    try:
        os.stat(name, dir_fd=root)
    except FileNotFoundError:
        return False
    return True


def _delete(names: Sequence[str], root: int) -> None:
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=root)


def _names(prefix: str, root: int) -> list[str]:
    with _folder(prefix.strip("/"), root) as folder:
        return [prefix + name for name in os.listdir(folder)]


def _put(name: str, content: bytes, version: Version | None, root: int) -> bool:
    path, _, last = name.rpartition("/")
    aside = f"{last}.{secrets.token_hex(8)}{_ASIDE}"
    _make_folder(path, root)
    with _folder(path, root) as folder:
        try:
            descriptor = os.open(
                aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder
            )
            with open(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            if version is None:
                try:
                    os.link(aside, last, src_dir_fd=folder, dst_dir_fd=folder)
                except FileExistsError:
                    return False
            else:
                fcntl.flock(folder, fcntl.LOCK_EX)  # until it is closed
                found = _get(last, folder)
                if found is None or found.version != version:
                    return False
                os.replace(aside, last, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
            return True
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside, dir_fd=folder)


def _make_folder(path: str, root: int) -> None:
    """Durable on return, as far as it was missing."""
    if not path or _exists(path, root):
        return
    parent, _, _ = path.rpartition("/")
    _make_folder(parent, root)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, dir_fd=root)
    with _folder(parent, root) as folder:
        os.fsync(folder)


@contextlib.contextmanager
def _folder(path: str, root: int) -> Iterator[int]:
    """Opened; the bucket's own directory if ``path`` is empty."""
    opened = _open_directory(path or ".", dir_fd=root)
    try:
        yield opened
    finally:
        os.close(opened)


def _open_directory(path: str | Path, dir_fd: int | None = None) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
