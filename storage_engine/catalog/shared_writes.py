"""Group commit of a table's file: changes that arrive during a write share the next one.

    server ── put(config, answer) ──▶ [SharedWrites] ── all that wait, one file ──▶ thread ──▶ disk
    server ◀── answer, once its change is durable ── memory as the disk ◀── done ─────┘
    engine ── put_now, settle ──▶ waits for the write under way; then one of its own

A change is judged when its write begins, by what all before it leave behind, so they take effect in
the order in which they came. Memory follows the disk: nobody sees a change that is not durable. A
write that fails fails those that waited for it, and nothing of it is seen. Loop thread only; the
file is written on a thread, so that puts and deliveries go on meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Final, Generic

from storage_engine.catalog.config_table import ConfigT, ConfigTable, ExtraT, Staged
from storage_engine.errors import ShuttingDown, StoreBusy, StoreError, SyncFailed

log = logging.getLogger(__name__)

WAITING_COUNT_MAX: Final = 10_000  # changes that no write has begun with

Reply = Callable[[StoreError | None], None]


class _PendingWrite(Generic[ConfigT, ExtraT]):
    """A file that is being written: what it says, and who waits for it."""

    __slots__ = ("before", "changes", "error", "future", "is_started", "replies", "staged")

    def __init__(
        self,
        before: Mapping[str, ConfigT],
        changes: list[ConfigT],
        replies: list[Reply],
        staged: Staged[ConfigT, ExtraT],
        future: Future[None],
    ) -> None:
        self.before = before
        self.changes = changes
        self.replies = replies
        self.staged = staged
        self.future = future
        self.is_started = False
        self.error: StoreError | None = None


class SharedWrites(Generic[ConfigT, ExtraT]):
    """See the module's docstring.

    ``is_change(config, configs)`` says whether a change makes a difference to those, or raises
    ``StoreError`` when it is refused. ``taken(config)`` is called as soon as memory has it,
    ``told(before, config)`` when nothing else is under way.
    """

    def __init__(
        self,
        table: ConfigTable[ConfigT, ExtraT],
        is_change: Callable[[ConfigT, Mapping[str, ConfigT]], bool],
        taken: Callable[[ConfigT], None],
        told: Callable[[Mapping[str, ConfigT], ConfigT], None],
    ) -> None:
        self._table = table
        self._is_change = is_change
        self._taken = taken
        self._told = told
        self._loop: asyncio.AbstractEventLoop
        self._executor: Executor
        self._waiting: list[tuple[ConfigT, Reply]] = []
        self._running: _PendingWrite[ConfigT, ExtraT] | None = None
        self._has_turn = False
        self._is_stopped = False
        self.write_count = 0

    def start(self, loop: asyncio.AbstractEventLoop, executor: Executor) -> None:
        """From now on ``put`` may be called."""
        self._loop, self._executor = loop, executor

    def stop(self) -> None:
        """Write what waits, and answer; blocks for two writes at most. Then nothing is taken."""
        self._is_stopped = True
        self.finish()

    def finish(self) -> None:
        """Write what waits, and answer; blocks for two writes at most."""
        while self._running is not None or self._waiting:
            if self._running is None:
                self._start_write()
            else:
                self._finish_write(self._running)

    def put(self, config: ConfigT, answer: Reply) -> None:
        """Add or change one; ``answer`` is called once it is durable, or with why it is not."""
        if self._is_stopped:
            answer(ShuttingDown("the engine is stopping"))
            return
        if len(self._waiting) >= WAITING_COUNT_MAX:
            answer(
                StoreBusy(
                    f"{len(self._waiting)} changes are waiting for the disk already; try "
                    "again later"
                )
            )
            return
        self._waiting.append((config, answer))
        if self._running is None and not self._has_turn:
            self._has_turn = True
            self._loop.call_soon(self._turn)  # what else has come in shares it

    def put_now(self, config: ConfigT) -> None:
        """Add or change one; durable on return (two fsyncs, and what is under way before).

        Raises what ``is_change`` does, ``DiskFull``, ``SyncFailed``.
        """
        self.settle()
        before = self._table.configs
        if self._is_change(config, before):
            self._table.change(self._table.staged([config]))
            self.write_count += 1
            self._taken(config)
            self._told(before, config)

    def settle(self) -> None:
        """Wait for the write under way, and let memory be as the disk; its answers come later.

        Before whatever else changes the table, or is decided by it and must stay true.
        """
        write = self._running
        if write is None or write.is_started:
            return
        write.is_started = True
        self.write_count += 1
        error = write.future.exception()
        if error is None:
            self._table.take(write.staged)
            for config in write.changes:
                self._taken(config)
        else:
            log.error(
                "Could not save changed settings of topics or groups",
                extra={"action": "settings_write_failed", "reason": str(error)},
            )
            write.error = error if isinstance(error, StoreError) else SyncFailed(str(error))

    def _turn(self) -> None:
        self._has_turn = False
        if self._running is None:
            self._start_write()

    def _start_write(self) -> None:
        """Judge all that wait, in order, and write what they leave behind."""
        waiting, self._waiting = self._waiting, []
        before = self._table.configs
        after = dict(before)
        changed: set[str] = set()
        changes: list[ConfigT] = []
        answers: list[Reply] = []
        for config, answer in waiting:
            name = self._table.name_of(config)
            try:
                is_change = self._is_change(config, after)
            except StoreError as exc:
                answer(exc)
                continue
            if is_change:
                after[name] = config
                changed.add(name)
                changes.append(config)
            if name in changed:
                answers.append(answer)
            else:
                answer(None)
        if not changes:
            return
        staged = self._table.staged(changes)
        future = self._executor.submit(self._table.write, staged)
        write = self._running = _PendingWrite(before, changes, answers, staged, future)
        future.add_done_callback(
            lambda _: self._loop.call_soon_threadsafe(self._finish_write, write)
        )

    def _finish_write(self, write: _PendingWrite[ConfigT, ExtraT]) -> None:
        if write is not self._running:
            return  # ``stop`` did not wait for the loop
        self.settle()
        self._running = None
        if write.error is None:
            for config in write.changes:
                self._send_replies(write.before, config)
        for answer in write.replies:
            answer(write.error)
        if self._waiting:
            self._start_write()

    def _send_replies(self, before: Mapping[str, ConfigT], config: ConfigT) -> None:
        try:
            self._told(before, config)
        except StoreError as exc:  # it is true all the same, and durable
            log.warning(
                "Saved a changed setting but could not apply all of it to running deliveries",
                extra={"action": "settings_apply_failed", "reason": str(exc)},
            )
