"""A PostgreSQL cluster that has the service's tables, made once for a whole run of tests.

    initdb, migrate ──▶ [prepared] ── cp ──▶ the server of each test process
                                         └──▶ data directories of whole services

To make one takes seconds of processor, a copy a tenth of a second. Whoever needs it first makes it,
and others wait. All processes of a run find it in the directory that ``MQ_TEST_CLUSTER`` names,
which ends with the process that has named it.
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec
import psycopg

from mqservice.supervisor import binaries
from mqservice.supervisor.child import Child
from mqservice.supervisor.data_dir import DataDir, write_private
from mqservice.supervisor.output import Output
from mqservice.supervisor.postgres import DATABASE, ROLE, PostgresServer
from mqservice.supervisor.secrets_file import load_or_create_secrets
from tests.ports import find_steady_port

VARIABLE: Final = "MQ_TEST_CLUSTER"
PASSWORD: Final = "test-password"  # of the administrator of each copy
TEMPLATE: Final = "prepared"  # a database with the tables, beside that of the service
# A test cluster is thrown away, so nothing in it has to survive a power cut.
POSTGRES_SETTINGS: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
}
_ROOT: Final = Path(__file__).resolve().parents[1]


def shared_directory() -> Path:
    """Where the cluster is made; from now on also for processes that this one starts."""
    if VARIABLE not in os.environ:
        place = tempfile.mkdtemp(prefix="mq-cluster-")
        os.environ[VARIABLE] = place
        atexit.register(shutil.rmtree, place, ignore_errors=True)
    return Path(os.environ[VARIABLE])


def begin_to_make() -> subprocess.Popen[bytes]:
    """Ends once the cluster is there, whoever has made it."""
    shared_directory()
    return subprocess.Popen([sys.executable, "-m", "tests.prepared_cluster"], cwd=_ROOT)


def copy_cluster(target: Path) -> None:
    """A cluster at ``target``, which must not exist."""
    place = shared_directory()
    if not (place / "cluster").exists():
        assert begin_to_make().wait() == 0, "no PostgreSQL cluster was made"
    subprocess.run(["cp", "--archive", str(place / "cluster"), str(target)], check=True)


def prepare_data_dir(path: Path) -> None:
    """A data directory as a first start leaves it when the tables are made: it has secrets, too."""
    data_dir = DataDir(path)
    data_dir.create()
    data_dir.lock.touch()
    secrets = msgspec.structs.asdict(load_or_create_secrets(data_dir.secrets))
    secrets["postgres_admin_password"] = PASSWORD
    lines = [f'{name} = "{value}"\n' for name, value in secrets.items()]
    write_private(data_dir.secrets, "".join(lines))
    copy_cluster(data_dir.postgres)


async def _make(place: Path) -> None:
    account = binaries.server_account()
    server = PostgresServer(
        directory=place / "pg",
        port=find_steady_port(),
        programs=binaries.find_postgres(account),
        account=account,
        admin_password=PASSWORD,
        password=PASSWORD,
        settings=POSTGRES_SETTINGS,
    )
    server.prepare()
    output = Output(place, is_quiet=True)
    child = Child(server.child_spec({}), output, on_change=lambda: None, on_fatal=sys.exit)
    await child.start()
    try:
        await server.ensure_database()
        await asyncio.to_thread(_migrate, server.url)
        async with await psycopg.AsyncConnection.connect(server.admin_url, autocommit=True) as own:
            await own.execute(f"CREATE DATABASE {TEMPLATE} TEMPLATE {DATABASE} OWNER {ROLE}")
    finally:
        await child.stop()
        output.close()
    server.directory.rename(place / "cluster")


def _migrate(url: str) -> None:
    env = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "mqservice.settings",
        "MQ_SECRET_KEY": "k" * 40,
        "DATABASE_URL": url,
    }
    argv = [sys.executable, str(_ROOT / "manage.py"), "migrate", "--verbosity=0", "--no-input"]
    subprocess.run(argv, env=env, check=True)


def main() -> None:
    place = shared_directory()
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "cluster").exists():
            asyncio.run(_make(place))


if __name__ == "__main__":
    main()
