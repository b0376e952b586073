"""PostgreSQL and Valkey for one test process, started when first needed and ended with it.

The supervisor's children live on an event loop, so a thread of this process runs one for them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import threading
from pathlib import Path

from mqservice.supervisor import binaries
from mqservice.supervisor.child import Child, ChildSpec
from mqservice.supervisor.output import Output
from mqservice.supervisor.postgres import PostgresServer
from mqservice.supervisor.valkey import ValkeyServer
from tests.ports import held_port
from tests.prepared_cluster import PASSWORD, POSTGRES_SETTINGS, copy_cluster

START_TIMEOUT_S = 120
VALKEY_SETTINGS = {"appendonly": "no", "save": '""'}


class TestServers:
    """Chooses ports at once, since settings are read before any test; starts servers later."""

    __test__ = False

    def __init__(self) -> None:
        # Servers start much later, when the kernel has given many ports to connections.
        self._held = [held_port(), held_port()]
        self._postgres_port, self._valkey_port = (each.getsockname()[1] for each in self._held)
        self._dir: Path | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._output: Output | None = None
        self._children: dict[str, Child] = {}

    def environment(self) -> dict[str, str]:
        """What settings and tests find in ``os.environ``."""
        return {
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "DATABASE_URL": f"postgresql://mqservice:{PASSWORD}@127.0.0.1:{self._postgres_port}/mqservice",
            "VALKEY_URL": f"redis://:{PASSWORD}@127.0.0.1:{self._valkey_port}/0",
        }

    def start_postgres(self) -> str:
        """Its URL. The first call starts a copy of the prepared cluster."""
        account = binaries.server_account()
        server = PostgresServer(
            directory=self._directory() / "pg",
            port=self._postgres_port,
            programs=binaries.find_postgres(account),
            account=account,
            admin_password=PASSWORD,
            password=PASSWORD,
            settings=POSTGRES_SETTINGS,
        )
        if "postgres" not in self._children:
            if not server.directory.exists():
                copy_cluster(server.directory)
            server.prepare()
            self._start(server.child_spec({}))
            self._run(server.ensure_database())
        return server.url

    def start_valkey(self) -> str:
        """Its URL. The first call starts it."""
        account = binaries.server_account()
        server = ValkeyServer(
            directory=self._directory() / "valkey",
            port=self._valkey_port,
            program=binaries.find_valkey(account),
            account=account,
            password=PASSWORD,
            settings=VALKEY_SETTINGS,
        )
        if "valkey" not in self._children:
            server.prepare()
            self._start(server.child_spec({}))
        return server.url

    def kill(self, name: str) -> None:
        """End ``postgres`` or ``valkey`` without a chance to tidy up; ``start_…`` starts it again.

        Of PostgreSQL all processes: a new server waits until the old one's children are gone.
        """
        child = self._children.pop(name)
        pid = child.pid
        assert pid is not None
        os.killpg(pid, signal.SIGKILL)
        self._run(child.stop())

    def close(self) -> None:
        """Stops what was started and removes its files."""
        for child in self._children.values():
            self._run(child.stop())
        self._children.clear()
        for each in self._held:
            each.close()
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None
        if self._output is not None:
            self._output.close()
            self._output = None
        if self._dir is not None:
            shutil.rmtree(self._dir, ignore_errors=True)
            self._dir = None

    def _directory(self) -> Path:
        if self._dir is None:
            self._dir = Path(tempfile.mkdtemp(prefix="mq-test-"))
            (self._dir / "log").mkdir()
        return self._dir

    def _start(self, spec: ChildSpec) -> None:
        failures: list[str] = []
        if self._output is None:
            self._output = Output(self._directory() / "log", is_quiet=True)
        child = Child(spec, self._output, on_change=lambda: None, on_fatal=failures.append)
        self._run(child.start())
        self._children[spec.name] = child

    def _run(self, coroutine: object) -> None:
        assert asyncio.iscoroutine(coroutine)
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="test servers", daemon=True
            )
            self._thread.start()
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(START_TIMEOUT_S)
