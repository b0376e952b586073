"""Which shards of this machine it owns: its processes follow, take over, and give up.

    row of the shard ─┐                          ┌─▶ beat, follow, claim, give up ──▶ row
    its process ──────┴─▶ [decide] ──▶ Action ───┴─▶ own, confirm, release ──▶ process

A process always begins as a replica. It takes over when nobody owns the shard, when its owner gave
it up, or when the owner was silent for 5 s in the database *and* does not answer at its address.
Before, this node writes itself and the next epoch into the row, if nobody was faster; then the
replicated log decides. While PostgreSQL is away nobody takes anything over, and owners serve on.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import shutil
import socket
import time
from collections.abc import Callable, Iterable
from typing import Final

import psycopg

from mqservice.lib.notifications import payloads
from mqservice.lib.shard_liveness import HEARTBEAT_MS, SILENT_MS
from mqservice.supervisor.engine_control import EngineControl, could_take_over
from mqservice.supervisor.shard_engines import ShardPlace
from mqservice.supervisor.shard_table import CHANNEL, ShardRow, ShardTable, Takeover
from storage_engine.wire.role import Phase, RoleStatus

_SOON_MS: Final = 20  # until a process is looked at again that changes what it is
_STARTING_MS: Final = 200  # the same where its own engine starts again and reads its log
_CHANGING: Final = frozenset({Phase.TAKING_OVER, Phase.STOPPING, Phase.BUSY})
_RETRY_MS: Final = 5_000  # after a takeover that came to nothing
_MS: Final = 1_000


class Action(enum.StrEnum):
    """What to do about a shard now."""

    BEAT = "beat"  # it is ours: say so
    CONFIRM = "confirm"  # another node was told to take it: ask the log whose it is
    RELEASE = "release"  # another node shall have it
    CLAIM = "claim"  # nobody has it: take it over
    CLAIM_IF_SILENT = "claim_if_silent"  # the same, unless its owner answers
    FOLLOW = "follow"  # another node has it


def decide(row: ShardRow | None, status: RoleStatus, *, node: str, is_home: bool) -> Action:
    """Of a process that is a replica or an owner. ``is_home``: this node takes a shard that nobody
    ever had.
    """
    if status.phase is not Phase.FOLLOWING:
        if row is not None and row.owner != node and row.epoch > status.epoch:
            return Action.CONFIRM
        is_mine = row is not None and row.owner == node and status.phase is Phase.OWNER
        if row is not None and is_mine and row.move_to not in ("", node):
            return Action.RELEASE
        return Action.BEAT
    if not could_take_over(status):
        return Action.FOLLOW
    return _of_replica(row, node=node, is_home=is_home)


def _of_replica(row: ShardRow | None, *, node: str, is_home: bool) -> Action:
    if row is None or (not row.epoch and row.silent_ms is None):
        return Action.CLAIM if is_home else Action.FOLLOW
    if row.owner == node:
        return Action.CLAIM
    is_silent = row.silent_ms is None or row.silent_ms > SILENT_MS
    if not row.owner:
        return Action.CLAIM if is_silent or row.move_to in ("", node) else Action.FOLLOW
    return Action.CLAIM_IF_SILENT if is_silent else Action.FOLLOW


class ShardOwners:
    """Looks after the shards of ``places`` until ``stop``."""

    def __init__(
        self,
        places: Iterable[ShardPlace],
        *,
        database_url: str,
        node: str,
        note: Callable[[str], None],
    ) -> None:
        node = node or socket.gethostname()
        self._table = ShardTable(database_url, node=node)
        self._note = note
        self._keepers = [_Keeper(place, self._table, node=node, note=note) for place in places]
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(each.run()) for each in self._keepers]
        self._tasks.append(asyncio.create_task(self._listen()))

    async def settled(self, timeout_s: float) -> None:
        """Until it is known of each shard who has it, or the time is over."""
        waiting = [asyncio.ensure_future(each.is_settled.wait()) for each in self._keepers]
        _, pending = await asyncio.wait(waiting, timeout=timeout_s)
        for each in pending:
            each.cancel()

    async def opened(self, shard: str) -> None:
        """While a shard's engine recovers its store, or uploads one, before it serves: hours, of a
        large one.
        """
        for keeper in self._keepers:
            while keeper.place.name == shard and keeper.is_opening:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_MS / _MS):
                        await keeper.is_settled.wait()

    async def stop(self) -> None:
        """Give up what is owned, so that others take it over at once."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(each.give_up() for each in self._keepers))
        await self._table.close()

    async def _listen(self) -> None:
        """Changes of rows are acted on at once; without notifications within a second."""
        while True:
            with contextlib.suppress(psycopg.Error, OSError):
                async with await self._table.connect() as connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    async for shard in payloads(connection):
                        for keeper in self._keepers:
                            if keeper.place.name == shard:
                                keeper.hurry.set()
            await asyncio.sleep(HEARTBEAT_MS / _MS)


class _Keeper:
    """One shard. ``hurry``: its row has changed."""

    def __init__(
        self, place: ShardPlace, table: ShardTable, *, node: str, note: Callable[[str], None]
    ) -> None:
        self.place = place
        self.hurry = asyncio.Event()
        self.is_settled = asyncio.Event()
        self._table = table
        self._node = node
        self._note = note
        self._control = EngineControl(place.control)
        self._row: ShardRow | None = None  # as last read
        self._opening_epoch = 0  # of a process that has fenced the log and recovers its store
        self._taken: Takeover | None = None  # not in the audit yet
        self._retry_ms = 0  # no attempt to take over before
        self._said = ""

    @property
    def is_opening(self) -> bool:
        """Whether its engine owns the shard and does not serve yet."""
        return self._opening_epoch != 0 and not self.is_settled.is_set()

    async def run(self) -> None:
        while True:
            try:
                wait_ms = await self._step()
            except (psycopg.Error, OSError) as error:
                self._say(f"the database is unavailable; the shard keeps its owner: {error}")
                wait_ms = HEARTBEAT_MS
                await self._restart_own()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / _MS):
                    await self.hurry.wait()
            self.hurry.clear()

    async def _step(self) -> int:
        """Do what is to be done now. How long to wait then."""
        name = self.place.name
        status = await self._status()
        if status is None or status.phase in _CHANGING:
            return _SOON_MS
        row = self._row = await self._table.find(name)
        action = decide(row, status, node=self._node, is_home=self.place.is_home)
        if action in (Action.BEAT, Action.CONFIRM, Action.RELEASE):
            return await self._keep(action, status)
        if row is not None:
            await self._table.follow(name, log_end=status.log_end, behind_ms=status.behind_ms)
        if action is Action.FOLLOW or _now_ms() < self._retry_ms:
            if row is not None and row.owner not in ("", self._node):
                self._say(f"{row.owner} owns it; this machine has a replica")
                self.is_settled.set()
            is_starting = row is not None and row.owner == self._node
            return _STARTING_MS if is_starting else HEARTBEAT_MS
        is_own = row is not None and row.owner == self._node
        is_moved = row is not None and row.move_to == self._node
        why = "its engine starts again" if is_own else "nobody owns it"
        why = "it was moved here" if is_moved else why
        if action is Action.CLAIM_IF_SILENT:
            assert row is not None
            reason = await self._control.why_silent(row.address)
            if not reason:
                self._say(f"{row.owner} is cut off from the database, but serves it")
                return HEARTBEAT_MS
            why = f"nothing was heard of {row.owner} for {row.silent_ms} ms; {reason}"
        await self._claim(row, status, why)
        return _SOON_MS

    async def _status(self) -> RoleStatus | None:
        """One that recovers a store has no time to answer."""
        status = await self._control.status()
        if status is None or status.phase is not Phase.BUSY:
            if status is None or status.phase is not Phase.OPENING:
                self._opening_epoch = 0
            return status
        if self._opening_epoch:
            return RoleStatus(phase=Phase.OPENING, epoch=self._opening_epoch)
        return status

    async def _keep(self, action: Action, status: RoleStatus) -> int:
        """It is ours."""
        place = self.place
        if action is Action.RELEASE:
            await self._move(status)
            return _SOON_MS
        if action is Action.CONFIRM and not await self._control.confirm():
            self._say("another node was told to take it over; the replicated log decides")
            return HEARTBEAT_MS
        is_serving = status.phase is Phase.OWNER
        is_known = await self._table.beat(
            place.name,
            epoch=status.epoch,
            address=place.published if is_serving else "",
            free_bytes=shutil.disk_usage(place.store).free,
            log_end=status.log_end,
        )
        if is_serving:
            self.is_settled.set()
            self._say(
                f"this machine owns it, epoch {status.epoch}"
                if is_known
                else "another node says that it owns it too; the replicated log decides"
            )
            if is_known:
                await self._audit(status.epoch)
        return HEARTBEAT_MS if is_serving else _SOON_MS

    async def _audit(self, epoch: int) -> None:
        """Once, when it serves: what came to nothing is no takeover."""
        if self._taken is not None and self._taken.epoch == epoch:
            await self._table.audit(self.place.name, self._taken)
        self._taken = None

    async def _claim(self, row: ShardRow | None, status: RoleStatus, why: str) -> None:
        epoch = max(status.epoch, row.epoch if row is not None else 0) + 1
        if not await self._table.claim(self.place.name, row, epoch=epoch):
            return  # another node was faster
        self._say(f"taking it over with epoch {epoch}: {why}")
        if row is None or row.owner != self._node:
            previous = "" if row is None else row.owner
            self._taken = Takeover(epoch, previous, why)
        else:
            self._taken = None
        # Who starts again is heard of only when it serves, so that others may be faster.
        beating = None if self._taken is None else asyncio.create_task(self._beat_for_now(epoch))
        try:
            is_own = await self._own(epoch)
        finally:
            if beating is not None:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)
        if not is_own:
            await self._table.give_up(self.place.name, epoch=epoch)

    async def _beat_for_now(self, epoch: int) -> None:
        """While it takes the shard over: fencing a slow log takes longer than a silent node has."""
        while True:
            await asyncio.sleep(HEARTBEAT_MS / _MS)
            with contextlib.suppress(psycopg.Error, OSError):
                await self._table.try_on(self.place.name, epoch=epoch)

    async def _own(self, epoch: int) -> bool:
        if await self._control.own(epoch):
            self._opening_epoch = epoch
            return True
        self._retry_ms = _now_ms() + _RETRY_MS
        self._say(f"could not take it over with epoch {epoch}; its log file says why")
        await self._control.release()  # it must not get through later
        return False

    async def _restart_own(self) -> None:
        """Without PostgreSQL an engine that ended may still own its shard again."""
        row, status = self._row, await self._status()
        if row is None or status is None or row.owner != self._node:
            return
        if _now_ms() >= self._retry_ms and could_take_over(status):
            await self._own(max(status.epoch, row.epoch) + 1)

    async def _move(self, status: RoleStatus) -> None:
        """Give it to the node that shall have it."""
        assert self._row is not None
        self._say(f"giving it to {self._row.move_to}")
        if await self._control.release():
            await self._table.give_up(self.place.name, epoch=self._row.epoch)
        else:
            self._say("kept it: the replicated log does not have all of it")
            await self._table.stay(self.place.name)

    async def give_up(self) -> None:
        """This machine stops. Without the database others wait for 5 s of silence."""
        status = await self._control.status()
        if status is None or status.phase is not Phase.OWNER:
            return
        if await self._control.release():
            with contextlib.suppress(psycopg.Error, OSError):
                row = await self._table.find(self.place.name)
                if row is not None:
                    await self._table.give_up(self.place.name, epoch=row.epoch)

    def _say(self, text: str) -> None:
        """Once, and not each second."""
        if text != self._said:
            self._note(f"shard {self.place.name}: {text}")
        self._said = text


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
