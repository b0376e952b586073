"""Starts the stages in order, supervises them, and stops them in reverse.

  lock port secrets ▶ [postgres valkey] ▶ [engine] ▶ tables ▶ [web-*] [worker], demo ▶ ready
                                │
            SIGINT, SIGTERM, SIGHUP, a dead database, a failed stage ──▶ the same list backwards

Children are stopped in the reverse of the order they were started in, so nobody loses what it still
needs. A second SIGINT kills them. The data directory's lock is released last.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mqservice.lib.names import MAIN_SHARD
from mqservice.lib.replicated_log import has_replicated_log
from mqservice.supervisor import binaries, first_run, processes
from mqservice.supervisor.child import Child, ChildSpec
from mqservice.supervisor.config import SupervisorConfig
from mqservice.supervisor.data_dir import DataDir, DataDirLock
from mqservice.supervisor.errors import ConfigInvalid, StartFailed
from mqservice.supervisor.output import Output
from mqservice.supervisor.panel import print_panel
from mqservice.supervisor.ports import choose_ports, reserve_port
from mqservice.supervisor.postgres import (
    PostgresServer,
    check_own_name,
    check_tables,
    wait_for_external,
)
from mqservice.supervisor.quickstart import Quickstart, quickstart_of, write_quickstart
from mqservice.supervisor.readiness import is_url_ok
from mqservice.supervisor.secrets_file import Secrets, load_or_create_secrets
from mqservice.supervisor.shard_engines import (
    Heartbeats,
    read_places,
    read_shards,
)
from mqservice.supervisor.shard_owners import ShardOwners
from mqservice.supervisor.valkey import ValkeyServer

EXTERNAL_WAIT_MS = 30_000
READY_WAIT_MS = 60_000
READY_POLL_WAIT_MS = 100
OWNERS_WAIT_S = 10  # until it is known who owns the shards; what waits for an engine waits longer


def run_service(config: SupervisorConfig, env: Mapping[str, str], *, is_quiet: bool) -> int:
    """Runs until told to stop. Returns the exit code: 0 after an ordered stop.

    Raises SupervisorError when it could not start; everything it had started is stopped by then.
    """
    data_dir = DataDir(config.data_dir)
    places = read_places(config, data_dir, env)
    if places and MAIN_SHARD not in {place.name for place in places}:
        raise ConfigInvalid(
            f"MQ_SHARDS must name {MAIN_SHARD} too, where namespaces are that nobody placed "
            "elsewhere; a machine that runs only other shards starts with `mqservice node`."
        )
    if not os.path.exists(data_dir.lock):  # nor where it cannot be seen, which create() says
        # Nothing is made where it cannot start.
        reserve_port(config.bind, config.port).close()
        if config.database_url is None:
            check_own_name()
    data_dir.create(segment_bytes=processes.segment_bytes(env))
    lock = DataDirLock(data_dir)
    try:
        lock.acquire()
        with reserve_port(config.bind, config.port):
            data_dir.quickstart.unlink(missing_ok=True)
            output = Output(data_dir.logs, is_quiet=is_quiet, console=sys.stdout)
            try:
                return asyncio.run(Supervisor(config, env, output).run())
            finally:
                output.close()
    except (StartFailed, OSError) as error:
        # Whoever met it first says so at length: initdb, a server, a migration.
        if os.strerror(errno.ENOSPC) not in str(error):
            raise
        raise StartFailed(
            f"The disk of {config.data_dir} became full. Make room, then start the service again."
        ) from error
    finally:
        lock.release()


class Supervisor:
    """One run of the service."""

    def __init__(self, config: SupervisorConfig, env: Mapping[str, str], output: Output) -> None:
        self._config = config
        self._env = env
        self._output = output
        self._data_dir = DataDir(config.data_dir)
        self._stages: list[list[Child]] = []
        self._engine_stage = -1
        self._quickstart: Quickstart | None = None
        self._stop_asked = asyncio.Event()
        self._failure: str | None = None
        self._is_stopped = False
        self._places = read_places(config, self._data_dir, env)
        if not self._places and has_replicated_log(env):
            self._places = read_shards(MAIN_SHARD, self._data_dir)
        self._heartbeats: asyncio.Task[None] | None = None
        self._owners: ShardOwners | None = None

    async def run(self) -> int:
        """Starts, waits for a reason to stop, stops. Returns 0, or raises what went wrong."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal, number)
        started_ms = time.monotonic_ns() // 1_000_000
        start = asyncio.create_task(self._start(), name="start")
        stop = asyncio.create_task(self._stop_asked.wait(), name="stop asked")
        try:
            await asyncio.wait({start, stop}, return_when=asyncio.FIRST_COMPLETED)
            if start.done():
                quickstart = start.result()
                took_ms = time.monotonic_ns() // 1_000_000 - started_ms
                if quickstart is not None:
                    print_panel(quickstart, self._config.data_dir, took_ms=took_ms)
                await stop
        finally:
            stop.cancel()
            start.cancel()
            await asyncio.gather(start, return_exceptions=True)
            await self._stop()
        if self._failure is not None:
            raise StartFailed(self._failure)
        return 0

    async def _start(self) -> Quickstart | None:
        """The facts of the service, unless this is a node without one."""
        config, data_dir = self._config, self._data_dir
        secrets = load_or_create_secrets(data_dir.secrets)
        names = {
            shard: "engine_metrics" if shard == MAIN_SHARD else f"engine_metrics_{shard}"
            for shard in self._shard_names()
        }
        ports = choose_ports(data_dir.ports, ("postgres", "valkey", *names.values()))
        chosen = {shard: ports[name] for shard, name in names.items()}
        metrics_ports = processes.engine_metrics_ports(self._env, chosen)
        specs, postgres, database_url, valkey_url = await self._plan_databases(secrets, ports)
        env = processes.service_env(
            self._env, config, secrets, database_url=database_url, valkey_url=valkey_url
        )
        self._remove_old_sockets()
        preparation = first_run.Preparation(self._output)
        try:
            await preparation.start(env, data_dir, secrets)
            await self._start_stages(specs)
            if postgres is not None:
                await postgres.ensure_database()
            else:
                await wait_for_external(database_url, timeout_ms=EXTERNAL_WAIT_MS)
            await check_tables(database_url)
            # Only now: by its start alone the version that made them could not open the store.
            await self._start_engines(env, metrics_ports)
            await preparation.tables()
            await self._start_heartbeats(database_url)
            if self._owners is not None:
                await self._owners.opened(MAIN_SHARD)
            await preparation.demo()
            web = processes.web_specs(env, config, metrics_ports=metrics_ports)
            if config.has_separate_workers:
                background = processes.separate_worker_specs(env, data_dir)
            else:
                background = [processes.worker_spec(env, data_dir)]
            await self._start_stages(web, background)
            facts = await preparation.facts()
        finally:
            await preparation.end()
        await self._wait_until_ready()
        self._quickstart = quickstart_of(config, facts, metrics_ports=metrics_ports)
        self._write_pids()
        return self._quickstart

    def _remove_old_sockets(self) -> None:
        """Those of engines that were killed."""
        self._data_dir.engine_socket.unlink(missing_ok=True)
        for place in self._places:
            place.socket.unlink(missing_ok=True)
            place.control.unlink(missing_ok=True)

    def _shard_names(self) -> list[str]:
        """Of the shards whose engines this machine runs."""
        return [place.name for place in self._places] or [MAIN_SHARD]

    async def _start_engines(self, env: Mapping[str, str], ports: Mapping[str, int]) -> None:
        """``ports``: of each shard's metrics."""
        starting = self._start_stages(self._engine_specs(env, ports))
        self._engine_stage = len(self._stages)
        await starting

    def _engine_specs(self, env: Mapping[str, str], ports: Mapping[str, int]) -> list[ChildSpec]:
        """The engine, or those of the shards."""
        if not self._places:
            return [processes.engine_spec(env, self._data_dir, metrics_port=ports[MAIN_SHARD])]
        specs = []
        for place in self._places:
            if place.name != MAIN_SHARD:
                place.store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            port = ports[place.name]
            specs.append(processes.engine_spec(env, self._data_dir, metrics_port=port, place=place))
        return specs

    async def _start_heartbeats(self, database_url: str) -> None:
        if not self._places:
            return
        if has_replicated_log(self._env):
            self._owners = ShardOwners(
                self._places,
                database_url=database_url,
                node=self._config.node,
                note=self._output.note,
            )
            self._owners.start()
            await self._owners.settled(OWNERS_WAIT_S)
            return
        names = {processes.engine_name(place): place.name for place in self._places}

        def running() -> set[str]:
            found = {child.spec.name for child in self._children() if child.pid is not None}
            return {name for process, name in names.items() if process in found}

        beats = Heartbeats(
            self._places,
            database_url=database_url,
            owner=self._config.node,
            running=running,
            note=self._output.note,
        )
        self._heartbeats = asyncio.create_task(beats.run(), name="heartbeats")

    async def _plan_databases(
        self, secrets: Secrets, ports: Mapping[str, int]
    ) -> tuple[list[ChildSpec], PostgresServer | None, str, str]:
        """Makes embedded servers ready to start where the user named none.

        Their specs, the embedded PostgreSQL, and the URLs of PostgreSQL and Valkey.
        """
        config, data_dir = self._config, self._data_dir
        account = None
        if config.database_url is None or config.valkey_url is None:
            account = binaries.server_account()
        specs: list[ChildSpec] = []
        postgres: PostgresServer | None = None
        database_url, valkey_url = config.database_url, config.valkey_url
        if database_url is None:
            postgres = PostgresServer(
                directory=data_dir.postgres,
                port=ports["postgres"],
                programs=await asyncio.to_thread(binaries.find_postgres, account),
                account=account,
                admin_password=secrets.postgres_admin_password,
                password=secrets.postgres_password,
            )
            self._note_if_copied("PostgreSQL", postgres.programs.postgres)
            if not data_dir.postgres.exists():
                self._output.note(f"first start: creating the database in {data_dir.postgres}")
            await asyncio.to_thread(postgres.prepare)
            database_url = postgres.url
            specs.append(postgres.child_spec(self._env))
        if valkey_url is None:
            valkey = ValkeyServer(
                directory=data_dir.valkey,
                port=ports["valkey"],
                program=await asyncio.to_thread(binaries.find_valkey, account),
                account=account,
                password=secrets.valkey_password,
            )
            self._note_if_copied("Valkey", valkey.program)
            valkey.prepare()
            valkey_url = valkey.url
            specs.append(valkey.child_spec(self._env))
        return specs, postgres, database_url, valkey_url

    async def _start_stages(self, *stages: list[ChildSpec]) -> None:
        """Starts all children together; returns when all gates are open.

        Stages are stopped one after the other, the last one first.
        """
        started = []
        for specs in stages:
            stage = [
                Child(spec, self._output, on_change=self._write_pids, on_fatal=self._on_fatal)
                for spec in specs
            ]
            self._stages.append(stage)
            started += [child.start() for child in stage]
        for outcome in await asyncio.gather(*started, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _wait_until_ready(self) -> None:
        """The last gate: a request through the whole chain."""
        deadline = time.monotonic() + READY_WAIT_MS / 1000
        while not await is_url_ok(f"{self._config.own_url}/readyz"):
            if time.monotonic() > deadline:
                raise StartFailed(
                    f"{self._config.own_url}/readyz was not ready within {READY_WAIT_MS} ms."
                )
            await asyncio.sleep(READY_POLL_WAIT_MS / 1000)

    async def _stop(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.gather(self._heartbeats, return_exceptions=True)
        for number, stage in reversed(list(enumerate(self._stages))):
            if self._owners is not None and number == self._engine_stage:
                await self._owners.stop()
            await asyncio.gather(*(child.stop() for child in stage))
        self._is_stopped = True
        self._write_pids()
        self._output.note("stopped")

    def _note_if_copied(self, server: str, program: Path) -> None:
        if program.is_relative_to(binaries.COPIES_DIR):
            self._output.note(
                f"{server} runs from a copy in {binaries.COPIES_DIR}, because the "
                f"account {binaries.SERVER_ACCOUNT!r} cannot reach this environment"
            )

    def _on_signal(self, number: signal.Signals) -> None:
        if self._stop_asked.is_set() and number is signal.SIGINT:
            self._output.note("killing all processes")
            for child in self._children():
                child.kill()
        elif not self._stop_asked.is_set():
            self._output.note(f"stopping on {number.name}")
            self._stop_asked.set()

    def _on_fatal(self, ending: str) -> None:
        """Without its database the service can only stop; its state is safe on the disk."""
        if self._failure is None:
            self._failure = f"{ending}; the service cannot run without it."
            self._output.note(self._failure)
            self._stop_asked.set()

    def _write_pids(self) -> None:
        """Brings the pids of ``quickstart.json`` up to date, once the service has been ready."""
        if self._quickstart is None:
            return
        pids = {child.spec.name: child.pid for child in self._children() if child.pid is not None}
        if not self._is_stopped:
            pids["supervisor"] = os.getpid()
        self._quickstart = msgspec.structs.replace(self._quickstart, pids=pids)
        try:
            write_quickstart(self._data_dir.quickstart, self._quickstart)
        except OSError as error:
            # A full disk must not end a service that could go on; the next change writes it again.
            self._output.note(f"could not write {self._data_dir.quickstart}: {error}")

    def _children(self) -> list[Child]:
        return [child for stage in self._stages for child in stage]
