"""A log of objects: an object an entry, numbered without gaps, each name written at most once.

    deployment                       whose bucket this is; written once
    wal/SHARD/00000000000000000041   an entry or a fence, put if absent
    wal/SHARD/boundary               the epoch that may write, and the oldest sequence that is kept

A writer has at most IN_FLIGHT_MAX names beyond its last acknowledged entry in the making. Entries
are acknowledged in order, so names exist without gaps up to there.

*Fencing.* The next owner writes its epoch into the boundary. A writer looks there after each of its
puts and acknowledges nothing once a newer epoch is in it: from then on nothing older counts that is
not stored already. Then the owner puts fences at 2 * IN_FLIGHT_MAX names from the first absent one.
Each name ends as an older writer's entry or as a fence. Beyond them, where the owner goes on, no
older writer reaches: its next entry meets a fence. Entries behind a fence of a newer epoch are
leftovers.

*Trimming.* The boundary is moved first. A name that was deleted can be created again, by a writer
that slept meanwhile; whoever has read an object looks at the boundary afterwards.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

from storage_engine.clock import Clock
from storage_engine.replicated_log.bucket import (
    Bucket,
    BucketError,
    BucketRefused,
    BucketUnreachable,
    Version,
)
from storage_engine.replicated_log.errors import (
    Closed,
    Damaged,
    Fenced,
    LogError,
    Trimmed,
    Unavailable,
)
from storage_engine.replicated_log.object_format import Kind, LogObject, encode
from storage_engine.replicated_log.object_requests import ObjectRequests, refuse_newer
from storage_engine.replicated_log.port import (
    IN_FLIGHT_MAX,
    MIB,
    TROUBLE_AFTER_MS,
    Entry,
    Position,
    Trouble,
)

_T = TypeVar("_T")
FENCES: Final = 2 * IN_FLIGHT_MAX
READS_MAX: Final = 8  # at once, of up to 4 MiB each
_SEQUENCE_DIGITS: Final = 20
_NO_BOUNDARY: Final = LogObject(Kind.BOUNDARY, 0, 0, b"")


@dataclass
class _Append:
    sequence: int
    waiting: asyncio.Future[Position]
    since_ms: int
    is_stored: bool = False
    storing: asyncio.Task[None] | None = None


class ObjectLog:
    """See ``port.ReplicatedLog``."""

    entry_bytes_max = 4 * MIB

    def __init__(
        self, bucket: Bucket, *, shard: str, deployment: str, clock: Clock, random: Random
    ) -> None:
        self.linger_ms = bucket.linger_ms
        self._bucket = bucket
        self._requests = ObjectRequests(bucket, deployment=deployment, clock=clock, random=random)
        self._patiently = self._requests.patiently
        self._fetch = self._requests.fetch
        self._prefix = f"wal/{shard}/"
        self._clock = clock
        self._writer = self._requests.writer
        self._epoch = 0
        self._next = 0  # the sequence of the next append
        self._pending: deque[_Append] = deque()  # all from the first that is not acknowledged
        self._acknowledging: asyncio.Task[None] | None = None
        self._end: LogError | None = Fenced("The log was not opened for writing")
        self._last_error: BucketError | None = None

    @property
    def trouble(self) -> Trouble | None:
        if not self._pending:
            return None
        since_ms = self._pending[0].since_ms
        if self._clock.monotonic_ms() - since_ms < TROUBLE_AFTER_MS:
            return None
        says = "refuses" if isinstance(self._last_error, BucketRefused) else "does not answer"
        return Trouble(since_ms, f"The object store {says}: {self._last_error or 'no answer yet'}")

    async def open(self, epoch: int) -> Position:
        if self._end is None and epoch == self._epoch:
            return Position(epoch, self._acknowledged_end)
        await self._requests.check_deployment()
        await self._patiently(lambda: self._claim_epoch(epoch))
        base: int | None = None
        while base is None:
            base = await self._fence_at_end(epoch)
        self._epoch, self._next, self._end = epoch, base + FENCES, None
        return Position(epoch, self._next)

    def append(self, entry: bytes) -> asyncio.Future[Position]:
        assert len(entry) <= self.entry_bytes_max
        if self._end is not None:
            raise self._end
        if len(self._pending) >= IN_FLIGHT_MAX:
            raise Unavailable(f"{IN_FLIGHT_MAX} appends wait already")
        loop = asyncio.get_running_loop()
        append = _Append(self._next, loop.create_future(), self._clock.monotonic_ms())
        self._next += 1
        self._pending.append(append)
        append.storing = loop.create_task(self._store(append, bytes(entry)))
        return append.waiting

    async def read(self, start: Position) -> AsyncIterator[Entry]:
        await self._requests.check_deployment()
        epoch, sequence = start
        reads = 1  # at the end of the log, where a follower asks again and again, one is enough
        while True:
            ahead = range(sequence, sequence + reads)
            found = await asyncio.gather(*[self._object(each) for each in ahead])
            oldest = (await self._boundary()).sequence
            if sequence < oldest:
                raise Trimmed(f"Entries before {oldest} are gone; {sequence} was asked for")
            for each in found:
                if each is None:
                    return
                epoch = max(epoch, each.epoch)
                if each.kind is Kind.ENTRY and each.epoch == epoch:
                    yield Entry(Position(epoch, sequence), each.content)
                sequence += 1
            reads = min(2 * reads, READS_MAX)

    async def oldest(self) -> int:
        await self._requests.check_deployment()
        return (await self._boundary()).sequence

    async def trim(self, to: Position) -> None:
        if self._end is not None:
            raise self._end
        if to.sequence > self._acknowledged_end:
            raise ValueError(f"{to} is beyond the end of the log, {self._acknowledged_end}")
        await self._patiently(lambda: self._move_boundary(to.sequence))
        await self._patiently(self._delete_before_boundary)

    async def close(self) -> None:
        self._stop(Closed("The log was closed"), self._pending)
        if self._acknowledging is not None:
            self._acknowledging.cancel()

    # --- appends -----------------------------------------------------------------------------

    @property
    def _acknowledged_end(self) -> int:
        return self._pending[0].sequence if self._pending else self._next

    async def _store(self, append: _Append, entry: bytes) -> None:
        written = LogObject(Kind.ENTRY, self._epoch, append.sequence, self._writer, entry)
        try:
            found = await self._put_until_known(written)
            if found is not None:
                refuse_newer(self._epoch, self._writer, found)
                raise Damaged(f"{self._name(append.sequence)} was written behind our fences")
        except LogError as exc:
            self._stop(exc, [each for each in self._pending if each.sequence >= append.sequence])
            return
        append.is_stored = True
        if self._acknowledging is None or self._acknowledging.done():
            loop = asyncio.get_running_loop()
            self._acknowledging = loop.create_task(self._acknowledge())

    async def _acknowledge(self) -> None:
        """In order, and only if no newer epoch was in the boundary after they were stored."""
        attempt = 0
        while stored := self._stored_first():
            try:
                refuse_newer(self._epoch, self._writer, await self._boundary_now())
            except BucketError as exc:
                await self._wait_out(exc, attempt)
                attempt += 1
                continue
            except LogError as exc:
                self._stop(exc, self._pending)
                return
            attempt = 0
            for append in stored:
                if self._pending and self._pending[0] is append:
                    self._pending.popleft()
                    _settle(append, Position(self._epoch, append.sequence))

    def _stored_first(self) -> list[_Append]:
        stored: list[_Append] = []
        for append in self._pending:
            if not append.is_stored:
                break
            stored.append(append)
        return stored

    def _stop(self, reason: LogError, ended: Iterable[_Append]) -> None:
        """No more appends; those of ``ended`` fail, any before them are still settled."""
        if self._end is None or isinstance(reason, Closed):
            self._end = reason
        for append in list(ended):
            self._pending.remove(append)
            if append.storing is not None and append.storing is not asyncio.current_task():
                append.storing.cancel()
            if not append.waiting.done():
                append.waiting.set_exception(reason)

    # --- fences ------------------------------------------------------------------------------

    async def _claim_epoch(self, epoch: int) -> None:
        found = await self._fetch(self._boundary_name)
        if found is not None:
            refuse_newer(epoch, self._writer, found[0])
            if found[0].epoch == epoch:
                return
        await self._replace_boundary(found, epoch, found[0].sequence if found else 0)
        raise BucketUnreachable("somebody else claims the log just now")  # read what came of it

    async def _fence_at_end(self, epoch: int) -> int | None:
        """The first of FENCES names that are closed now. None: not yet, an older writer was at work
        there, or the names were trimmed meanwhile.

        That the boundary still has our epoch when we have found the end means that a newer owner
        finds its end there or later, and goes on beyond our fences.
        """
        oldest = (await self._boundary_of(epoch)).sequence
        end = await self._first_absent(oldest)
        if (await self._boundary_of(epoch)).sequence != oldest:
            return None
        are_ours = await asyncio.gather(
            *[self._put_fence(epoch, each) for each in range(end, end + FENCES)]
        )
        is_trimmed = (await self._boundary_of(epoch)).sequence > end
        # One in the first half keeps older writers from reaching beyond the second.
        return end if any(are_ours[:IN_FLIGHT_MAX]) and not is_trimmed else None

    async def _put_fence(self, epoch: int, sequence: int) -> bool:
        fence = LogObject(Kind.FENCE, epoch, sequence, self._writer)
        found = await self._patiently(lambda: self._put(fence))
        if found is not None:
            refuse_newer(epoch, self._writer, found)
        return found is None

    async def _first_absent(self, start: int) -> int:
        """The first name from ``start`` that does not exist. A name that exists has no gap further
        below than FENCES, so halving finds the end but for that; then each name is looked at.
        """
        step = 1
        while await self._exists(start + step):
            step *= 2
        present, absent = start + step // 2, start + step
        while absent - present > FENCES:
            middle = (present + absent) // 2
            if await self._exists(middle):
                present = middle
            else:
                absent = middle
        first = max(start, present - FENCES)
        exist = await asyncio.gather(*[self._exists(each) for each in range(first, absent)])
        return first + (exist.index(False) if False in exist else len(exist))

    # --- the boundary ------------------------------------------------------------------------

    async def _boundary(self) -> LogObject:
        return await self._patiently(self._boundary_now)

    async def _boundary_now(self) -> LogObject:
        found = await self._fetch(self._boundary_name)
        return found[0] if found else _NO_BOUNDARY

    async def _boundary_of(self, epoch: int) -> LogObject:
        """Raises Fenced when it has a newer epoch."""
        boundary = await self._boundary()
        refuse_newer(epoch, self._writer, boundary)
        return boundary

    async def _move_boundary(self, sequence: int) -> None:
        """Forward only."""
        found = await self._fetch(self._boundary_name)
        assert found is not None, "who has opened the log has written it"
        refuse_newer(self._epoch, self._writer, found[0])
        if found[0].sequence < sequence:
            await self._replace_boundary(found, self._epoch, sequence)
            raise BucketUnreachable("somebody else moves it just now")  # read what came of it

    async def _replace_boundary(
        self, found: tuple[LogObject, Version] | None, epoch: int, sequence: int
    ) -> None:
        """Unless somebody else has, meanwhile."""
        boundary = LogObject(Kind.BOUNDARY, epoch, sequence, self._writer)
        version = found[1] if found else None
        await self._bucket.put(self._boundary_name, encode(boundary), version=version)

    async def _delete_before_boundary(self) -> None:
        """All of them: also what a trim left that was interrupted, or a writer that slept."""
        before = self._name((await self._boundary_now()).sequence)
        await self._requests.delete_before(self._prefix, before)

    # --- objects -----------------------------------------------------------------------------

    async def _put(self, written: LogObject) -> LogObject | None:
        """None: it is in the store, now or by an attempt whose answer was lost. Otherwise what has
        its name.
        """
        name = self._name(written.sequence)
        if await self._bucket.put(name, encode(written), version=None):
            return None
        found = await self._fetch(name)
        if found is None:
            raise BucketUnreachable(f"somebody else writes {name} just now")
        return None if found[0] == written else found[0]

    async def _put_until_known(self, written: LogObject) -> LogObject | None:
        attempt = 0
        while True:
            try:
                found = await self._put(written)
            except BucketError as exc:
                await self._wait_out(exc, attempt)
                attempt += 1
                continue
            self._last_error = None
            return found

    async def _object(self, sequence: int) -> LogObject | None:
        found = await self._patiently(lambda: self._fetch(self._name(sequence)))
        if found is None:
            return None
        if found[0].sequence != sequence:
            raise Damaged(f"{self._name(sequence)} was written as {found[0].sequence}")
        return found[0]

    async def _exists(self, sequence: int) -> bool:
        return await self._patiently(lambda: self._bucket.exists(self._name(sequence)))

    async def _wait_out(self, exc: BucketError, attempt: int) -> None:
        self._last_error = exc
        await self._requests.back_off(attempt)

    @property
    def _boundary_name(self) -> str:
        return f"{self._prefix}boundary"

    def _name(self, sequence: int) -> str:
        return f"{self._prefix}{sequence:0{_SEQUENCE_DIGITS}}"


def _settle(append: _Append, position: Position) -> None:
    if not append.waiting.done():
        append.waiting.set_result(position)
