"""Answers of a session's publishes, each once its put has an outcome.

    commands ── Put ──▶ [PublishConfirms] ─ ok, or err ──▶ client
                     store ── outcome ──▶ ↑

An answer is written at once. Where that cannot be, because the client reads slowly or somebody else
is sending, one task sends all that wait, in their order. So it is when the session's part of the
turn is used up: the engine answers many puts at once, and each answer is some work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from mqservice.delivery.produce.produce_responses import BatchResponse
from mqservice.delivery.produce.put import Put
from mqservice.delivery.socket.codec import encode_problem
from mqservice.errors import problem_from_store
from mqservice.lib.problem import Problem
from mqservice.store import StoreError

if TYPE_CHECKING:
    from mqservice.delivery.socket.session import Session

_COUNT_MAX: Final = 64
_MESSAGES_MAX: Final = 4_000  # of all of them, or one publish


class PublishConfirms:
    """See the module's docstring. ``count`` are not answered yet, at most ``_COUNT_MAX``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ready: deque[tuple[int | None, Put, int]] = deque()
        self._is_sending = False
        self._freed = asyncio.Event()
        self.count = 0
        self._message_count = 0

    async def wait_for_room(self, message_count: int = 1) -> None:
        """Until one more publish, of so many messages, may be under way."""
        while self.count >= _COUNT_MAX or (
            self.count and self._message_count + message_count > _MESSAGES_MAX
        ):
            self._freed.clear()
            await self._freed.wait()

    def hand_over(self, command_id: int | None, put: Put, message_count: int = 1) -> None:
        """Give the put to the store and answer the command once it has an outcome.

        Raises Problem or StoreError, with nothing stored.
        """
        put.send_to_store(partial(self._decided, command_id, put, message_count))
        self.count += 1
        self._message_count += message_count

    def _decided(self, command_id: int | None, put: Put, message_count: int) -> None:
        session = self._session
        if session.is_closed:
            self._drop(put, message_count)
            return
        budget = session.budget
        if not self._is_sending and session.sender.may_write() and not budget.is_turn_over:
            began_ns = budget.now_ns()
            self._write(command_id, put, message_count)
            budget.charge_since(began_ns)
            return
        self._ready.append((command_id, put, message_count))
        if not self._is_sending:
            self._is_sending = True
            self._session.spawn(self._send())

    def _write(self, command_id: int | None, put: Put, message_count: int) -> None:
        try:
            frame = self._frame(command_id, put)
            if frame is not None:
                self._session.sender.write(frame)
        except Exception as exc:
            self._session.failed(exc)
        finally:
            self._free(message_count)

    async def _send(self) -> None:
        budget = self._session.budget
        try:
            while self._ready:
                await budget.give_way()
                async with self._session.sender.only_sender() as send:
                    # Not for longer: others have frames to send, too.
                    for _ in range(len(self._ready)):
                        command_id, put, message_count = self._ready.popleft()
                        began_ns = budget.now_ns()
                        try:
                            frame = self._frame(command_id, put)
                            budget.charge_since(began_ns)
                            if frame is not None:
                                await send(frame)
                        finally:
                            self._free(message_count)
                        if budget.is_turn_over:
                            break
        finally:
            self._is_sending = False
            while self._ready:  # its client is gone, or the session is over
                _, put, message_count = self._ready.popleft()
                self._drop(put, message_count)

    def _drop(self, put: Put, message_count: int) -> None:
        """Answer nobody; but count what was stored."""
        self._free(message_count)
        with contextlib.suppress(Exception):  # whatever went wrong, there is nobody to answer
            put.results()

    def _free(self, message_count: int) -> None:
        self.count -= 1
        self._message_count -= message_count
        self._freed.set()

    def _frame(self, command_id: int | None, put: Put) -> bytes | None:
        codec = self._session.codec
        try:
            _, results = put.results()
        except Problem as problem:
            return encode_problem(codec, command_id, problem)
        except StoreError as exc:
            return encode_problem(codec, command_id, problem_from_store(exc))
        return (
            None
            if command_id is None
            else codec.encode(codec.Ok(command_id, BatchResponse(results)))
        )
