"""Processes under measurement, each with files of its own, and stopped for certain.

engine_running ─▶ python -m storage_engine on an empty directory
bare_running   ─▶ python -m bench.bare, a handler that stores nothing
service_running ─▶ mqservice up, everything
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import httpx
import msgspec

from bench.measure import MeasureFailed, Meter
from storage_engine.client import AsyncStoreClient

START_MS_MAX: Final = 120_000
STOP_S_MAX: Final = 30
POLL_S: Final = 0.05
QUIET_WINDOW_S: Final = 1.0
QUIET_CORES: Final = 0.1


class EngineProcess(msgspec.Struct, frozen=True):
    pid: int
    socket_path: str
    store_path: Path


class BareProcess(msgspec.Struct, frozen=True):
    pids: dict[str, int]
    base_url: str


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of ``quickstart.json`` and where the engine listens."""

    base_url: str
    ws_url: str
    namespace: str
    topic: str
    group: str
    api_key: str
    username: str = ""
    password: str = ""
    pids: dict[str, int]
    engine_socket: str = ""

    @property
    def measured_pids(self) -> dict[str, int]:
        """Those whose CPU a message costs."""
        return {name: pid for name, pid in self.pids.items() if not name.startswith("supervisor")}

    @property
    def web_count(self) -> int:
        return sum(name.startswith("web") for name in self.pids)


class ProcessFailed(MeasureFailed):
    """A process that did not come up; says how it ended and what it wrote."""


@contextlib.contextmanager
def scratch_directory(name: str, base: Path) -> Iterator[Path]:
    """An empty directory below ``base``, removed at the end whatever is in it."""
    path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.asynccontextmanager
async def engine_running(base: Path) -> AsyncIterator[EngineProcess]:
    """An engine on an empty store."""
    with scratch_directory("engine", base) as directory:
        async with engine_on(directory / "store") as engine:
            yield engine


@contextlib.asynccontextmanager
async def engine_on(store_path: Path, **limits: int | str) -> AsyncIterator[EngineProcess]:
    """An engine on a store that may have something in it; yields when it answers.

    Its socket lies in a short directory of its own; ``limits`` are fields of ``StoreConfig``.
    """
    with scratch_directory("s", _short()) as short:
        socket_path = str(short / "e.sock")
        environ = _engine_environ(store_path, socket=socket_path, **limits)
        with _process([sys.executable, "-m", "storage_engine"], environ, short) as process:
            client = AsyncStoreClient(socket_path, client_name="bench")
            try:
                await client.wait_connected(START_MS_MAX)
            finally:
                await client.aclose()
            yield EngineProcess(process.pid, socket_path, store_path)


@contextlib.contextmanager
def replica_on(store_path: Path, directory: Path, **limits: int | str) -> Iterator[EngineProcess]:
    """A replica of a shard. A command on the socket ``control`` in ``directory`` makes it the
    owner, which serves at ``socket_path``. Paths of sockets must be short.
    """
    socket_path = str(directory / "e.sock")
    environ = _engine_environ(
        store_path, socket=socket_path, control=str(directory / "control"), **limits
    )
    command = [sys.executable, "-m", "storage_engine", "follow"]
    with _process(command, environ, directory) as process:
        yield EngineProcess(process.pid, socket_path, store_path)


def _engine_environ(store_path: Path, **limits: int | str) -> dict[str, str]:
    settings = {"store_dir": str(store_path), **limits}
    named = {f"MQ_ENGINE_{name.upper()}": str(value) for name, value in settings.items()}
    return {**os.environ, **named}


@contextlib.asynccontextmanager
async def bare_running(base: Path, worker_count: int) -> AsyncIterator[BareProcess]:
    """The bare handler in as many processes as the service has web processes."""
    port = free_port()
    base_url = f"http://127.0.0.1:{port}"
    environ = {**os.environ, "MQ_PORT": str(port), "MQ_BIND": "127.0.0.1", "MQ_WEB_REUSE_PORT": "1"}
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(scratch_directory("bare", base))
        pids: dict[str, int] = {}
        for number in range(1, worker_count + 1):
            process = stack.enter_context(
                _process([sys.executable, "-m", "bench.bare"], environ, directory)
            )
            pids[f"bare-{number}"] = process.pid
            await _answers(f"{base_url}/", process)
        yield BareProcess(pids, base_url)


@contextlib.asynccontextmanager
async def service_running(base: Path, **env: str) -> AsyncIterator[Service]:
    """The whole service on an empty data directory and a free port, started as users start it.

    ``env``: settings besides.
    """
    with scratch_directory("service", base) as directory:
        port = free_port()
        data_dir = directory / "data"
        environ = {**os.environ, "MQ_DATA_DIR": str(data_dir), "MQ_PORT": str(port), **env}
        command = [sys.executable, "-m", "mqservice.cli.main", "up"]
        with _process(command, environ, directory) as process:
            await _answers(f"http://127.0.0.1:{port}/readyz", process)
            quickstart = data_dir / "quickstart.json"
            await _until(quickstart.exists, "quickstart.json", process)
            facts = msgspec.json.decode(quickstart.read_bytes(), type=Service)
            await _until_async(Quiet(facts.measured_pids).is_quiet, "a quiet service", process)
            yield msgspec.structs.replace(
                facts, engine_socket=_listening_socket(facts.pids["engine"])
            )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class _Process:
    """A child and the file its output goes to."""

    def __init__(self, command: list[str], environ: dict[str, str], directory: Path) -> None:
        self._log_path = directory / f"{command[2]}.log"
        with self._log_path.open("ab") as log:
            self._popen = subprocess.Popen(
                command, env=environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self.pid = self._popen.pid

    def check(self) -> None:
        """Raises ProcessFailed when it has ended."""
        code = self._popen.poll()
        if code is not None:
            output = self._log_path.read_text(errors="replace")[-2_000:]
            raise ProcessFailed(f"{self._popen.args!r} ended with {code}:\n{output}")

    def stop(self) -> None:
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGTERM)
        try:
            self._popen.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


@contextlib.contextmanager
def _process(command: list[str], environ: dict[str, str], directory: Path) -> Iterator[_Process]:
    process = _Process(command, environ, directory)
    try:
        yield process
    finally:
        process.stop()


async def _answers(url: str, process: _Process) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:

        async def is_up() -> bool:
            try:
                return (await http.get(url)).is_success
            except httpx.HTTPError:
                return False

        await _until_async(is_up, url, process)


async def _until(condition: Callable[[], bool], what: str, process: _Process) -> None:
    async def ask() -> bool:
        return condition()

    await _until_async(ask, what, process)


async def _until_async(
    condition: Callable[[], Awaitable[bool]], what: str, process: _Process
) -> None:
    try:
        async with asyncio.timeout(START_MS_MAX / 1000):
            while not await condition():
                process.check()
                await asyncio.sleep(POLL_S)
    except TimeoutError as exc:
        raise ProcessFailed(f"{what} was not there within {START_MS_MAX} ms") from exc


class Quiet:
    """Whether processes have stopped starting up: imports of the last ones would be measured."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids

    async def is_quiet(self) -> bool:
        meter = Meter(self._pids)
        await asyncio.sleep(QUIET_WINDOW_S)
        _, cpu = meter.stop()
        return sum(cpu.get(name, 0.0) for name in self._pids) < QUIET_CORES


def _short() -> Path:
    """A unix socket's path must fit into 107 bytes, so it does not go below the data."""
    return Path(tempfile.gettempdir())


def _listening_socket(pid: int) -> str:
    """The unix socket a process was told to listen on, from its environment."""
    for pair in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        name, _, value = pair.partition(b"=")
        if name == b"MQ_ENGINE_SOCKET":
            return value.decode()
    raise ProcessFailed(f"process {pid} has no MQ_ENGINE_SOCKET")
