"""A real engine process for tests: start, kill, stop, with tiny limits and a short socket path."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from storage_engine.client import (
    ClientConfig,
    PullRequest,
    PullStatus,
    StoreClient,
    StoreUnavailable,
    TopicConfig,
)
from tests.engine import fork_engine
from tests.forked import Process

ROOT: Final = Path(__file__).resolve().parents[2]
READY_TRIES: Final = 3_000
END_WAIT_S: Final = 60
RECONNECT: Final = ClientConfig(reconnect_min_ms=5, reconnect_max_ms=50)


class Engine:
    """An engine on a directory of its own, forked where everything is imported."""

    def __init__(self, **limits: str) -> None:
        # Unix socket paths are short: pytest's own directories may be too long.
        self.directory = Path(tempfile.mkdtemp(prefix="eng"))
        self.store_dir = self.directory / "store"
        self.socket = str(self.directory / "s")
        self.log = self.directory / "log"
        self._process: Process | None = None
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("MQ_")
        } | {
            "PYTHONPATH": str(ROOT),
            "MQ_ENGINE_STORE_DIR": str(self.store_dir),
            "MQ_ENGINE_SOCKET": self.socket,
            "MQ_ENGINE_SEGMENT_BYTES": "65536",
            "MQ_ENGINE_CONSUME_QUEUE_UNITS": "64",
            "MQ_ENGINE_INDEX_SLOTS": "64",
            "MQ_ENGINE_INDEX_ENTRIES": "256",
            "MQ_ENGINE_INDEX_ALLOCATE_BYTES": "4096",
            "MQ_ENGINE_TICK_INTERVAL_MS": "10",
            "MQ_ENGINE_CHECKPOINT_INTERVAL_MS": "50",
            "MQ_ENGINE_PREFAULT_BYTES": "0",
            **limits,
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def launch(self, **environment: str) -> Process:
        return fork_engine(
            environ=self._environment | environment, directory=self.directory, log=self.log
        )

    def start(self) -> None:
        """Start, and wait until the engine answers a HELLO."""
        process = self._process = self.launch()
        with self.client() as client:
            for _ in range(READY_TRIES):
                with contextlib.suppress(StoreUnavailable):
                    client.ping()
                    return
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.02)
                    break
        raise AssertionError(f"the engine did not become ready:\n{self.log.read_text()}")

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(END_WAIT_S)
            self._process = None

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(END_WAIT_S)
        self._process = None
        return code

    def run_to_end(self, **environment: str) -> tuple[int, list[str]]:
        """Start one more, which must end by itself; its exit code and what it said."""
        before = self.log.stat().st_size if self.log.exists() else 0
        process = self.launch(**environment)
        try:
            code = process.wait(END_WAIT_S)
        finally:
            process.kill()
            process.wait(END_WAIT_S)
        return code, self.log.read_bytes()[before:].decode().splitlines()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def client(self, timeout_ms: int = 10_000) -> StoreClient:
        return StoreClient(self.socket, client_name="test", timeout_ms=timeout_ms)


class EngineProgram(Engine):
    """One that starts as it does for its users: ``python -m storage_engine``."""

    def launch(self, **environment: str) -> Process:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "storage_engine"],
                cwd=self.directory,
                env=self._environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


@contextlib.contextmanager
def engine_with_topic(queues: int = 2, **limits: str) -> Iterator[Engine]:
    """A running engine with topic ``t`` and no group."""
    with Engine(**limits) as engine:
        put_topic(engine, queues)
        yield engine


@contextlib.contextmanager
def program_with_topic() -> Iterator[EngineProgram]:
    """The same of one that starts as it does for its users."""
    with EngineProgram() as engine:
        put_topic(engine, 2)
        yield engine


def put_topic(engine: Engine, queues: int) -> None:
    with engine.client() as client:
        client.topic_put(TopicConfig(topic="t", queue_count=queues))


def pull_all(client: StoreClient, queue_id: int) -> list[bytes]:
    """All visible bodies of a queue of topic ``t``; fails when offsets are not dense."""
    bodies: list[bytes] = []
    while True:
        head, records = client.pull(
            PullRequest(
                topic="t", queue_id=queue_id, queue_offset=len(bodies), messages_max=1_000,
                bytes_max=1 << 20,
            )
        )  # fmt: skip
        if head.status is not PullStatus.FOUND:
            assert head.next_offset == head.max_offset == len(bodies)
            return bodies
        assert [r.queue_offset for r in records] == list(range(len(bodies), head.next_offset))
        bodies += [record.body for record in records]
