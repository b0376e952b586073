"""Ships what is durable on this disk to the replicated log, and knows how far that has it.

    ship() ──▶ [Shipper] ── take, encode (on a thread) ──▶ append, several at once ──▶ log
    arrived() ◀── in the order of the entries ── or failed(error), after which nothing arrives ──┘

Of the log nothing is kept here but the entries on their way: the rest is read from the files when
there is room for more. Loop thread only.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeVar

from storage_engine.clock import Clock
from storage_engine.disk.small_files import FilesKeptChanging
from storage_engine.replicated_log.errors import LogError, Unavailable
from storage_engine.replicated_log.port import Entry, Position, ReplicatedLog
from storage_engine.replication.changes import Change, ChangeReader, entries
from storage_engine.replication.entry import ReplicatedEntry, beginning_anew, encode
from storage_engine.replication.tail import Tail

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

IN_FLIGHT_MAX: Final = 8  # entries; of 4 MiB each at most
_PAUSE_S: Final = 0.05  # before an entry that was not taken is offered again


class _InFlight(NamedTuple):
    """An entry on its way, and since when (monotonic)."""

    entry: ReplicatedEntry
    stored: asyncio.Future[Position]
    since_ms: int


class _Encoded(NamedTuple):
    """An entry and its bytes."""

    entry: ReplicatedEntry
    content: bytes
    is_last: bool  # of its change


class _Taken(NamedTuple):
    """A change, the first of its entries, if there is any, and those that follow."""

    change: Change
    following: Iterator[tuple[ReplicatedEntry, bool]]
    first: _Encoded | None


class Moment(NamedTuple):
    """What a replica is that has applied the log up to ``tail``: its small files, and the log's
    range from ``log_start`` on, of which the owner has only what is above ``local_start`` here.
    """

    tail: Tail
    log_start: int
    local_start: int
    files: Mapping[str, bytes]


class Shipper:
    """See the module's docstring. ``replicated_offset``: the log below it is in the replicated log;
    ``number`` and ``position``: of the newest entry that is, and where reading goes on behind it;
    ``tail``: the same of the newest with which all files are whole. ``appended_ms``: when the log
    was given the newest entry (monotonic).
    """

    def __init__(
        self,
        replicated_log: ReplicatedLog,
        reader: ChangeReader,
        clock: Clock,
        *,
        tail: Tail,
        arrived: Callable[[], None],
        failed: Callable[[LogError], None],
    ) -> None:
        self._log = replicated_log
        self._reader = reader
        self._clock = clock
        self._arrived = arrived
        self._failed = failed
        self._failure: LogError | None = None
        self._epoch = tail.epoch
        self._split_number = tail.split_number
        self._next_number = tail.number + 1
        self._is_first = tail.entry_epoch < tail.epoch
        self._is_whole_due = True  # the epoch's entries do not have all small files yet
        self._in_flight: deque[_InFlight] = deque()
        self._newest: _InFlight  # that the log was given
        self._has_room = asyncio.Event()
        self._shipping = asyncio.Lock()
        self.replicated_offset = 0
        self.number = tail.number
        self.position = tail.position
        self.tail: Tail | None = None
        self.appended_ms = 0
        self.confirmed_ms = 0  # monotonic: when the newest entry that arrived was sent
        self.shipped_bytes = 0

    @property
    def waiting_since_ms(self) -> int | None:
        """When the oldest entry on its way was given to the log; None without one."""
        return self._in_flight[0].since_ms if self._in_flight else None

    @property
    def given_number(self) -> int:
        """Of the newest entry that the log was given."""
        return self._next_number - 1

    @property
    def is_idle(self) -> bool:
        return not self._in_flight

    async def ship(self, *, at_least_one: bool = False) -> bool:
        """Give the log all that has changed; done when it was taken, not when it is there. False:
        files kept changing, and have to be looked at again.

        Raises ``Fenced`` and what else ends a writer; ``OSError`` where a file cannot be read.
        """
        if self._failure is not None:
            raise self._failure
        try:
            async with self._shipping:
                await self._ship(at_least_one=at_least_one or self._is_whole_due)
        except FilesKeptChanging as exc:
            log.warning(
                "Could not take the store's tables at one moment; trying again",
                extra={"action": "replication_postponed", "reason": str(exc)},
            )
            return False
        return True

    async def ship_rest(self) -> None:
        """Until the log has all of a store that nobody changes. Raises as ``ship`` does."""
        while not await self.ship():
            pass
        await self.drain()

    async def ship_whole(self) -> Moment:
        """Ship as well, and return what the store was at that moment; done when the log has it.

        Raises ``FilesKeptChanging`` and as ``ship`` does.
        """
        if self._failure is not None:
            raise self._failure
        async with self._shipping:
            change = await self._ship(at_least_one=True, is_whole=True)
            entry, stored, _ = self._newest
        while self.number < entry.number:
            if self._failure is not None:
                raise self._failure
            self._has_room.clear()
            await self._has_room.wait()
        tail = Tail(
            entry_epoch=self._epoch,
            number=entry.number,
            log_end=entry.log_end,
            position=Entry(stored.result(), b"").end,
            split_number=self._split_number,
        )
        return Moment(tail, change.log_start, change.local_start, change.whole)

    async def _ship(self, *, at_least_one: bool, is_whole: bool = False) -> Change:
        sent_to = self._reader.log_end
        is_sent = False
        try:
            take = partial(self._take, at_least_one=at_least_one, is_whole=is_whole)
            change, made, encoded = await on_thread(take)
            while encoded is not None:
                await self._append(encoded.entry, encoded.content)
                sent_to = encoded.entry.log_end
                if encoded.is_last:
                    break
                encoded = await on_thread(partial(_next_encoded, made))
            is_sent = True
            self._is_whole_due = False
            return change
        finally:
            if not is_sent:
                self._reader.forget(log_from=sent_to)

    async def begin_anew(self, split_number: int, *, log_end: int) -> None:
        """Say in the log that the store is from now on what a split has made; the last of this
        writer. ``log_end``: of that. Raises as ``ship`` does.
        """
        async with self._shipping:
            entry = beginning_anew(
                self._epoch,
                self._next_number,
                log_end=log_end,
                segment_bytes=self._reader.segment_bytes,
                split_number=split_number,
            )
            await self._append(entry, encode(entry))
        await self.drain()

    async def drain(self) -> None:
        """Until the log has all that it was given. Raises what ended the writer."""
        while self._in_flight:
            if self._failure is not None:
                raise self._failure
            self._has_room.clear()
            await self._has_room.wait()

    async def close(self) -> None:
        """Let go of the files; nothing is shipped any more. Waits for a thread that reads them."""
        async with self._shipping:
            self._reader.close()

    def _take(self, *, at_least_one: bool, is_whole: bool) -> _Taken:
        """What has changed, and the first entry of it. Not on the loop's thread, which waits."""
        change = self._reader.take(is_whole=is_whole)
        if change.is_empty and not at_least_one:
            return _Taken(change, iter(()), None)
        made = entries(
            change,
            self._reader,
            epoch=self._epoch,
            number=self._next_number,
            bytes_max=self._log.entry_bytes_max,
            is_first=self._is_first,
            is_whole=self._is_whole_due,
        )
        return _Taken(change, made, _next_encoded(made))

    async def _append(self, entry: ReplicatedEntry, content: bytes) -> None:
        while True:
            if self._failure is not None:
                raise self._failure
            if len(self._in_flight) < IN_FLIGHT_MAX:
                try:
                    stored = self._log.append(content)
                    break
                except Unavailable:  # another writer of this process fills it
                    await asyncio.sleep(_PAUSE_S)
                    continue
            self._has_room.clear()
            await self._has_room.wait()
        self._is_first = False
        self._next_number = entry.number + 1
        self.appended_ms = self._clock.monotonic_ms()
        self._newest = _InFlight(entry, stored, self.appended_ms)
        self._in_flight.append(self._newest)
        self.shipped_bytes += len(content)
        stored.add_done_callback(self._ended)

    def _ended(self, _: asyncio.Future[Position]) -> None:
        """One more is there: all whose predecessors are there too have arrived."""
        while self._in_flight and self._in_flight[0].stored.done():
            entry, stored, since_ms = self._in_flight[0]
            if stored.cancelled():
                break
            error = stored.exception()
            if error is not None:
                assert isinstance(error, LogError), error
                self._fail(error)
                break
            self._in_flight.popleft()
            self.number, self.position = entry.number, Entry(stored.result(), b"").end
            self.confirmed_ms = since_ms
            if not entry.is_cut and not entry.split_number:
                self.replicated_offset = max(self.replicated_offset, entry.log_end)
                self.tail = Tail(
                    entry_epoch=entry.epoch,
                    number=entry.number,
                    log_end=entry.log_end,
                    position=self.position,
                    split_number=self._split_number,
                )
        self._has_room.set()
        if self._failure is None:
            self._arrived()

    def _fail(self, error: LogError) -> None:
        if self._failure is None:
            self._failure = error
            self._failed(error)


async def on_thread(work: Callable[[], ResultT]) -> ResultT:
    """The work is over on return, also where this is cancelled: nobody else may use the reader, or
    the store's directory, before.
    """
    working = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        working.exception()  # nobody else hears of it
        raise


def _next_encoded(made: Iterator[tuple[ReplicatedEntry, bool]]) -> _Encoded:
    """The next entry and its bytes; reads the log. Any thread."""
    entry, is_last = next(made)
    return _Encoded(entry, encode(entry), is_last)
