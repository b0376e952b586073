"""Owners of one log that follow each other without agreeing, and what must hold of what they saw.

owner 1: open ─ append ─ append ─ … ─ Fenced          each append says (epoch, number)
owner 2:            open ─ append ─ trim ─ … (killed)
follower:  read ───── read ────── read                 [Race.check] of all of it
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, NamedTuple, TypeAlias

from storage_engine.replicated_log.errors import Fenced, Trimmed
from storage_engine.replicated_log.port import (
    IN_FLIGHT_MAX,
    START,
    Entry,
    Position,
    ReplicatedLog,
)
from tests.storage_engine.replicated_log.log_kinds import Views

Key: TypeAlias = tuple[int, int]  # epoch, number
BURSTS_MAX: Final = 6


class Opening(NamedTuple):
    epoch: int
    oldest: int
    found: dict[int, Key]  # by sequence


class Race:
    """``pace`` passes some time; how much, it decides."""

    def __init__(self, views: Views, random: Random, pace: Callable[[], Awaitable[None]]) -> None:
        self._views = views
        self._random = random
        self._pace = pace
        self._acknowledged: dict[Position, Key] = {}
        self._openings: list[Opening] = []
        self._seen: dict[int, Key] = {}  # what anybody has read, by sequence
        self._is_over = False
        self.fenced = 0
        self.trims = 0

    async def run(self, *, owners: int) -> None:
        """All of them at once, in a random order of epochs; then look at what is left."""
        epochs = list(range(1, owners + 1))
        if self._random.random() < 0.5:
            self._random.shuffle(epochs)
        follower = asyncio.ensure_future(self._follow())
        await asyncio.gather(*[self._reign(number, epoch) for number, epoch in enumerate(epochs)])
        self._is_over = True
        await follower
        await self._check(self._views.view())

    async def _reign(self, number: int, epoch: int) -> None:
        for _ in range(number * self._random.randrange(4)):
            await self._pace()
        log = self._views.view()
        try:
            end = await log.open(epoch)
            oldest = await log.oldest()
            # By then a newer owner may have written behind the end that this one was told.
            read = await self._read(log, Position(0, oldest))
            found = {at: key for at, key in read.items() if at < end.sequence}
            self._openings.append(Opening(epoch, oldest, found))
            await self._write(log, epoch)
        except Fenced:
            self.fenced += 1
        except Trimmed:  # while it read what it had found: somebody newer is at work
            self.fenced += 1

    async def _write(self, log: ReplicatedLog, epoch: int) -> None:
        numbers = itertools.count()
        for _ in range(self._random.randrange(1, BURSTS_MAX)):
            waiting = []
            for _ in range(self._random.randrange(1, IN_FLIGHT_MAX + 1)):
                number = next(numbers)
                appended = log.append(b"%d:%d" % (epoch, number))
                waiting.append(asyncio.ensure_future(self._acknowledge(appended, (epoch, number))))
            if self._random.random() < 0.1:
                await self._pace()
                for each in waiting:
                    each.cancel()
                return  # as if it was killed: what is on its way arrives, nobody waits for it
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome
            if self._random.random() < 0.3:
                await self._pace()
            mine = [at for at, key in self._acknowledged.items() if key[0] == epoch]
            if self._random.random() < 0.3:
                await log.trim(self._random.choice(mine))
                self.trims += 1

    async def _acknowledge(self, appended: asyncio.Future[Position], key: Key) -> None:
        position = await appended
        assert position not in self._acknowledged
        self._acknowledged[position] = key

    async def _follow(self) -> None:
        log = self._views.view()
        end = START
        while not self._is_over:
            try:
                async for entry in log.read(end):
                    self._note(entry)
                    end = entry.end
            except Trimmed:
                end = Position(end.epoch, await log.oldest())
            await self._pace()

    async def _read(self, log: ReplicatedLog, start: Position) -> dict[int, Key]:
        return {entry.position.sequence: self._note(entry) async for entry in log.read(start)}

    def _note(self, entry: Entry) -> Key:
        """Whoever reads a place finds the same there, always."""
        epoch, number = entry.content.split(b":")
        key = (int(epoch), int(number))
        assert entry.position.epoch == key[0]
        assert self._seen.setdefault(entry.position.sequence, key) == key
        return key

    async def _check(self, log: ReplicatedLog) -> None:
        oldest = await log.oldest()
        left = await self._read(log, Position(0, oldest))
        for position, key in self._acknowledged.items():
            at = position.sequence
            assert at < oldest or left.get(at) == key, f"{key} at {position} was lost"
            for opening in self._openings:
                if key[0] < opening.epoch and at >= opening.oldest:
                    assert opening.found.get(at) == key, f"{key} came after {opening.epoch} opened"
        for at, key in self._seen.items():
            assert at < oldest or left.get(at) == key, f"{key} at {at} was read and is gone"
        ordered = [key for _, key in sorted(self._seen.items())]
        assert ordered == sorted(ordered), "out of order"
        kept = [key for at, key in sorted(left.items()) if at >= oldest]
        for before, after in itertools.pairwise(kept):
            is_next = after == (before[0], before[1] + 1)
            assert is_next or (after[0] > before[0] and after[1] == 0), (before, after)
