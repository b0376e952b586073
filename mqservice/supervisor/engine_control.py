"""Talks to the process of a shard that has a replicated log: what it is, and what it shall be.

    [EngineControl] ── a line ──▶ unix socket ──▶ ``storage_engine follow`` ── a line of JSON ──▶

The commands are described where they are carried out, in ``storage_engine/server/control.py``.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from mqservice.lib.shard_liveness import BEHIND_MS_MAX
from storage_engine.wire.role import Phase, RoleStatus

STATUS_TIMEOUT_S: Final = 1.0
PROBE_TIMEOUT_S: Final = 3.0
OWN_TIMEOUT_S: Final = 20.0  # then the replicated log cannot be reached from here
RELEASE_TIMEOUT_S: Final = 20.0
_REPLY_BYTES_MAX: Final = 4_096

ReplyT = TypeVar("ReplyT")


def could_take_over(status: RoleStatus) -> bool:
    """Whether the process is a replica that lately was at the end of its log."""
    return status.phase is Phase.FOLLOWING and 0 <= status.behind_ms <= BEHIND_MS_MAX


class EngineControl:
    """The door of one process, which may not be there."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def status(self) -> RoleStatus | None:
        """None where no process is."""
        try:
            return await self._ask("status", RoleStatus, STATUS_TIMEOUT_S)
        except (TimeoutError, BlockingIOError):  # the latter: too many have asked in vain
            return RoleStatus(phase=Phase.BUSY)
        except OSError:
            return None

    async def own(self, epoch: int) -> bool:
        """Have it take the shard over. Whether the log is fenced, and the shard so its own."""
        reply = await self._find(f"own {epoch}", RoleStatus, OWN_TIMEOUT_S)
        return reply is not None and reply.phase is Phase.OPENING

    async def confirm(self) -> bool:
        """Whether the replicated log says that it still is the owner."""
        return await self._find("confirm", RoleStatus, OWN_TIMEOUT_S) is not None

    async def release(self) -> bool:
        """Have it stop in order. Whether the replicated log has everything then."""
        return await self._find("release", bool, RELEASE_TIMEOUT_S) is True

    async def why_silent(self, address: str) -> str:
        """Why the engine at ``address`` does not answer; empty when it does."""
        found = await self._find(f"probe {address}", str, PROBE_TIMEOUT_S)
        return "nobody could ask it" if found is None else found

    async def _find(self, line: str, kind: type[ReplyT], timeout_s: float) -> ReplyT | None:
        try:
            return await self._ask(line, kind, timeout_s)
        except (OSError, TimeoutError):
            return None

    async def _ask(self, line: str, kind: type[ReplyT], timeout_s: float) -> ReplyT:
        """Raises ``OSError``, of which ``TimeoutError`` is one."""
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_unix_connection(
                str(self._path), limit=_REPLY_BYTES_MAX
            )
            try:
                writer.write(line.encode() + b"\n")
                reply = await reader.readline()
            finally:
                writer.close()
        try:
            return msgspec.json.decode(reply, type=kind)
        except msgspec.MsgspecError as exc:  # it ended
            raise ConnectionResetError(f"no reply to {line}") from exc
