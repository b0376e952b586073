"""A bucket that is a directory: of this machine, for trying things out, or of a shared file system.

An object is written aside, synced, and linked to its name; links are refused where the name exists.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from storage_engine.replicated_log.bucket import BucketRefused, BucketUnreachable, Found, Version

_T = TypeVar("_T")
_ASIDE: Final = ".tmp"


class FileBucket:
    linger_ms = 2

    def __init__(self, root: Path) -> None:
        self._root = root

    async def get(self, name: str) -> Found | None:
        return await self._run(lambda: self._get(name))

    async def exists(self, name: str) -> bool:
        return await self._run((self._root / name).exists)

    async def put(self, name: str, content: bytes, *, version: Version | None) -> bool:
        return await self._run(lambda: self._put(name, content, version))

    async def delete(self, names: Sequence[str]) -> None:
        def delete_all() -> None:
            for name in names:
                (self._root / name).unlink(missing_ok=True)

        await self._run(delete_all)

    async def list_before(self, prefix: str, before: str) -> list[str]:
        def names() -> list[str]:
            return [prefix + name for name in os.listdir(self._root / prefix)]

        return sorted(name for name in await self._run(names) if name < before)

    async def _run(self, work: Callable[[], _T]) -> _T:
        def checked() -> _T:
            if not self._root.is_dir():
                raise BucketRefused(f"{self._root} is no directory: create it, or mount it")
            return work()

        try:
            return await asyncio.to_thread(checked)
        except PermissionError as exc:
            raise BucketRefused(f"{self._root}: {exc}") from exc
        except OSError as exc:
            raise BucketUnreachable(f"{self._root}: {exc}") from exc

    def _get(self, name: str) -> Found | None:
        try:
            content = (self._root / name).read_bytes()
        except FileNotFoundError:
            return None
        return Found(content, (hashlib.sha256(content).hexdigest(), None))

    def _put(self, name: str, content: bytes, version: Version | None) -> bool:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}{_ASIDE}")
        try:
            with aside.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            with _directory(path.parent) as directory:
                if version is None:
                    try:
                        os.link(aside, path)
                    except FileExistsError:
                        return False
                else:
                    fcntl.flock(directory, fcntl.LOCK_EX)  # until it is closed
                    found = self._get(name)
                    if found is None or found.version != version:
                        return False
                    os.replace(aside, path)
                os.fsync(directory)
            return True
        finally:
            aside.unlink(missing_ok=True)


@contextlib.contextmanager
def _directory(path: Path) -> Iterator[int]:
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield opened
    finally:
        os.close(opened)
