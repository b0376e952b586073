"""Watches one directory at the level of system calls and writes down what happens to it.

    engine ── os.open, os.write, mmap, msync, fsync, rename, … ──▶ [Recorder] ──▶ real files
                                                                       └──▶ operations

Below the engine's own door on purpose: what a method of ``Files`` forgets to do is then missing
here as it would be on a disk, and a crash may fall between any two of its steps. Writes through
maps are found by comparing pages before each operation. A model that follows must at any quiet
moment equal the directory; ``check`` says so, and catches a change that went around the recorder.

Faults: ``failures[call]`` makes that many next calls fail with EIO, ``is_full`` lets no file grow.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from storage_engine.disk import files as engine_files
from storage_engine.disk.mapped_file import MappedFile
from tests.storage_engine.crash.disk_model import (
    DIRECTORY,
    DiskModel,
    Names,
    Operation,
    Resize,
    Sync,
    SyncDir,
    Told,
    Write,
)

_CALLS: Final = (
    "open", "close", "write", "pwrite", "ftruncate", "posix_fallocate", "fsync", "fdatasync",
    "replace", "rename", "unlink", "mkdir", "rmdir",
)  # fmt: skip


class Recorder:
    """See the module's docstring. Use ``recording`` around all that shall be seen."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.operations: list[Operation] = []
        self.failures: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()
        self.is_full = False
        self.lock = threading.RLock()  # held by a workload: no sync begins meanwhile
        self.model = DiskModel()
        self._real: dict[str, Callable[..., Any]] = {  # Any: signatures of a dozen system calls
            name: getattr(os, name) for name in _CALLS
        }
        self._descriptors: dict[int, int] = {}
        self._directories: dict[int, str] = {}
        self._maps: list[tuple[int, int, int]] = []  # (address, bytes, node), newest last
        self._mapped: dict[int, int] = {}  # node → own descriptor to read it through

    # What a workload uses ---------------------------------------------------------------------

    def told(self, what: object) -> None:
        """Write down that somebody was told something just now."""
        with self.lock:
            self._take_map_writes()
            self._add(Told(what))

    def check(self) -> None:
        """The directory is what the recorded operations make of it."""
        with self.lock:
            self._take_map_writes()
            found = read_tree(Path(self.root))
            names = self.model.names
            assert found.keys() == names.keys(), sorted(found.keys() ^ names.keys())
            for path, content in found.items():
                if content is not None:
                    known = bytes(self.model.nodes[names[path]].content)
                    assert content == known, f"{path} changed unseen"

    @contextmanager
    def recording(self) -> Iterator[None]:
        """All system calls on the directory are seen inside."""
        self.model.load(read_tree(Path(self.root)))
        libc: Any = engine_files._libc  # Any: a CDLL's functions have no types
        self._map_real, self._msync_real = libc.mmap, libc.msync
        self._syncfs_real = libc.syncfs
        rewrite = MappedFile.rewrite
        hooks: dict[str, Callable[..., Any]] = {  # Any: see above
            name: getattr(self, f"_{name}") for name in _CALLS
        }
        try:
            for name, hook in hooks.items():
                setattr(os, name, hook)
            libc.mmap, libc.msync, libc.syncfs = self._mmap, self._msync, self._syncfs
            MappedFile.rewrite = self._rewriting(rewrite)  # type: ignore[method-assign,assignment] # seen
            yield
        finally:
            for name, real in self._real.items():
                setattr(os, name, real)
            libc.mmap, libc.msync = self._map_real, self._msync_real
            libc.syncfs = self._syncfs_real
            MappedFile.rewrite = rewrite  # type: ignore[method-assign] # as it was
            for descriptor in self._mapped.values():
                os.close(descriptor)
            self._mapped.clear()

    # Seeing -----------------------------------------------------------------------------------

    def _add(self, operation: Operation) -> None:
        self.operations.append(operation)
        self.model.apply(operation)

    def _take_map_writes(self) -> None:
        for node_id, descriptor in self._mapped.items():
            known = self.model.nodes[node_id].content
            now = os.pread(descriptor, len(known), 0)
            if now != known:
                for start, end in _differing(bytes(known), now):
                    self._add(Write(node_id, start, now[start:end]))

    def _rewriting(
        self, real: Callable[[MappedFile, int, int], None]
    ) -> Callable[[MappedFile, int, int], None]:
        """Writing the same bytes again makes pages dirty, which comparing cannot see."""

        def rewrite(file: MappedFile, start: int, end: int) -> None:
            with self.lock:
                self._take_map_writes()
                node_id = self.model.names[str(file.path)]
                content = bytes(self.model.nodes[node_id].content[start:end])
                for at in range(0, len(content), mmap.PAGESIZE):
                    self._add(Write(node_id, start + at, content[at : at + mmap.PAGESIZE]))
            real(file, start, end)

        return rewrite

    def _inside(self, path: object) -> str | None:
        if isinstance(path, int):
            return None
        text = os.fspath(path)  # type: ignore[call-overload] # what os functions take
        if isinstance(text, str) and (text + "/").startswith(self.root + "/"):
            return text
        return None

    def _fail(self, call: str) -> None:
        if self.failures[call] > 0:
            self.failures[call] -= 1
            self.fired[f"{call} EIO"] += 1
            raise OSError(errno.EIO, f"injected into {call}")

    def _refuse_growth(self, call: str) -> None:
        if self.is_full:
            self.fired[f"{call} ENOSPC"] += 1
            raise OSError(errno.ENOSPC, f"injected into {call}")

    # System calls -----------------------------------------------------------------------------

    def _open(self, path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:  # Any: as os
        inside = self._inside(path)
        if inside is None:
            return int(self._real["open"](path, flags, mode, **more))
        with self.lock:
            self._take_map_writes()
            is_new = inside not in self.model.names
            descriptor = int(self._real["open"](path, flags, mode, **more))
            if is_new and flags & os.O_CREAT:
                self._add(Names(((inside, len(self.model.nodes) + 1),), ()))
            node_id = self.model.names.get(inside, DIRECTORY)
            if node_id == DIRECTORY:
                self._directories[descriptor] = inside
            else:
                self._descriptors[descriptor] = node_id
                if flags & os.O_TRUNC and self.model.nodes[node_id].content:
                    self._add(Resize(node_id, 0))
            return descriptor

    def _close(self, descriptor: int) -> None:
        with self.lock:
            self._descriptors.pop(descriptor, None)
            self._directories.pop(descriptor, None)
            self._real["close"](descriptor)

    def _write(self, descriptor: int, content: bytes) -> int:
        node_id = self._descriptors.get(descriptor)
        if node_id is None:
            return int(self._real["write"](descriptor, content))
        with self.lock:
            self._take_map_writes()
            self._refuse_growth("write")
            self._fail("write")
            written = int(self._real["write"](descriptor, content))
            at = os.lseek(descriptor, 0, os.SEEK_CUR) - written
            self._add(Write(node_id, at, bytes(content[:written])))
            return written

    def _pwrite(self, descriptor: int, content: bytes, at: int) -> int:
        node_id = self._descriptors.get(descriptor)
        if node_id is None:
            return int(self._real["pwrite"](descriptor, content, at))
        with self.lock:
            self._take_map_writes()
            self._refuse_growth("pwrite")
            written = int(self._real["pwrite"](descriptor, content, at))
            self._add(Write(node_id, at, bytes(content[:written])))
            return written

    def _ftruncate(self, descriptor: int, size_bytes: int) -> None:
        node_id = self._descriptors.get(descriptor)
        with self.lock:
            self._take_map_writes()
            self._real["ftruncate"](descriptor, size_bytes)
            if node_id is not None and len(self.model.nodes[node_id].content) != size_bytes:
                self._add(Resize(node_id, size_bytes))

    def _posix_fallocate(self, descriptor: int, offset: int, length_bytes: int) -> None:
        node_id = self._descriptors.get(descriptor)
        if node_id is not None:
            self._refuse_growth("fallocate")
            self._fail("fallocate")
        with self.lock:
            self._take_map_writes()
            self._real["posix_fallocate"](descriptor, offset, length_bytes)
            if node_id is not None and offset + length_bytes > len(
                self.model.nodes[node_id].content
            ):
                self._add(Resize(node_id, offset + length_bytes))

    def _fsync(self, descriptor: int) -> None:
        self._sync_whole("fsync", descriptor)

    def _fdatasync(self, descriptor: int) -> None:
        self._sync_whole("fdatasync", descriptor)

    def _sync_whole(self, call: str, descriptor: int) -> None:
        node_id = self._descriptors.get(descriptor)
        directory = self._directories.get(descriptor)
        with self.lock:
            self._take_map_writes()
            if directory is not None:
                self._fail("fsync of a directory")
                self._add(SyncDir(directory))
            elif node_id is not None:
                end = len(self.model.nodes[node_id].content)
                try:
                    self._fail(call)
                except OSError:
                    self._add(Sync(node_id, 0, end, has_failed=True))
                    raise
                self._add(Sync(node_id, 0, end))

    def _replace(self, path: Any, to: Any, **more: Any) -> None:  # Any: as os
        inside, target = self._inside(path), self._inside(to)
        with self.lock:
            self._take_map_writes()
            if inside is not None:
                self._fail("rename")
            self._real["replace"](path, to, **more)
            if inside is not None and target is not None:
                node_id = self.model.names[inside]
                self._add(Names(((target, node_id),), (inside,)))

    _rename = _replace

    def _unlink(self, path: Any, **more: Any) -> None:  # Any: as os
        with self.lock:
            self._take_map_writes()
            self._real["unlink"](path, **more)
            inside = self._inside(path)
            if inside is not None and not more:
                self._add(Names((), (inside,)))

    def _mkdir(self, path: Any, mode: int = 0o777, **more: Any) -> None:  # Any: as os
        with self.lock:
            self._take_map_writes()
            inside = self._inside(path)
            self._real["mkdir"](path, mode, **more)
            if inside is not None:
                self._add(Names(((inside, DIRECTORY),), ()))

    def _rmdir(self, path: Any, **more: Any) -> None:  # Any: as os
        with self.lock:
            self._real["rmdir"](path, **more)
            inside = self._inside(path)
            if inside is not None and not more:
                self._add(Names((), (inside,)))

    def _mmap(
        self, hint: None, length_bytes: int, protection: int, flags: int, descriptor: int, at: int
    ) -> int:
        with self.lock:
            self._take_map_writes()
            address = int(self._map_real(hint, length_bytes, protection, flags, descriptor, at))
            node_id = self._descriptors.get(descriptor)
            if node_id is not None:
                assert at == 0
                self._maps.append((address, length_bytes, node_id))
                if node_id not in self._mapped:
                    self._mapped[node_id] = os.dup(descriptor)
            return address

    def _msync(self, address: int, length_bytes: int, flags: int) -> int:
        with self.lock:
            self._take_map_writes()
            for start, size_bytes, node_id in reversed(self._maps):
                if start <= address < start + size_bytes:
                    try:
                        self._fail("msync")
                    except OSError as exc:
                        at = address - start
                        self._add(Sync(node_id, at, at + length_bytes, has_failed=True))
                        ctypes.set_errno(exc.errno or errno.EIO)
                        return -1
                    at = address - start
                    self._add(Sync(node_id, at, at + length_bytes))
                    return 0
        return int(self._msync_real(address, length_bytes, flags))

    def _syncfs(self, descriptor: int) -> int:
        with self.lock:
            self._take_map_writes()
            try:
                self._fail("syncfs")
            except OSError as exc:
                ctypes.set_errno(exc.errno or errno.EIO)
                return -1
            for node_id, node in self.model.nodes.items():
                self._add(Sync(node_id, 0, len(node.content)))
            for path in [self.root, *self.model.names]:
                if self.model.names.get(path, DIRECTORY) == DIRECTORY:
                    self._add(SyncDir(path))
            return 0


def read_tree(root: Path) -> dict[str, bytes | None]:
    """Every path below ``root`` with its content; None for directories."""
    tree: dict[str, bytes | None] = {}
    _read_into(tree, str(root))
    return tree


def _read_into(tree: dict[str, bytes | None], directory: str) -> None:
    # Strings instead of paths: this runs four times for each of tens of thousands of states.
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir():
                tree[entry.path] = None
                _read_into(tree, entry.path)
            else:
                with open(entry.path, "rb", buffering=0) as file:
                    tree[entry.path] = file.readall()


def _differing(known: bytes, now: bytes) -> Iterator[tuple[int, int]]:
    """Pages that differ, each cut to its first and last changed byte; neighbours apart."""
    for start in range(0, len(now), mmap.PAGESIZE):
        old, new = known[start : start + mmap.PAGESIZE], now[start : start + mmap.PAGESIZE]
        if old == new:
            continue
        first = next(i for i in range(len(new)) if old[i : i + 1] != new[i : i + 1])
        last = next(i for i in range(len(new) - 1, -1, -1) if old[i : i + 1] != new[i : i + 1])
        yield start + first, start + last + 1
