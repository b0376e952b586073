"""Answers of a session's publishes, each once its put has an outcome.

    commands ── PendingPut ──▶ [Confirming] ── ok, or err ──▶ client
                     store ── outcome ──▶ ↑

An answer is written at once. Where that cannot be, because the client reads slowly or somebody else
is sending, one task sends all that wait, in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from mqservice.delivery.pending_put import PendingPut
from mqservice.delivery.produce_answers import BatchAnswer
from mqservice.delivery.socket.codec import encode_problem
from mqservice.errors import problem_from_store
from mqservice.lib.problem import Problem
from mqservice.store import PutResult, StoreError

if TYPE_CHECKING:
    from mqservice.delivery.socket.session import Session

_COUNT_MAX: Final = 64


class Confirming:
    """See the module's docstring. ``count`` are not answered yet, at most ``_COUNT_MAX``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ready: deque[tuple[int | None, PendingPut]] = deque()
        self._is_sending = False
        self._freed = asyncio.Event()
        self.count = 0

    async def wait_for_room(self) -> None:
        """Until one more may be under way."""
        while self.count >= _COUNT_MAX:
            self._freed.clear()
            await self._freed.wait()

    def add(self, command_id: int | None, pending: PendingPut) -> None:
        """Answer the command once its put has an outcome."""
        self.count += 1
        pending.outcomes.add_done_callback(partial(self._decided, command_id, pending))

    def _decided(
        self, command_id: int | None, pending: PendingPut, outcomes: asyncio.Future[list[PutResult]]
    ) -> None:
        if self._session.is_over or outcomes.cancelled():
            self._drop(pending)
            return
        if not self._is_sending and self._session.sender.may_write():
            self._write(command_id, pending)
            return
        self._ready.append((command_id, pending))
        if not self._is_sending:
            self._is_sending = True
            self._session.spawn(self._send())

    def _write(self, command_id: int | None, pending: PendingPut) -> None:
        try:
            frame = self._frame(command_id, pending)
            if frame is not None:
                self._session.sender.write(frame)
        except Exception as exc:
            self._session.failed(exc)
        finally:
            self._free()

    async def _send(self) -> None:
        try:
            while self._ready:
                async with self._session.sender.only_sender() as send:
                    # Not for longer: others have frames to send, too.
                    for _ in range(len(self._ready)):
                        command_id, pending = self._ready.popleft()
                        try:
                            frame = self._frame(command_id, pending)
                            if frame is not None:
                                await send(frame)
                        finally:
                            self._free()
        finally:
            self._is_sending = False
            while self._ready:  # its client is gone, or the session is over
                self._drop(self._ready.popleft()[1])

    def _drop(self, pending: PendingPut) -> None:
        """Tell nobody; but what was stored counts."""
        self._free()
        with contextlib.suppress(Problem, StoreError, asyncio.CancelledError):
            pending.told()

    def _free(self) -> None:
        self.count -= 1
        self._freed.set()

    def _frame(self, command_id: int | None, pending: PendingPut) -> bytes | None:
        codec = self._session.codec
        try:
            _, results = pending.told()
        except Problem as problem:
            return encode_problem(codec, command_id, problem)
        except StoreError as exc:
            return encode_problem(codec, command_id, problem_from_store(exc))
        return (
            None if command_id is None else codec.encode(codec.Ok(command_id, BatchAnswer(results)))
        )
