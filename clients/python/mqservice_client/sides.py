"""Where the two kinds of clients differ: on an event loop, or on threads beside one.

    aio/*.py  ─▶ AsyncSide ─▶ the program's loop
    sync/*.py ─▶ SyncSide ──▶ a loop on a thread of its own, one for each client

``sync`` is made from ``aio`` by ``python -m clients.generate``, which takes ``await`` and
``async`` out: so each method here has the same name and arguments on both sides.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent import futures
from typing import Any, TypeVar

from .accumulator import Chunk
from .batch_core import BatchCore
from .caller import closed_meanwhile
from .errors import ClientClosed, UsageError
from .runtime import Reading, Runtime, forked_error

T = TypeVar("T")
STOP_WAIT_S = 5.0
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class AsyncSide:
    """Runs on the loop of the caller."""

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return await coroutine

    def on_loop(self, make: Callable[[], T]) -> T:
        return make()

    def check(self, runtime: Runtime) -> None:
        runtime.check()

    async def wait(self, reading: Reading, timeout_s: float | None) -> bool:
        reading.check()
        return await reading.feed.wait(timeout_s)

    async def wait_for_room(self, core: BatchCore) -> None:
        await core.wait_for_room()

    async def wait_for_results(self, chunk: Chunk, timeout_s: float | None) -> bool:
        return await chunk.wait(timeout_s)

    async def serve(
        self, run: Coroutine[Any, Any, None], stop: Callable[[], None], *, handles_signals: bool
    ) -> None:
        loop = asyncio.get_running_loop()
        handled = []
        if handles_signals and threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                loop.add_signal_handler(number, stop)
                handled.append(number)
        try:
            await run
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    async def close(self) -> None:
        """There is nothing of its own to end."""


class _LoopThread:
    """An event loop and the thread that runs it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(
            target=_run_loop, args=(self.loop,), name="mqservice client", daemon=True
        )
        self.thread.start()


class SyncSide:
    """Runs on a thread of its own, started by the first call. Safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: _LoopThread | None = None
        self._is_closed = False
        self._is_forked = False
        _sides.add(self)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            started = self._start()
        except BaseException:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(coroutine, started.loop)
        try:
            return future.result()
        except futures.CancelledError as exc:
            raise closed_meanwhile() from exc
        except BaseException:
            future.cancel()  # nothing, unless it was this wait that was interrupted
            raise

    def on_loop(self, make: Callable[[], T]) -> T:
        async def made() -> T:
            return make()

        return self.run(made())

    def check(self, runtime: Runtime) -> None:
        if runtime.is_forked or self._is_forked:
            raise forked_error()

    def wait(self, reading: Reading, timeout_s: float | None) -> bool:
        if self._is_forked:
            raise forked_error()
        return reading.feed.wait_in_thread(timeout_s)

    def wait_for_room(self, core: BatchCore) -> None:
        core.wait_for_room_in_thread()

    def wait_for_results(self, chunk: Chunk, timeout_s: float | None) -> bool:
        if self._is_forked:
            raise forked_error()
        return chunk.done.wait(timeout_s)

    def serve(
        self, run: Coroutine[Any, Any, None], stop: Callable[[], None], *, handles_signals: bool
    ) -> None:
        before = {}
        if handles_signals and threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                before[number] = signal.signal(number, lambda _number, _frame: stop())
        try:
            self.run(run)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            started, self._started = self._started, None
        if started is not None and not self._is_forked:
            _stop_loop(started)
            if threading.current_thread() is not started.thread:
                started.thread.join(STOP_WAIT_S)

    def mark_forked(self) -> None:
        """In the child of a fork, where the thread does not exist."""
        self._is_forked = self._started is not None
        self._lock = threading.Lock()  # another thread may have held it

    def _start(self) -> _LoopThread:
        if self._is_forked:
            raise forked_error()
        with self._lock:
            if self._is_closed:
                raise ClientClosed("this client is closed")
            if self._started is None:
                self._started = _LoopThread()
                # Everything that a client gave out holds its side: then nobody uses it any more.
                # Not at the end of the program: its threads would be cut off half way through.
                weakref.finalize(self, _stop_loop, self._started).atexit = False
            started = self._started
        if threading.current_thread() is started.thread:
            raise UsageError(
                "a coroutine on the client's own loop would wait for itself: use AsyncClient there"
            )
        return started


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        while tasks := asyncio.all_tasks(loop):  # one that is cancelled may start others
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()


def _stop_loop(started: _LoopThread) -> None:
    if started.thread.is_alive() and not started.loop.is_closed():
        started.loop.call_soon_threadsafe(started.loop.stop)


_sides: weakref.WeakSet[SyncSide] = weakref.WeakSet()


def _mark_forked() -> None:
    for side in _sides:
        side.mark_forked()


os.register_at_fork(after_in_child=_mark_forked)
