"""A replicated log in this process, for tests of what is built on the port.

    SharedLog ◀── MemoryLog (node a)        hold, cut_off, heal: what a store does to its writers
              ◀── MemoryLog (node b)

Appends reach the shared log in a later turn of the event loop, in order, and not while it is cut
off.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import NamedTuple

from storage_engine.clock import Clock
from storage_engine.replicated_log.errors import Closed, Fenced, Misconfigured, Trimmed, Unavailable
from storage_engine.replicated_log.port import IN_FLIGHT_MAX, MIB, Entry, Position, Trouble


class Record(NamedTuple):
    epoch: int
    content: bytes | None  # None in a fence


class SharedLog:
    """What the distributed store holds. Faults are switched on here, for all who use it."""

    def __init__(self, deployment: str = "") -> None:
        self.deployment = deployment
        self.first = 0  # the sequence of records[0]
        self.records: deque[Record] = deque()
        self.epoch = 0
        self.writers: list[MemoryLog] = []
        self.is_held = False
        self.outage: str | None = None

    @property
    def end(self) -> int:
        return self.first + len(self.records)

    def hold(self) -> None:
        """Appends wait from now on, without trouble, as in a slow store."""
        self.is_held = True

    def cut_off(self, reason: str = "the store does not answer") -> None:
        """Nothing gets through from now on."""
        self.outage = reason

    def heal(self) -> None:
        """End both; what waits arrives, writer by writer in the order of their opening."""
        self.is_held = False
        self.outage = None
        for writer in self.writers:
            writer.arrive()

    def check_reachable(self, deployment: str) -> None:
        if self.outage is not None:
            raise Unavailable(self.outage)
        if self.deployment not in ("", deployment):
            raise Misconfigured(
                f"The log belongs to deployment {self.deployment!r}, and this is {deployment!r}"
            )


class MemoryLog:
    """One node's view of a ``SharedLog``."""

    entry_bytes_max = 4 * MIB
    linger_ms = 0

    def __init__(self, shared: SharedLog, clock: Clock, *, deployment: str = "") -> None:
        self._shared = shared
        self._clock = clock
        self._deployment = deployment
        self._epoch = 0
        self._pending: deque[tuple[bytes, asyncio.Future[Position]]] = deque()
        self._is_closed = False
        self._is_fenced = False  # as far as this writer has been told
        self._cut_off_at_ms: int | None = None

    @property
    def trouble(self) -> Trouble | None:
        if self._shared.outage is None or not self._pending:
            self._cut_off_at_ms = None
            return None
        if self._cut_off_at_ms is None:
            self._cut_off_at_ms = self._clock.monotonic_ms()
        return Trouble(self._cut_off_at_ms, self._shared.outage)

    async def open(self, epoch: int) -> Position:
        await asyncio.sleep(0)
        self._shared.check_reachable(self._deployment)
        if epoch <= self._shared.epoch and epoch != self._epoch:
            raise Fenced(f"Epoch {epoch} is too old: the log is at {self._shared.epoch}")
        if epoch != self._epoch:
            self._shared.epoch = self._epoch = epoch
            self._shared.deployment = self._deployment
            self._shared.records.append(Record(epoch, None))
            self._shared.writers.append(self)
        self._check_writer()
        return Position(epoch, self._shared.end)

    def append(self, entry: bytes) -> asyncio.Future[Position]:
        assert len(entry) <= self.entry_bytes_max
        if self._is_closed:
            raise Closed("The log is closed")
        if self._epoch == 0 or self._is_fenced:
            raise self._fenced()
        if len(self._pending) >= IN_FLIGHT_MAX:
            raise Unavailable(f"{IN_FLIGHT_MAX} appends wait already")
        loop = asyncio.get_running_loop()
        stored = loop.create_future()
        self._pending.append((bytes(entry), stored))
        loop.call_soon(self.arrive)
        return stored

    def arrive(self) -> None:
        """Store what waits, unless the store keeps it waiting."""
        shared = self._shared
        if shared.is_held or shared.outage is not None:
            return
        while self._pending:
            content, stored = self._pending.popleft()
            if self._epoch < shared.epoch:
                self._is_fenced = True
                if not stored.done():
                    stored.set_exception(self._fenced())
                continue
            position = Position(self._epoch, shared.end)
            shared.records.append(Record(self._epoch, content))
            if not stored.done():
                stored.set_result(position)

    async def read(self, start: Position) -> AsyncIterator[Entry]:
        epoch, sequence = start
        while True:
            await asyncio.sleep(0)
            shared = self._shared
            shared.check_reachable(self._deployment)
            if sequence < shared.first:
                raise Trimmed(f"Entries before {shared.first} are gone; {sequence} was asked for")
            if sequence >= shared.end:
                return
            record = shared.records[sequence - shared.first]
            epoch = max(epoch, record.epoch)
            if record.content is not None and record.epoch == epoch:
                yield Entry(Position(epoch, sequence), record.content)
            sequence += 1

    async def oldest(self) -> int:
        self._shared.check_reachable(self._deployment)
        return self._shared.first

    async def trim(self, to: Position) -> None:
        self._shared.check_reachable(self._deployment)
        self._check_writer()
        if to.sequence > self._shared.end:
            raise ValueError(f"{to} is beyond the end of the log, {self._shared.end}")
        while self._shared.first < to.sequence:
            self._shared.records.popleft()
            self._shared.first += 1

    def kill(self, *, stored: int = 0) -> None:
        """End as a killed process does: ``stored`` of the appends that wait still arrive, and
        nobody is told.
        """
        self._is_closed = True
        for content, waiting in self._pending:
            waiting.cancel()
            if stored and self._epoch == self._shared.epoch:
                self._shared.records.append(Record(self._epoch, content))
                stored -= 1
        self._pending.clear()

    async def close(self) -> None:
        self._is_closed = True
        while self._pending:
            _, stored = self._pending.popleft()
            if not stored.done():
                stored.set_exception(Closed("The log was closed before the entry was stored"))

    def _check_writer(self) -> None:
        if self._epoch == 0 or self._epoch < self._shared.epoch:
            raise self._fenced()

    def _fenced(self) -> Fenced:
        if self._epoch == 0:
            return Fenced("The log was not opened for writing")
        return Fenced(f"Epoch {self._epoch} is over: the log is at {self._shared.epoch}")
