"""What the machine itself can do, in the same run: copy memory, sync a disk, answer a request.

The last is ``bench.bare``: a handler that reads the body and answers 201, served as our web process
is, under the same wrk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.peers.peer import RestReceiver, RestWay, WayFacts, http_request
from bench.peers.turns import Measured, Timing, Turn
from bench.peers.usage import UsageMeter
from bench.processes import BareProcess, scratch_directory

MIB: Final = 1024 * 1024
COPY_BYTES: Final = 64 * MIB
SYNC_BYTES: Final = 4 * 1024
FILE_BYTES: Final = 64 * MIB
LIMIT: Final = "machine"


def _facts(label: str) -> WayFacts:
    return WayFacts(label=label, peer=LIMIT, durability="none", is_synced=False)


class CopyTurn(Turn):
    """GiB copied a second, 64 MiB at a time, by one thread."""

    facts = _facts("copy of memory, one thread")

    async def prepare(self, timing: Timing) -> None:
        self._source = memoryview(bytearray(os.urandom(MIB) * (COPY_BYTES // MIB)))
        self._target = memoryview(bytearray(COPY_BYTES))

    async def once(self, timing: Timing) -> Measured:
        meter = UsageMeter([])
        began = time.perf_counter()
        copied = 0
        while time.perf_counter() - began < timing.seconds:
            self._target[:] = self._source
            copied += COPY_BYTES
        return Measured(
            value=copied / (1 << 30) / (time.perf_counter() - began), usage=meter.stop()
        )

    async def finish(self) -> None:
        self._source.release()
        self._target.release()


class SyncTurn(Turn):
    """4 KiB written and synced a second, one after the other, into a file that does not grow."""

    facts = _facts("write and fdatasync of 4 KiB, one by one")

    def __init__(self, base: Path) -> None:
        self._base = base

    async def prepare(self, timing: Timing) -> None:
        """Nothing: the file is made for each run."""

    async def once(self, timing: Timing) -> Measured:
        content = os.urandom(SYNC_BYTES)
        with scratch_directory("sync", self._base) as directory:
            file = os.open(directory / "file", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.pwrite(file, bytes(FILE_BYTES), 0)
                os.fsync(file)
                meter = UsageMeter([])
                began = time.perf_counter()
                count = 0
                while time.perf_counter() - began < timing.seconds:
                    os.pwrite(file, content, count * SYNC_BYTES % FILE_BYTES)
                    os.fdatasync(file)
                    count += 1
                passed = time.perf_counter() - began
            finally:
                os.close(file)
        return Measured(value=count / passed, usage=meter.stop())

    async def finish(self) -> None:
        """Nothing stays."""


class BareWay(RestWay):
    """The handler that does nothing, for the same requests as ours."""

    batch_max = 100

    def __init__(self, bare: BareProcess, ours: RestWay) -> None:
        self.facts = _facts("bare ASGI handler, stores nothing")
        self.roots = list(bare.pids.values())
        self.base_url = bare.base_url
        self._ours = ours

    def requests(self, topics: Sequence[str], bodies: Sequence[bytes]) -> list[bytes]:
        host = self.base_url.removeprefix("http://")
        contents = [
            request.partition(b"\r\n\r\n")[2] for request in self._ours.requests(topics, bodies)
        ]
        return [http_request("/", host, "Bearer none", content) for content in contents]

    async def receiver(self, topic: str, messages_max: int) -> RestReceiver:
        raise NotImplementedError("nothing is stored, so nothing is received")

    async def make_topic(self, topic: str) -> None:
        """It has none."""

    async def drop_topic(self, topic: str) -> None:
        """It has none."""
