"""Names of everything under the data directory, and the lock that gives it one owner.

restoring        while a backup is brought back or a store imported
lock             flock held by the running supervisor; its text is the owner's pid
secrets.toml     0600, made once          ports.json       remembered ports
quickstart.json  0600, facts of this run  log/NAME.log     output of each process
store/ pg/ valkey/ shards/NAME/           one directory for each program that keeps data
run/engine.sock  the engine's socket; under /tmp when the path is too long for a unix socket
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import IO, Final

from mqservice.lib.names import MAIN_SHARD
from mqservice.supervisor.errors import ConfigInvalid, DataDirInUse

SOCKET_PATH_BYTES_MAX: Final = 100  # sun_path holds 108 with its end mark; some tools add a suffix
LOCK_ATTEMPTS_MAX: Final = 5  # `status` holds the lock for an instant when nobody runs
LOCK_RETRY_WAIT_MS: Final = 50
MIB: Final = 1024 * 1024
DATABASES_BYTES: Final = 128 * MIB  # PostgreSQL's empty tables take half of it
SEGMENT_BYTES: Final = 1024 * MIB  # of the log, as the engine has it; the first message takes all


class DataDir:
    """Paths only; nothing is read or made before ``create``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = path / "lock"
        self.secrets = path / "secrets.toml"
        self.ports = path / "ports.json"
        # There while a backup is brought back or a store imported, and after one that was killed;
        # its text is the command that does so.
        self.restoring = path / "restoring"
        self.quickstart = path / "quickstart.json"
        self.logs = path / "log"
        self.mail = path / "mail"  # where there is no mail server: links that set passwords
        self.store = path / "store"
        self.shards = path / "shards"  # a directory for each further shard of this machine
        self.postgres = path / "pg"
        self.valkey = path / "valkey"
        # For sockets: a short private directory under /tmp where the path would be too long.
        self.run = path / "run"
        if len(os.fsencode(self.run / "engine.sock")) > SOCKET_PATH_BYTES_MAX:
            digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
            self.run = Path("/tmp") / f"mqservice-{os.getuid()}-{digest}"
        self.engine_socket = self.run / "engine.sock"

    def socket_of(self, shard: str) -> Path:
        """Of the engine of one of several shards of this machine."""
        return self.engine_socket if shard == MAIN_SHARD else self.run / f"{shard}.sock"

    def control_of(self, shard: str) -> Path:
        """Where the process of a shard that has a replicated log is told what to be."""
        return self.run / f"{shard}.control"

    def create(self, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Makes the directories, private to this user; what is open to others is closed to them.

        A first start needs room for a segment of the log beside the databases. Only a mounted
        volume that somebody else owns stays as it is: what is made in it is private.

        Raises ConfigInvalid when the place cannot be written, has no room for a first start, holds
        something else, or the short directory is not ours.
        """
        try:
            if self.restoring.exists():
                command = self.restoring.read_text(encoding="utf-8") or "backup restore"
                raise ConfigInvalid(
                    f"{self.path} is incomplete: wait until `mqservice {command}` has "
                    "finished, or run it again."
                )
            if self.path.exists() and not self.path.is_dir():
                raise ConfigInvalid(
                    f"{self.path} is a file. Set MQ_DATA_DIR to a directory, or to a path where "
                    "one can be created."
                )
            if self.path.is_dir() and not self.lock.is_file() and any(self.path.iterdir()):
                raise ConfigInvalid(
                    f"{self.path} is not empty and not a data directory of this "
                    "service. Set MQ_DATA_DIR to an empty or new directory."
                )
            if not self.secrets.exists():
                self._check_room(DATABASES_BYTES + segment_bytes)
            for directory in (self.path, self.logs, self.store, self.mail, self.run):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for directory in (self.path, self.logs, self.store, self.mail):
                close_to_others(directory, owner=os.geteuid())
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise ConfigInvalid(
                f"Cannot use the data directory {self.path}: {error.strerror}. Set MQ_DATA_DIR to "
                "a directory that this user can write."
            ) from error
        owner = self.run.lstat().st_uid
        if owner != os.getuid() and self.run.parent == self.path:
            raise ConfigInvalid(
                f"{self.path} is the data directory of user {owner}, not of {os.getuid()}: start "
                "the service as the user that made it, or set MQ_DATA_DIR to another directory."
            )
        if owner != os.getuid() or self.run.is_symlink():
            # Anybody may have made that name in /tmp first; a socket in it would be theirs.
            raise ConfigInvalid(f"{self.run} belongs to another user; remove it and start again.")

    def _check_room(self, needed_bytes: int) -> None:
        """Raises ConfigInvalid where the disk is too full for a first start."""
        place = next(each for each in (self.path, *self.path.parents) if each.exists())
        free_bytes = shutil.disk_usage(place).free
        if free_bytes < needed_bytes and os.access(place, os.W_OK):
            raise ConfigInvalid(
                f"The disk of {self.path} has {free_bytes // MIB} MiB free; a first start needs "
                f"{needed_bytes // MIB} MiB. Make room, or set MQ_DATA_DIR to a directory "
                "on another disk."
            )


def close_to_others(directory: Path, *, owner: int) -> None:
    """Mode 0700, unless it belongs to somebody else than ``owner``."""
    found = directory.stat()
    if found.st_uid == owner and stat.S_IMODE(found.st_mode) & 0o077:
        directory.chmod(0o700)


class DataDirLock:
    """The flock on ``lock``. The kernel drops it when the owner dies, however it dies."""

    def __init__(self, data_dir: DataDir) -> None:
        self._data_dir = data_dir
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Raises DataDirInUse, naming the owner's pid. Waits a quarter of a second at most."""
        assert self._file is None, "a lock is acquired once"
        file = self._data_dir.lock.open("a+", encoding="ascii")
        for attempt in range(LOCK_ATTEMPTS_MAX):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if attempt == LOCK_ATTEMPTS_MAX - 1:
                    pid = _pid_in(file)
                    file.close()
                    raise DataDirInUse(self._data_dir.path, pid) from None
                time.sleep(LOCK_RETRY_WAIT_MS / 1000)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None


def find_owner_pid(data_dir: DataDir) -> int | None:
    """Pid of the supervisor that owns the directory, or None when nobody runs."""
    try:
        file = data_dir.lock.open("r", encoding="ascii")
    except FileNotFoundError:
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _pid_in(file)
        return None


def write_private(path: Path, text: str) -> None:
    """Replaces ``path`` by ``text`` in one step, mode 0600. One fsync."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _pid_in(file: IO[str]) -> int | None:
    file.seek(0)
    text = file.read(32).strip()
    return int(text) if text.isascii() and text.isdigit() else None
