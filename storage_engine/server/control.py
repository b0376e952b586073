"""How a node tells the process of a shard what to be: a line goes in, a line of JSON comes back.

    status         what it is, and how far the replicated log got with it
    own EPOCH      a replica takes the shard over; answered when the log is fenced
    confirm        an owner asks the replicated log whether it still is one, and ends if not;
                   answered when it is
    release        an owner stops in order; answered when the log has everything, or cannot have it
    probe ADDRESS  whether another engine of the shard answers there

The door is a unix socket that only the node's user reaches. Whoever takes over leads the shard's
log with an epoch that the node names; the log decides whether it may (``replication/follower.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Final

import msgspec

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.errors import ConfigInvalid
from storage_engine.replication.replication import Replication
from storage_engine.replication.tail import Tail
from storage_engine.wire.probe import why_silent
from storage_engine.wire.role import Phase, RoleStatus

_LINE_BYTES_MAX: Final = 1_024
_FLUSH_S: Final = 1


class Role:
    """What the process is. Loop thread only."""

    def __init__(self, clock: Clock, stopping: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        self._clock = clock
        self.phase = Phase.FOLLOWING
        self.stopping = stopping
        self.wanted_epoch: asyncio.Future[int] = loop.create_future()
        self._fenced: asyncio.Future[None] = loop.create_future()
        self._released: asyncio.Future[bool] = loop.create_future()
        self._replication: Replication | None = None
        self._tail = Tail()
        self._caught_up_ms: int | None = None

    def caught_up(self, tail: Tail) -> None:
        """A replica has reached the end of the log."""
        self._tail = tail
        self._caught_up_ms = self._clock.monotonic_ms()

    def opens(self, epoch: int) -> None:
        """The log is fenced."""
        self.phase = Phase.OPENING
        self._tail = msgspec.structs.replace(self._tail, epochs=[epoch])
        self._fenced.set_result(None)

    def serves(self, replication: Replication) -> None:
        """Clients are let in."""
        self.phase = Phase.OWNER
        self._replication = replication
        replication.ended = self._ended

    def stops(self) -> None:
        self.phase = Phase.STOPPING

    def _ended(self, is_whole: bool) -> None:
        if not self._released.done():
            self._released.set_result(is_whole)

    @property
    def status(self) -> RoleStatus:
        owner = self._replication
        seen_ms = self._caught_up_ms
        return RoleStatus(
            phase=self.phase,
            epoch=self._tail.epoch if owner is None else owner.epoch,
            log_end=self._tail.log_end if owner is None else owner.confirmed_offset,
            behind_ms=-1 if seen_ms is None else self._clock.monotonic_ms() - seen_ms,
        )

    async def own(self, epoch: int) -> None:
        if self.phase is Phase.FOLLOWING:
            self.phase = Phase.TAKING_OVER
            self.wanted_epoch.set_result(epoch)
        await asyncio.shield(self._fenced)

    async def confirm(self) -> None:
        if self._replication is not None:
            await asyncio.shield(self._replication.confirm())

    async def release(self) -> bool:
        """Whether the log has everything, and nothing more comes. One that owns nothing ends."""
        self.stopping.set()
        if self.phase in (Phase.FOLLOWING, Phase.TAKING_OVER):
            return True
        return await self._released


class Control:
    """The door. Raises ConfigInvalid from ``start``."""

    def __init__(self, role: Role, config: StoreConfig) -> None:
        self._role = role
        self._config = config
        self._server: asyncio.Server | None = None
        self._calls: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        path = self._config.control
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, path, limit=_LINE_BYTES_MAX)
        except OSError as exc:
            raise ConfigInvalid(f"cannot listen on {path}: {exc.strerror}") from exc
        finally:
            os.umask(before)

    async def stop(self) -> None:
        """Answers who waits for a release first."""
        if self._server is not None:
            self._server.close()
        await self.flush()

    async def flush(self) -> None:
        """Let those who wait for a reply have it, before the loop stands still."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=_FLUSH_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            line = await reader.readline()
            writer.write(await self._reply(line.decode("ascii", "replace").split()) + b"\n")
            await writer.drain()
        except (OSError, ValueError, asyncio.CancelledError):
            pass  # the node is gone, or says what it does not mean; or the process ends
        finally:
            self._calls.discard(task)
            writer.close()

    async def _reply(self, words: list[str]) -> bytes:
        role = self._role
        match words:
            case ["status"]:
                return msgspec.json.encode(role.status)
            case ["own", epoch] if epoch.isdecimal():
                await role.own(int(epoch))
                return msgspec.json.encode(role.status)
            case ["confirm"]:
                await role.confirm()
                return msgspec.json.encode(role.status)
            case ["release"]:
                return msgspec.json.encode(await role.release())
            case ["probe", address]:
                config = self._config
                silent = await why_silent(address, shard=config.shard, secret=config.secret)
                return msgspec.json.encode(silent)
        raise ValueError(f"no command {words}")
