"""What the engine asks of a distributed store: one log for a shard, one writer at a time.

    open(5) ─▶ fence 5 ─▶ append, append, …        read(START) ─▶ entries of every epoch, in order
                            ▲
    an older writer's append here meets the fence and raises Fenced; readers skip its leftovers

Each adapter keeps this; one conformance suite (``tests/storage_engine/replicated_log``) shows it:

1. An append that was acknowledged is read by everybody from then on, until it is trimmed.
2. Entries are read in the order of the calls of ``append``, those of an older epoch first.
3. Once ``open`` has returned, no older epoch gets an acknowledgement for an entry that was not
   already part of what ``open`` found.
4. An append whose outcome is not known yet (a timeout, a lost connection) stays pending, is settled
   by the adapter, and keeps its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

# Appends that wait at once. Part of the object format: it says how far beyond its last acknowledged
# entry a writer can have written, hence how many names a fence must close (``object_log``).
IN_FLIGHT_MAX: Final = 16
# An append that waits as long is told of as trouble.
TROUBLE_AFTER_MS: Final = 2_000
KIB: Final = 1024
MIB: Final = 1024 * KIB


class Position(NamedTuple):
    """A place in a log. To be kept and handed back whole, never computed: ``epoch`` tells a reader
    which entries behind it are leftovers of older writers. Positions of one log are ordered.
    """

    epoch: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """The reverse of ``str``. Raises ``ValueError``."""
        epoch, sequence = text.split("-")
        return cls(int(epoch), int(sequence))


START: Final = Position(0, 0)


class Entry(NamedTuple):
    position: Position
    content: bytes

    @property
    def end(self) -> Position:
        """Where reading goes on after this entry; also what to trim to when it is covered."""
        return Position(self.position.epoch, self.position.sequence + 1)


@dataclass(frozen=True)
class Trouble:
    """Why appends do not get through at present. They wait, in order, until it is over."""

    since_ms: int  # Clock.monotonic_ms
    reason: str


class ReplicatedLog(Protocol):
    """The log of one shard. One object has one event loop; only ``open`` makes it a writer."""

    @property
    def entry_bytes_max(self) -> int:
        """The largest entry that ``append`` takes."""

    @property
    def linger_ms(self) -> int:
        """How long after an entry the next may follow, unless it is large: what balances latency
        and requests.
        """

    @property
    def trouble(self) -> Trouble | None:
        """Set while an append does not get through for TROUBLE_AFTER_MS; it is tried for ever."""

    async def open(self, epoch: int) -> Position:
        """Fence every older epoch and return the end of the log, where the next entry will be.

        Everything before it is durable. May be called again with the same epoch after Unavailable.
        Raises Fenced when the log has seen this epoch or a newer one, Unavailable after about ten
        seconds without an answer, Misconfigured, Damaged.
        """

    def append(self, entry: bytes) -> asyncio.Future[Position]:
        """Take an entry; the order of calls is the order in the log. Done when it is durable there,
        with its position. Cancelling it only ends the waiting.

        Raises at once, with nothing taken: Unavailable when IN_FLIGHT_MAX appends wait, Fenced,
        Closed. What was taken waits while there is ``trouble`` and ends as durable, Fenced or
        Closed. The last two say only that nobody will tell: the next owner may have found it.
        """

    def read(self, start: Position) -> AsyncIterator[Entry]:
        """Entries from ``start`` (START, a position from ``open``, ``append`` or ``Entry.end``) to
        the present end of the log, without leftovers of fenced writers. Needs no ``open``. Raises
        Trimmed, Unavailable, Damaged, Misconfigured.
        """

    async def oldest(self) -> int:
        """The lowest ``sequence`` that can still be read. Raises Unavailable, Misconfigured."""

    async def trim(self, to: Position) -> None:
        """Give up everything before ``to``, which the caller has in a snapshot. For the writer
        only. Raises Fenced, Unavailable, and ``ValueError`` for a position that is not durable yet.
        """

    async def close(self) -> None:
        """Stop. Appends that wait end as Closed."""
