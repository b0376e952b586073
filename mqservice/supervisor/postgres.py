"""The embedded PostgreSQL: created once, run as a child, reached by password over loopback.

    first start   pg.new/data ◀── initdb ── then renamed to pg/: never a half-made cluster
    every start   stale postmaster? ──▶ postgres -D /proc/self/cwd ──▶ role and database

The server gets its directory as ``/proc/self/cwd``: it is put there before it changes to its
account, so it needs no right on the directories above, and the data may live below a private home.
No unix socket is opened; every connection has to know a password.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from mqservice.lib.known_migrations import version_problem
from mqservice.supervisor.binaries import Account, PostgresPrograms
from mqservice.supervisor.child import ChildSpec, die_with_parent
from mqservice.supervisor.data_dir import close_to_others
from mqservice.supervisor.errors import ConfigInvalid, StartFailed
from mqservice.supervisor.ports import LOOPBACK
from mqservice.supervisor.readiness import is_postgres_ready

OWN_DIRECTORY: Final = "/proc/self/cwd"
SUPERUSER: Final = "postgres"
ROLE: Final = "mqservice"
DATABASE: Final = "mqservice"
INITDB_TIMEOUT_S: Final = 120
ORPHAN_WAIT_MS: Final = 15_000
POLL_WAIT_S: Final = 0.05
CONNECT_TIMEOUT_S: Final = 5


def service_url(password: str, port: int) -> str:
    """Where the service finds the embedded server."""
    return f"postgresql://{ROLE}:{password}@{LOOPBACK}:{port}/{DATABASE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresServer:
    """One cluster in ``directory``, listening on the loopback ``port``."""

    directory: Path
    port: int
    programs: PostgresPrograms
    account: Account | None
    admin_password: str
    password: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """For the service: owner of its database, not a superuser."""
        return service_url(self.password, self.port)

    @property
    def admin_url(self) -> str:
        return f"postgresql://{SUPERUSER}:{self.admin_password}@{LOOPBACK}:{self.port}/postgres"

    def prepare(self) -> None:
        """Makes the cluster on the first start and clears what a killed server left; takes seconds.

        Raises StartFailed when initdb fails, ConfigInvalid when somebody else owns the directory or
        another PostgreSQL made it.
        """
        if not self.directory.exists():
            self._create_cluster()
        owner = self.directory.stat().st_uid
        expected = os.geteuid() if self.account is None else self.account.uid
        if owner != expected:
            raise ConfigInvalid(
                f"{self.directory} belongs to user {owner}, but the server would run "
                f"as {expected}: start the service as the user that created the data "
                "directory."
            )
        self._check_version()
        close_to_others(self.directory, owner=expected)
        self._end_orphan()

    def child_spec(self, env: Mapping[str, str]) -> ChildSpec:
        """How to run the server; a fast shutdown on stop, an immediate one when orphaned."""

        async def gate(pid: int) -> bool:
            return await is_postgres_ready(self.admin_url)

        settings = {
            "listen_addresses": LOOPBACK,
            "port": str(self.port),
            "unix_socket_directories": "",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "max_connections": "100",
            **self.settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return ChildSpec(
            name="postgres",
            argv=(str(self.programs.postgres), "-D", OWN_DIRECTORY, *options),
            env={"PATH": env.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
            gate=gate,
            cwd=self.directory,
            account=self.account,
            is_fatal=True,
            is_echoed=False,
            stop_signal=signal.SIGINT,
            stop_timeout_ms=30_000,
            # Killing the postmaster alone would leave its backends holding the shared memory.
            orphan_signal=signal.SIGQUIT,
        )

    async def ensure_database(self) -> None:
        """Creates the service's role and database unless they exist; sets the password."""
        connection = await psycopg.AsyncConnection.connect(
            self.admin_url, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S
        )
        async with connection:
            role, database = sql.Identifier(ROLE), sql.Identifier(DATABASE)
            found = await connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,))
            # CREATEDB, because the tests make a database of their own beside this one.
            verb = sql.SQL("CREATE" if await found.fetchone() is None else "ALTER")
            await connection.execute(
                sql.SQL("{} ROLE {} LOGIN CREATEDB PASSWORD {}").format(
                    verb, role, sql.Literal(self.password)
                )
            )
            found = await connection.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)
            )
            if await found.fetchone() is None:
                await connection.execute(
                    sql.SQL("CREATE DATABASE {} OWNER {}").format(database, role)
                )

    def _create_cluster(self) -> None:
        if self.account is None:
            check_own_name()
        fresh = self.directory.with_name(self.directory.name + ".new")
        if fresh.exists():
            shutil.rmtree(fresh)  # an initdb that was interrupted
        data = fresh / "data"
        for directory in (fresh, data):
            directory.mkdir(mode=0o700)
        password_file = fresh / "password"
        password_file.write_text(self.admin_password + "\n", encoding="ascii")
        password_file.chmod(0o600)
        switch: dict[str, object] = {}
        if self.account is not None:
            for path in (password_file, data, fresh):
                os.chown(path, self.account.uid, self.account.gid)
            switch = {"user": self.account.uid, "group": self.account.gid, "extra_groups": []}
        argv = [
            str(self.programs.initdb),
            f"--pgdata={OWN_DIRECTORY}",
            f"--pwfile={OWN_DIRECTORY}/../password",
            f"--username={SUPERUSER}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            *(["--no-sync"] if self.settings.get("fsync") == "off" else []),
        ]
        parent = os.getpid()
        done = subprocess.run(  # type: ignore[call-overload]  # the stub wants all keywords
            argv,
            cwd=data,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INITDB_TIMEOUT_S,
            check=False,
            # The next start removes what it was making, and must be alone with it.
            preexec_fn=lambda: die_with_parent(parent),
            **switch,
        )
        if done.returncode != 0:
            shutil.rmtree(fresh)
            raise StartFailed(f"initdb ended with exit code {done.returncode}:\n{done.stdout}")
        data.rename(self.directory)
        shutil.rmtree(fresh)

    def _check_version(self) -> None:
        try:
            made_by = (self.directory / "PG_VERSION").read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return  # the server says what is missing
        if made_by != self.programs.version:
            raise ConfigInvalid(
                f"{self.directory} was made by PostgreSQL {made_by}, but this installation has "
                f"PostgreSQL {self.programs.version}. Start the installation that made it, or make "
                "a backup there with `mqservice backup create` and restore it here."
            )

    def _end_orphan(self) -> None:
        """Ends a server that outlived its supervisor; removes a pid file without a process.

        We hold the data directory's lock, so a server in this directory has lost its owner. The pid
        in the file may meanwhile be anybody's; only the working directory tells whether it is the
        server.
        """
        pid_file = self.directory / "postmaster.pid"
        try:
            pid = int(pid_file.read_text(encoding="utf-8").split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return
        deadline = time.monotonic() + ORPHAN_WAIT_MS / 1000
        if self._is_our_server(pid):
            os.kill(pid, signal.SIGQUIT)
        while self._is_our_server(pid):
            if time.monotonic() > deadline:
                raise StartFailed(
                    f"Left an old PostgreSQL (process {pid}) running in {self.directory}."
                )
            time.sleep(POLL_WAIT_S)
        pid_file.unlink(missing_ok=True)

    def _is_our_server(self, pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/cwd").samefile(self.directory)
        except OSError:
            return False


def check_own_name() -> None:
    """Raises ConfigInvalid where our account is a mere number, as containers may have it."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        raise ConfigInvalid(
            f"User {os.geteuid()} has no name in /etc/passwd, and PostgreSQL makes no tables for "
            "such a user. Start the service as a user that has one, or set DATABASE_URL."
        ) from None


async def wait_for_external(url: str, *, timeout_ms: int) -> None:
    """Raises StartFailed when the server of ``DATABASE_URL`` lets nobody in within the time."""
    deadline = time.monotonic() + timeout_ms / 1000
    while not await is_postgres_ready(url):
        if time.monotonic() > deadline:
            raise StartFailed(f"DATABASE_URL: could not log in within {timeout_ms} ms.")
        await asyncio.sleep(POLL_WAIT_S)


async def check_tables(url: str) -> None:
    """Raises StartFailed, and changes nothing, when another version has made the tables."""
    connection = await psycopg.AsyncConnection.connect(url, connect_timeout=CONNECT_TIMEOUT_S)
    async with connection:
        found = await connection.execute("SELECT to_regclass('django_migrations')")
        if await found.fetchone() == (None,):
            return
        applied = await connection.execute("SELECT app, name FROM django_migrations")
        problem = version_problem(await applied.fetchall())
    if problem:
        raise StartFailed(problem)
