"""PostgreSQL's part of a backup: one snapshot, dumped, and restored in one transaction.

    [frozen_database] ─ topics and groups locked ──▶ the moment, by a snapshot's name ──▶ pg_dump
    pg_restore ──▶ BEGIN … stamp COMMIT ──▶ psql ──▶ an empty database

The stamp, a table that names the backup, stays until the restore is at its end, or the tables are
brought to a version, which is what every start begins with. With it a restore that was killed
behind its COMMIT knows the database as its own.

Whoever changes a topic or a group tells the engine inside the transaction that changes its row.
While both tables are locked nobody is half-way, and the engine's tables say what the rows say.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from mqservice.backups.errors import BackupError, BackupRejected
from mqservice.lib.names import MAIN_SHARD
from mqservice.lib.restore_stamp import FORGET, STAMP_TABLE
from mqservice.supervisor.binaries import PostgresClients
from mqservice.supervisor.child import die_with_parent

LOCKED_TABLES: Final = ("topics_topic", "groups_consumergroup")
LOCK_WAIT_MS: Final = 10_000
CONNECT_TIMEOUT_S: Final = 10
PIECE_BYTES: Final = 64 * 1024
_HEADER_LINES: Final = 60  # of a dump as SQL: its settings, long before the first row
_SETTING_SINCE_17: Final = b"SET transaction_timeout = 0;\n"
_OWN_SETTING_VERSION: Final = 17
_IN_DATABASE: Final = """
    SELECT count(*) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'v', 'm', 'S') AND nspname NOT LIKE 'pg\\_%'
        AND nspname <> 'information_schema'
"""


_STAMPED: Final = f"""
{FORGET};
CREATE TABLE {STAMP_TABLE} (backup text NOT NULL);
INSERT INTO {STAMP_TABLE} VALUES ('{{}}');
"""


@dataclass(frozen=True, slots=True)
class FrozenDatabase:
    """A state of the database that pg_dump can see, while the context that gave it is open."""

    snapshot: str
    unlocking: psycopg.Connection

    def unlock(self) -> None:
        """Let topics and groups change again; the moment stays."""
        self.unlocking.rollback()


def server_version(url: str) -> int:
    """Major version of the server. Raises BackupRejected: nobody answers there."""
    with _connected(url) as connection:
        return connection.info.server_version // 10_000


@contextlib.contextmanager
def frozen_database(url: str) -> Iterator[FrozenDatabase]:
    """A moment of the database in which no topic or group is being changed.

    Until ``unlock`` changes of those wait. Raises BackupRejected, BackupError.
    """
    with _connected(url) as locking, _connected(url) as holding:
        try:
            locking.execute(f"SET lock_timeout = {LOCK_WAIT_MS}")
            locking.execute(f"LOCK TABLE {', '.join(LOCKED_TABLES)} IN SHARE MODE")
            holding.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            row = holding.execute("SELECT pg_export_snapshot()").fetchone()
        except psycopg.errors.UndefinedTable as error:
            raise BackupRejected(
                f"the database has no tables of this service: {error.diag.message_primary}"
            ) from error
        except psycopg.Error as error:
            raise BackupError(f"the database could not be locked for the dump: {error}") from error
        assert row is not None
        yield FrozenDatabase(row[0], locking)


def start_dump(clients: PostgresClients, url: str, snapshot: str, target: Path) -> ClientProgram:
    """pg_dump of a moment into ``target``, under way."""
    return ClientProgram(
        clients.pg_dump,
        [
            "--format=custom",
            "--no-owner",
            "--no-privileges",
            "--no-password",
            f"--snapshot={snapshot}",
            f"--file={target}",
        ],
        url,
    )


class ClientProgram:
    """One of PostgreSQL's client programs, under way; ``kill`` may come at any time."""

    def __init__(self, path: Path, arguments: list[str], url: str) -> None:
        self._name = path.name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by ``end``
        parent = os.getpid()
        self.process = subprocess.Popen(
            [str(path), *arguments],
            env=_environment(url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            preexec_fn=lambda: die_with_parent(parent),
        )

    def finish(self) -> None:
        """Waits until it has ended. Raises BackupError with its last words."""
        if self.process.wait() != 0:
            self._errors.seek(0)
            said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            raise BackupError(f"{self._name} failed: {said[-1] if said else 'with no output'}")

    def kill(self) -> None:
        """Kills it if it has not ended."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout, self._errors):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.process.wait()


def other_shards(url: str) -> list[str]:
    """Those of the installation besides the main one, in order. Raises BackupRejected: nobody
    answers there.
    """
    with _connected(url) as connection:
        if connection.execute("SELECT to_regclass('shards_shard')").fetchone() == (None,):
            return []
        found = connection.execute(
            "SELECT name FROM shards_shard WHERE name <> %s ORDER BY name", [MAIN_SHARD]
        )
        return [str(name) for (name,) in found]


def require_one_shard(url: str) -> None:
    """Raises BackupRejected where other engines have a part of the messages: a backup without them
    would look whole.
    """
    names = other_shards(url)
    if names:
        raise BackupRejected(
            "a backup has the store of one engine, and would lack the messages of the other shards "
            f"here: {', '.join(names)}. Nothing was done. With a replicated log its bucket has all "
            "messages: back up PostgreSQL with pg_dump. Without one, stop the service, and copy "
            "the data directory of each machine and the database"
        )


def require_empty(url: str) -> None:
    """Raises BackupRejected: there is something in the database."""
    with _connected(url) as connection:
        row = connection.execute(_IN_DATABASE.encode()).fetchone()
    if row is None or row[0]:
        name = conninfo_to_dict(url).get("dbname")
        was_restored = " by a restore of another backup" if restored_from(url) else ""
        raise BackupRejected(
            f"the database {name!r} is not empty, it was filled{was_restored}: create "
            "another one and name it in DATABASE_URL, or drop this one and create it "
            "again"
        )


def restored_from(url: str) -> str | None:
    """Of which backup the database is, where a restore filled it and did not come to its end."""
    with _connected(url) as connection:
        row = connection.execute("SELECT to_regclass(%s)::text", (STAMP_TABLE,)).fetchone()
        if row is None or row[0] is None:
            return None
        row = connection.execute(f"SELECT backup FROM {STAMP_TABLE}".encode()).fetchone()
    return None if row is None else str(row[0])


def forget_restore(url: str) -> None:
    """Take the stamp away: the restore is at its end."""
    with _connected(url) as connection:
        connection.execute(FORGET.encode())
        connection.commit()


def check_dump(clients: PostgresClients, dump: Path) -> str:
    """What is wrong with the dump as a file of pg_dump's; empty when nothing is."""
    done = subprocess.run(
        [clients.pg_restore, "--list", dump],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stderr.decode("utf-8", "replace").strip()


def restore(clients: PostgresClients, url: str, dump: Path, *, stamp: str) -> None:
    """Bring a dump back into an empty database, all of it or nothing. Raises BackupError.

    ``stamp``: which backup this is, in hex digits; see ``restored_from``.
    """
    assert stamp.isalnum()
    is_old = server_version(url) < _OWN_SETTING_VERSION
    reading = ClientProgram(
        clients.pg_restore, ["--no-owner", "--no-privileges", "--file=-", str(dump)], url
    )
    writing = ClientProgram(
        clients.psql,
        [
            "--no-psqlrc",
            "--quiet",
            "--no-password",
            "--set=ON_ERROR_STOP=1",
            "--output=/dev/null",
        ],
        url,
    )
    source, target = reading.process.stdout, writing.process.stdin
    assert source is not None
    assert target is not None
    try:
        # Not psql's own --single-transaction: that commits whatever ends, were it by our death.
        if _forward_script(source, target, is_old=is_old):
            reading.finish()
            with contextlib.suppress(BrokenPipeError):
                target.write(_STAMPED.format(stamp).encode())
                target.write(b"COMMIT;\n")
                target.close()
        writing.finish()
    finally:
        reading.kill()
        writing.kill()


def _forward_script(source: IO[bytes], target: IO[bytes], *, is_old: bool) -> bool:
    """A script from one to the other, without a setting that old servers do not know.

    False when the target has ended before it had all.
    """
    try:
        target.write(b"BEGIN;\n")
        for _ in range(_HEADER_LINES):
            line = source.readline()
            if not (is_old and line == _SETTING_SINCE_17):
                target.write(line)
        while piece := source.read(PIECE_BYTES):
            target.write(piece)
        target.flush()
    except BrokenPipeError:
        return False
    return True


def _environment(url: str) -> Mapping[str, str]:
    """What tells libpq where to go, without the password on a command line."""
    names = {
        "host": "PGHOST",
        "port": "PGPORT",
        "user": "PGUSER",
        "password": "PGPASSWORD",
        "dbname": "PGDATABASE",
        "sslmode": "PGSSLMODE",
        "sslrootcert": "PGSSLROOTCERT",
        "sslcert": "PGSSLCERT",
        "sslkey": "PGSSLKEY",
    }
    told = conninfo_to_dict(url)
    given = {names[name]: str(value) for name, value in told.items() if name in names and value}
    base = {name: os.environ[name] for name in ("PATH", "HOME", "TZ") if name in os.environ}
    return {**base, "LC_ALL": "C.UTF-8", "PGCLIENTENCODING": "UTF8", **given}


@contextlib.contextmanager
def _connected(url: str) -> Iterator[psycopg.Connection]:
    try:
        connection = psycopg.connect(url, connect_timeout=CONNECT_TIMEOUT_S)
    except psycopg.OperationalError as error:
        raise BackupRejected(f"the database is not responding: {error}") from error
    with contextlib.closing(connection):
        yield connection
