"""Runs a program's handlers: as many at a time as it allows, in order where it asks for order.

    Feed ─▶ [_Consumer] ─▶ lane of a message group ─▶ handler ─▶ ack
                                                        ├ Retry, or an exception ─▶ nack
                                                        └ Reject ─▶ dead letter

A message that no handler has begun, or whose handler is cancelled because the time to drain is
over, gets no result: it is given back without an attempt counted. Coroutine functions run on the
client's event loop, others on threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import queue
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Final, Literal

import msgspec

from .errors import UsageError
from .messages import BaseMessage, log
from .runtime import Reading, Runtime
from .session import SubscribeOptions
from .tasks import end, within
from .tracing import NoSpan
from .values import Duration, optional_ms

Handler = Callable[..., Any]  # Any: of a message to whatever, awaited or not
OrderedBy = Literal["message_group", "queue"]
CONCURRENCY_MAX: Final = 1_000
CANCELLED_WAIT_S: Final = 1.0


class Retry(Exception):
    """Raised by a handler: deliver the message again.

    After ``delay``, up to 365 days, or by the group's retry policy without one. ``reason`` is kept
    in the message's trace.
    """

    def __init__(self, *, delay: Duration | None = None, reason: str | None = None) -> None:
        super().__init__(reason or "the handler asked for another delivery")
        self.delay_ms = optional_ms(delay, "delay")


class Reject(Exception):
    """Raised by a handler: the message can never be handled, and becomes a dead letter.

    The text of the exception is the reason: ``raise Reject("no such order")``.
    """


class HandlerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a function is run. Raises UsageError."""

    concurrency: int = 1
    timeout_s: float | None = None
    retry_delay_ms: int | None = None
    dead_letter_on: tuple[type[Exception], ...] = ()
    ordered_by: OrderedBy | None = "message_group"

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= CONCURRENCY_MAX:
            raise UsageError(f"concurrency must be 1 to {CONCURRENCY_MAX}")
        if self.ordered_by not in (None, "message_group", "queue"):
            raise UsageError('ordered_by must be "message_group", "queue" or None')


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A function and what it handles. Raises UsageError."""

    function: Handler
    topics: list[str]
    group: str
    subscribe: SubscribeOptions
    options: HandlerOptions

    def __post_init__(self) -> None:
        is_generator = inspect.isgeneratorfunction(self.function)
        if is_generator or inspect.isasyncgenfunction(self.function):
            raise UsageError("a handler must not be a generator, whose body would never run")


class ConsumerRunner:
    """All consumers of a client. ``stop`` may be called from any thread, and by a signal."""

    def __init__(self, kind: type[BaseMessage], side: Any) -> None:  # Any: either side
        self._kind = kind
        self._side = side
        self._registrations: list[Registration] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_stopping = False
        self._drain_s = 0.0

    def register(self, registration: Registration) -> None:
        self._registrations.append(registration)

    def stop(self) -> None:
        self._is_stopping = True
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it was closed, which has stopped everything
                loop.call_soon_threadsafe(self._stopped.set)

    async def close(self, timeout_s: float) -> None:
        """Stop, and wait until ``run`` has ended. Handlers have half of the time, at most."""
        self._drain_s = min(self._drain_s, timeout_s / 2)
        self.stop()
        with contextlib.suppress(asyncio.TimeoutError):
            await within(timeout_s, self._ended.wait())

    async def run(self, runtime: Runtime, drain_s: float) -> None:
        """Until ``stop``, or until the service ends a subscription, which is raised."""
        if not self._registrations:
            raise UsageError("no function is registered: decorate one with `consumer` first")
        if self._loop is not None:
            raise UsageError("the consumers of this client run already")
        self._stopped, self._ended = asyncio.Event(), asyncio.Event()
        self._loop = runtime.loop
        self._drain_s = drain_s
        consumers: list[_Consumer] = []
        runtime.closeables.add(self)
        try:
            for each in self._registrations:
                consumers.append(_Consumer(each, runtime, self._kind, self._side, self.stop))
            if not self._is_stopping:
                await self._until_one_ends(consumers)
        finally:
            await asyncio.gather(*(each.stop(self._drain_s) for each in consumers))
            self._loop, self._is_stopping = None, False
            runtime.closeables.discard(self)
            self._ended.set()
        for consumer in consumers:
            consumer.raise_failure()

    async def _until_one_ends(self, consumers: list[_Consumer]) -> None:
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait(
                {stopped, *(each.task for each in consumers)}, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            stopped.cancel()


class _Consumer:
    """One registration while it runs."""

    def __init__(
        self,
        registration: Registration,
        runtime: Runtime,
        kind: type[BaseMessage],
        side: Any,  # Any: either side
        on_exit: Callable[[], None],
    ) -> None:
        """``on_exit`` is called when a handler asks the program to end."""
        self._function = registration.function
        self._options = registration.options
        self._hopeless: tuple[type[Exception], ...] = (Reject, *registration.options.dead_letter_on)
        self._on_exit = on_exit
        self._reading = Reading(
            runtime, registration.topics, registration.group, registration.subscribe, kind, side
        )
        is_coroutine = inspect.iscoroutinefunction(registration.function)
        self._threads = None if is_coroutine else _Threads(self._options.concurrency)
        self._slots = asyncio.Semaphore(self._options.concurrency)
        self._lanes: dict[Hashable, deque[BaseMessage]] = {}
        self._handling: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self.task = runtime.loop.create_task(self._hand_out(), name="mqservice consumer")

    async def stop(self, drain_s: float) -> None:
        """Begin nothing more, wait for what is being handled, give back the rest."""
        self._is_stopping = True
        await end(self.task)
        if self._handling:
            _, late = await asyncio.wait(self._handling, timeout=drain_s)
            for task in late:
                task.cancel()
            if late:
                log.warning(
                    "Handlers did not end in time; their messages are given back",
                    extra={"action": "drain_timeout", "handler_count": len(late)},
                )
                await asyncio.wait(late, timeout=CANCELLED_WAIT_S)
        if self._threads is not None:
            self._threads.close()
        await self._reading.close()

    def raise_failure(self) -> None:
        """Raises what ended the subscription, if that was not ``stop``."""
        error = self._reading.feed.error
        if error is not None:
            raise error

    async def _hand_out(self) -> None:
        """Until the end of the feed."""
        feed = self._reading.feed
        while True:
            await self._slots.acquire()
            while (message := feed.take()) is None:
                if feed.is_ended:
                    return
                await feed.wait(None)
            lane = self._lane_of(message)
            if lane in self._lanes:
                self._lanes[lane].append(message)
                self._slots.release()
                continue
            self._lanes[lane] = deque([message])
            task = asyncio.create_task(self._work(lane), name="mqservice handler")
            self._handling.add(task)
            task.add_done_callback(self._handling.discard)

    def _lane_of(self, message: BaseMessage) -> Hashable:
        """What is alike for messages that must not be handled at the same time."""
        ordered_by = self._options.ordered_by
        if ordered_by == "queue":
            return message.topic, message.queue
        if ordered_by == "message_group" and message.message_group is not None:
            return message.topic, message.message_group
        return message

    async def _work(self, lane: Hashable) -> None:
        """Handle what waits in a lane, one after the other."""
        waiting = self._lanes[lane]
        try:
            while waiting and not self._is_stopping:
                message = waiting.popleft()
                if not message.is_lost:
                    await self._handle(message)
        finally:
            del self._lanes[lane]
            self._slots.release()

    async def _handle(self, message: BaseMessage) -> None:
        """Give the message the result that belongs to what its handler does."""
        try:
            with message._span(is_root=True) as span:
                await self._call(message, span)
        except asyncio.CancelledError:
            if self._is_stopping:
                raise  # without a result, it is given back
            self._fail(message, "the handler was cancelled")
        except Retry as exc:
            self._give_back(message, str(exc), exc.delay_ms)
        except (SystemExit, KeyboardInterrupt) as exc:
            self._fail(message, _text_of(exc))
            self._on_exit()
        except BaseException as exc:
            if not isinstance(exc, self._hopeless):
                self._fail(message, _text_of(exc), exc)
            elif not message.is_settled:
                message.dead_letter(_text_of(exc))
        else:
            if not message.is_settled:
                message.ack()

    async def _call(self, message: BaseMessage, span: NoSpan) -> None:
        timeout_s = self._options.timeout_s
        running: asyncio.Future[None]
        if self._threads is not None:
            running = self._threads.submit(self._function, message)
        elif timeout_s is None:
            await self._function(message)
            return
        else:
            running = asyncio.ensure_future(self._function(message))
        try:
            done, _ = await asyncio.wait({running}, timeout=timeout_s)
        except asyncio.CancelledError:
            running.cancel()
            raise
        if not done:
            late = TimeoutError(f"the handler has not returned within {timeout_s:g} s")
            span.fail(late)
            self._fail(message, str(late))
            # A thread cannot be cancelled: it keeps its place until it returns.
            if self._threads is None:
                running.cancel()
            await asyncio.wait({running})
            return
        running.result()

    def _fail(self, message: BaseMessage, reason: str, exc: BaseException | None = None) -> None:
        log.warning(
            "A handler failed; its message is delivered again",
            exc_info=exc,
            extra={"action": "handler_failed", "message_id": message.id, "reason": reason},
        )
        self._give_back(message, reason, None)

    def _give_back(self, message: BaseMessage, reason: str, delay_ms: int | None) -> None:
        if not message.is_settled:
            delay_ms = self._options.retry_delay_ms if delay_ms is None else delay_ms
            message.nack(delay=None if delay_ms is None else f"{delay_ms}ms", reason=reason)


class _Threads:
    """Threads for handlers; one that never returns does not keep the process from its end."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._started = 0
        self._idle = threading.Semaphore(0)
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def submit(self, function: Handler, message: BaseMessage) -> asyncio.Future[None]:
        """The end of the call, on the loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        context = contextvars.copy_context()  # with the current span

        def call() -> None:
            error: BaseException | None = None
            try:
                context.run(function, message)
            except StopIteration:
                error = RuntimeError("the handler raised StopIteration")  # no future may have it
            except BaseException as exc:
                error = exc
            with contextlib.suppress(RuntimeError):  # the loop was closed before it came back
                loop.call_soon_threadsafe(_finish, future, error)

        if not self._idle.acquire(blocking=False) and self._started < self._count:
            self._started += 1
            threading.Thread(target=self._run, name="mqservice handler", daemon=True).start()
        self._calls.put(call)
        return future

    def close(self) -> None:
        for _ in range(self._started):
            self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            self._idle.release()


def _finish(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _text_of(exc: BaseException) -> str:
    text, name = str(exc), type(exc).__name__
    if isinstance(exc, (Reject, Retry)):  # what it says was meant as the reason
        return text or name
    return f"{name}: {text}" if text else name
