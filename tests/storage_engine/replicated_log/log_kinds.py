"""The adapters under test: each kind gives any number of views of one shard's log.

A view is what one node has. Tests close none of them; the kind does.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import itertools
import random
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from typing import Final, TypeAlias

import pytest

from storage_engine.clock import SystemClock
from storage_engine.replicated_log.bucket import Bucket
from storage_engine.replicated_log.object_log import ObjectLog
from storage_engine.replicated_log.opening import open_log
from storage_engine.replicated_log.port import START, Entry, Position, ReplicatedLog
from tests.storage_engine.faults.machine import need_kafka
from tests.storage_engine.replicated_log import s3_server
from tests.storage_engine.replicated_log.kafka_program import running_kafka
from tests.storage_engine.replicated_log.memory_log import MemoryLog, SharedLog
from tests.storage_engine.replicated_log.s3_server import S3Server, running_s3_server

DEPLOYMENT: Final = "d1"
SHARD: Final = "shard-0"
_numbers: Final = itertools.count()
_servers: Final = ExitStack()
atexit.register(_servers.close)


class Views:
    """Opens views of one log, each as another node would."""

    def __init__(self, make: Callable[[str], ReplicatedLog]) -> None:
        self._make = make
        self._views: list[ReplicatedLog] = []

    def view(self, deployment: str = DEPLOYMENT) -> ReplicatedLog:
        self._views.append(self._make(deployment))
        return self._views[-1]

    async def opened(self, epoch: int) -> ReplicatedLog:
        view = self.view()
        await view.open(epoch)
        return view

    async def close(self) -> None:
        for view in self._views:
            await view.close()


Kind: TypeAlias = Callable[[], AbstractAsyncContextManager[Views]]


def url_views(url: str, options: Mapping[str, str] | None = None) -> Views:
    return Views(
        lambda deployment: open_log(
            url, shard=SHARD, deployment=deployment, options=options or {}, clock=SystemClock()
        )
    )


def bucket_log(bucket: Bucket, deployment: str = DEPLOYMENT, seed: int | None = None) -> ObjectLog:
    return ObjectLog(
        bucket, shard=SHARD, deployment=deployment, clock=SystemClock(), random=random.Random(seed)
    )


@asynccontextmanager
async def memory_views() -> AsyncIterator[Views]:
    shared = SharedLog()
    views = Views(lambda deployment: MemoryLog(shared, SystemClock(), deployment=deployment))
    yield views
    await views.close()


@asynccontextmanager
async def object_memory_views() -> AsyncIterator[Views]:
    views = url_views(f"memory://log-{next(_numbers)}")
    yield views
    await views.close()


@asynccontextmanager
async def file_views() -> AsyncIterator[Views]:
    loop = asyncio.get_running_loop()
    # Ended before the directory: of an owner that was killed something may still be on its way.
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor() as threads:
        loop.set_default_executor(threads)
        views = url_views(f"file://{directory}")
        yield views
        await views.close()
    loop.set_default_executor(ThreadPoolExecutor())


@functools.cache
def s3() -> tuple[S3Server, str]:
    """One server for all tests of this process, and its address."""
    return _servers.enter_context(running_s3_server())


@asynccontextmanager
async def s3_views() -> AsyncIterator[Views]:
    views = url_views(*new_s3_bucket())
    yield views
    s3()[0].heal()
    await views.close()


def new_s3_bucket() -> tuple[str, dict[str, str]]:
    """The URL of a new one, and the options that reach it."""
    _, address = s3()
    name = f"log-{next(_numbers)}"
    request = urllib.request.Request(f"{address}/{name}", method="PUT")
    request.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4")
    with urllib.request.urlopen(request):
        return f"s3://{name}/prefix", s3_server.options(address)


@functools.cache
def kafka() -> str:
    """The address of a broker for all tests of this process."""
    return _servers.enter_context(running_kafka())


@asynccontextmanager
async def kafka_views() -> AsyncIterator[Views]:
    need_kafka()
    views = url_views(f"kafka://{kafka()}/log-{next(_numbers)}?replicas=1")
    yield views
    await views.close()


KINDS: Final[dict[str, Kind]] = {
    "memory": memory_views,
    "file": file_views,
    "obstore memory": object_memory_views,
    "s3": s3_views,
    "kafka": kafka_views,
}
_OVER_SOCKETS: Final = {"s3", "kafka"}  # what they add, faults of a store, ``make test`` has apart
KIND_PARAMETERS: Final = [
    pytest.param(kind, id=name, marks=[pytest.mark.torture] if name in _OVER_SOCKETS else [])
    for name, kind in KINDS.items()
]


async def entries_of(log: ReplicatedLog, start: Position = START) -> list[Entry]:
    return [entry async for entry in log.read(start)]


async def contents_of(log: ReplicatedLog, start: Position = START) -> list[bytes]:
    return [entry.content for entry in await entries_of(log, start)]
