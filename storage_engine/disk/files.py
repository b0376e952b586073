"""All file changes of the engine go through this module, so that tests can inject faults.

Real files: posix_fallocate, mmap, msync, rename. Every method maps the operating system's errors:
no room becomes ``DiskFull``, a sync that failed and EIO ``SyncFailed``; all else stays an OSError.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final

from storage_engine.disk.layout import TEMPORARY_SUFFIX
from storage_engine.errors import DiskFull, StoreError, SyncFailed

PAGE_BYTES: Final = mmap.PAGESIZE
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_MS_SYNC: Final = 4
_KEEP_SIZE: Final = 1
_MADV_POPULATE_WRITE: Final = 23  # Linux 5.14; older kernels answer EINVAL and nothing is lost

# mmap.flush and mmap.madvise of Python 3.11 keep the interpreter lock while the disk works; through
# ctypes the lock is released, and the event loop goes on.
_libc = ctypes.CDLL(None, use_errno=True)
_libc.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.mmap.restype = ctypes.c_void_p
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_FAILED: Final = ctypes.c_void_p(-1).value
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.syncfs.argtypes = [ctypes.c_int]
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


class Mapping:
    """One mapped file. ``view`` is the whole of it, writable where ``protection`` says so.

    Holds no file descriptor, unlike ``mmap.mmap`` of Python 3.11: a store has many thousand files.
    ``close`` lets go of it; the memory is unmapped when nobody uses a part of ``view`` any more.
    """

    __slots__ = ("_bytes", "address", "size_bytes", "view")

    address: int

    def __init__(self, descriptor: int, size_bytes: int, protection: int) -> None:
        if not size_bytes:  # the machine stopped while the file was being made
            self.address = self.size_bytes = 0
            self.view = self._bytes = memoryview(b"")
            return
        address = _libc.mmap(None, size_bytes, protection, mmap.MAP_SHARED, descriptor, 0)
        if address == _MAP_FAILED:
            code = ctypes.get_errno()
            raise OSError(code, f"mmap of {size_bytes} bytes: {os.strerror(code)}")
        self.address = address
        self.size_bytes = size_bytes
        mapped = _bytes_type(size_bytes).from_address(address)
        weakref.finalize(mapped, _libc.munmap, address, size_bytes).atexit = False
        self._bytes = memoryview(mapped)
        self.view = self._bytes.cast("B")

    def close(self) -> None:
        self.view.release()
        self._bytes.release()


@functools.cache
def _bytes_type(size_bytes: int) -> type[ctypes.Array[ctypes.c_ubyte]]:
    """An array type of that many bytes; a class of its own, so that weak references work."""
    return type(f"Bytes{size_bytes}", (ctypes.c_ubyte * size_bytes,), {})


class Files:
    """The operating system's files.

    ``reserve`` is asked for room when a file that must be written finds none: settles and
    checkpoints go on when the disk is full.
    """

    reserve: Callable[[], bool] | None = None
    _open_mode: int = os.O_RDWR
    _protection: int = mmap.PROT_READ | mmap.PROT_WRITE

    def make_dirs(self, path: Path, *, durable: bool = True) -> None:
        """Create a directory and its parents; their names are durable on return unless told
        otherwise.
        """
        if path.is_dir():
            return
        self.make_dirs(path.parent, durable=durable)
        try:
            path.mkdir(mode=0o700, exist_ok=True)
        except OSError as exc:
            raise _mapped(exc, path, "cannot create a directory") from exc
        if durable:
            self.sync_dir(path.parent)

    def create(
        self,
        path: Path,
        size_bytes: int,
        allocate_bytes: int,
        content: bytes | memoryview = b"",
        *,
        durable: bool = True,
    ) -> None:
        """A new file whose first ``allocate_bytes`` have disk behind them.

        It begins with ``content``; the rest is zeros. Made aside and renamed, so that a process
        that dies leaves none of the wrong size; one that is there already is replaced. Durable on
        return, which takes two fsyncs, unless told otherwise. Raises ``DiskFull`` and leaves no
        file.
        """
        aside = path.with_name(path.name + TEMPORARY_SUFFIX)
        try:
            aside.unlink(missing_ok=True)
            descriptor = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise _mapped(exc, path, "cannot create a file") from exc
        try:
            os.posix_fallocate(descriptor, 0, allocate_bytes)
            os.ftruncate(descriptor, size_bytes)
            _write_whole(descriptor, content)
            if durable:
                os.fsync(descriptor)
        except OSError as exc:
            aside.unlink(missing_ok=True)
            raise _mapped(exc, path, f"cannot allocate {allocate_bytes} bytes") from exc
        finally:
            os.close(descriptor)
        aside.replace(path)
        if durable:
            self.sync_dir(path.parent)

    def allocate(self, path: Path, offset: int, length_bytes: int) -> None:
        """Put disk behind part of a file, so that writing there through a map cannot fail."""
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.posix_fallocate(descriptor, offset, length_bytes)
        except OSError as exc:
            raise _mapped(exc, path, f"cannot allocate {length_bytes} bytes at {offset}") from exc
        finally:
            os.close(descriptor)

    def extend(self, path: Path, size_bytes: int) -> None:
        """Give a file that is shorter that many bytes, with zeros behind what it has; durable on
        return. Takes no disk.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, size_bytes)
            os.fsync(descriptor)
        except OSError as exc:
            raise _mapped(exc, path, f"cannot extend to {size_bytes} bytes") from exc
        finally:
            os.close(descriptor)

    def map(self, path: Path, size_bytes: int) -> Mapping:
        """The whole of an existing file, shared and writable."""
        descriptor = os.open(path, self._open_mode | os.O_CLOEXEC)
        try:
            return Mapping(descriptor, size_bytes, self._protection)
        finally:
            os.close(descriptor)

    def prefault(self, mapping: Mapping, offset: int, length_bytes: int) -> None:
        """Give pages their memory ahead of use. Only a help: does nothing where the kernel
        cannot.
        """
        start = offset - offset % PAGE_BYTES
        _libc.madvise(mapping.address + start, offset + length_bytes - start, _MADV_POPULATE_WRITE)

    def release_memory(self, mapping: Mapping, length_bytes: int) -> None:
        """Take the first pages of a map out of this process, only whole ones. The page cache keeps
        them, also what is not written yet, and a later touch maps them again. ``mapping`` must stay
        open meanwhile.
        """
        _libc.madvise(mapping.address, length_bytes & -PAGE_BYTES, mmap.MADV_DONTNEED)

    def disable_read_ahead(self, mapping: Mapping) -> None:
        """Let a page that is touched come alone, without those around it.

        For many files of which little is used: the kernel reads ahead as far as the disk is set to,
        8 MiB on some, and would take that much memory for the first unit of each.
        """
        _libc.madvise(mapping.address, mapping.size_bytes, mmap.MADV_RANDOM)

    def sync_map(self, mapping: Mapping, path: Path, offset: int, length_bytes: int) -> None:
        """Make part of a map durable; one msync, without the interpreter lock.

        Raises ``SyncFailed``: the pages may be lost although a second try would report success.
        """
        start = offset - offset % PAGE_BYTES
        if _libc.msync(mapping.address + start, offset + length_bytes - start, _MS_SYNC) != 0:
            code = ctypes.get_errno()
            raise SyncFailed(
                f"msync of {path} at {offset}, {length_bytes} bytes: {os.strerror(code)}"
            )

    def sync_path(self, path: Path) -> None:
        """Make all of a file durable that was written, through maps too; one fdatasync.

        Raises ``SyncFailed``.
        """
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.sync_file(descriptor, path)
        finally:
            os.close(descriptor)

    def sync_file_system(self, path: Path) -> None:
        """Make everything durable that was written to the file system of a directory; one syncfs.

        Quicker than many ``sync_path``. Raises ``SyncFailed`` (Linux 5.8; older ones say nothing).
        """
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _libc.syncfs(descriptor) != 0:
                raise SyncFailed(f"syncfs of {path}: {os.strerror(ctypes.get_errno())}")
        finally:
            os.close(descriptor)

    def sync_dir(self, path: Path) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as exc:
            raise SyncFailed(f"fsync of directory {path}: {exc.strerror}") from exc
        finally:
            os.close(descriptor)

    def replace(self, path: Path, content: bytes) -> None:
        """Give a file new content, all or nothing, durable on return: write aside, fsync,
        rename.
        """
        try:
            self._write_temporary(path, content)
        except DiskFull:
            if self.reserve is None or not self.reserve():
                raise
            self._write_temporary(path, content)
        self.sync_dir(path.parent)

    def _write_temporary(self, path: Path, content: bytes) -> None:
        aside = path.with_name(path.name + TEMPORARY_SUFFIX)
        try:
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                _write_whole(descriptor, content)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(aside, path)
        except OSError as exc:
            raise _mapped(exc, path, f"cannot write {len(content)} bytes") from exc

    def replace_or_overwrite(self, path: Path, content: bytes) -> None:
        """As ``replace``; without any room, in the room that the file has.

        For a few bytes, less than a disk's sector, of which a reader believes only what is whole.
        Raises ``DiskFull``: there is no such file yet, either.
        """
        try:
            self.replace(path, content)
        except DiskFull:
            if not path.exists():
                raise
            self.overwrite(path, content)

    def overwrite(self, path: Path, content: bytes) -> None:
        """Let a file that is larger hold nothing but ``content``, in the room that it has; synced.

        Not all or nothing: nobody may believe it meanwhile.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            _write_whole(descriptor, content)
            os.ftruncate(descriptor, len(content))
            os.fsync(descriptor)
        except OSError as exc:
            raise _mapped(exc, path, f"cannot overwrite {len(content)} bytes") from exc
        finally:
            os.close(descriptor)

    def write_at(
        self, path: Path, offset: int, content: bytes | memoryview, *, is_end: bool = False
    ) -> None:
        """Write into a file, to the page cache; ``is_end``: it ends behind that. Raises
        ``DiskFull``.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.lseek(descriptor, offset, os.SEEK_SET)
            _write_whole(descriptor, content)
            if is_end:
                os.ftruncate(descriptor, offset + len(content))
        except OSError as exc:
            raise _mapped(exc, path, f"cannot write {len(content)} bytes at {offset}") from exc
        finally:
            os.close(descriptor)

    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name, replacing what has it; durable once the directory is synced."""
        path.replace(to)

    def open_append(self, path: Path) -> int:
        """Descriptor of a file that is only ever appended to."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def preallocate(self, descriptor: int, length_bytes: int) -> None:
        """Put disk behind the next bytes that are appended, where there is some; no size changes.

        They find room then though the disk is full. Only a help: some file systems have no such
        thing.
        """
        end = os.fstat(descriptor).st_size
        _libc.fallocate(descriptor, _KEEP_SIZE, end, length_bytes)

    def append(self, descriptor: int, path: Path, content: bytes) -> None:
        """Append ``content`` whole, to the page cache; undone when there is no room for all of
        it.
        """
        try:
            self._append(descriptor, path, content)
        except DiskFull:
            if self.reserve is None or not self.reserve():
                raise
            self._append(descriptor, path, content)

    def _append(self, descriptor: int, path: Path, content: bytes) -> None:
        size_bytes = os.fstat(descriptor).st_size
        try:
            _write_whole(descriptor, content)
        except OSError as exc:
            os.ftruncate(descriptor, size_bytes)
            raise _mapped(exc, path, f"cannot append {len(content)} bytes") from exc

    def sync_file(self, descriptor: int, path: Path) -> None:
        """Make appended content durable; one fdatasync."""
        try:
            os.fdatasync(descriptor)
        except OSError as exc:
            raise SyncFailed(f"fdatasync of {path}: {exc.strerror}") from exc

    def data_ranges(self, path: Path, start: int, end: int) -> list[tuple[int, int]]:
        """Parts of ``[start, end)`` that may hold something else than zeros, in order.

        All of them before any is read: to ext4 what was read ahead beyond the last one is data too,
        so that a reader who asked as it went would follow its own pages to the end of the file. A
        file system that cannot tell gives the whole.
        """
        found: list[tuple[int, int]] = []
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while start < end:
                try:
                    start = os.lseek(descriptor, start, os.SEEK_DATA)
                except OSError as exc:
                    if exc.errno == errno.ENXIO:  # nothing but holes up to the end of the file
                        break
                    raise
                hole = os.lseek(descriptor, start, os.SEEK_HOLE)
                if start < end:
                    found.append((start, min(hole, end)))
                start = hole
        finally:
            os.close(descriptor)
        return found

    def medium_id(self, path: Path) -> str:
        """Changes when the machine was started anew, or the file system mounted anew.

        While it is the same, what was written through maps is still there after the process died.
        """
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            details = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
            boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return ""
        finally:
            os.close(descriptor)
        mount = next((line for line in details.splitlines() if line.startswith("mnt_id")), "")
        return f"{boot_id} {mount.split()[-1]}" if mount else ""

    def disk_usage(self, path: Path) -> tuple[int, int]:
        """(bytes of the file system, bytes of it that this user may still take)."""
        stat = os.statvfs(path)
        return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def drop_leftovers(self, *directories: Path) -> None:
        """Delete what a process that was killed was writing aside there."""
        for directory in directories:
            for path in directory.glob(f"*{TEMPORARY_SUFFIX}"):
                self.unlink(path)


class ReadOnlyFiles(Files):
    """For tools, which change nothing: maps of files that may not be theirs to write."""

    _open_mode = os.O_RDONLY
    _protection = mmap.PROT_READ


def _write_whole(descriptor: int, content: bytes | memoryview) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _mapped(exc: OSError, path: Path, what: str) -> StoreError | OSError:
    if exc.errno in _NO_ROOM:
        return DiskFull(f"{what} for {path}: {exc.strerror}")
    if exc.errno == errno.EIO:
        return SyncFailed(f"{what} for {path}: {exc.strerror}")
    return exc
