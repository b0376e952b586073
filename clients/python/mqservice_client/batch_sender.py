"""Sends the chunks of one batch: several requests at a time, a result for each message.

    Accumulator.ready ─▶ [BatchSender] ─▶ Caller ─▶ service
                              └─▶ chunk.finish(results)

A message is sent again only when the service promised that it was not stored, when it has an
idempotency key, or when the batch has ``repeat_unknown``. Messages with a message group are sent
one request at a time, so that their order in the topic is that of ``send``.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from random import Random

from .accumulator import Accumulator, Chunk
from .backoff import Backoff
from .caller import Caller
from .errors import MQError, OutcomeUnknown, RequestRejected
from .http_calls import Stored, batch_request, faulty_indexes, parse_batch, send_request
from .tracing import batch_span


class BatchSender:
    """One topic's batches. Belongs to an event loop; ``poke`` and ``cut_later`` to any thread."""

    def __init__(
        self,
        caller: Caller,
        root: str,
        topic: str,
        accumulator: Accumulator,
        random: Random,
        on_finished: Callable[[Chunk], None],
    ) -> None:
        self._caller = caller
        self._root = root
        self._topic = topic
        self._accumulator = accumulator
        self._random = random
        self._on_finished = on_finished
        self._backoff = Backoff()
        self.repeated = 0
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._requests: dict[asyncio.Task[None], Chunk] = {}
        self._is_ordered_under_way = False
        self._timers: set[asyncio.TimerHandle] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def poke(self) -> None:
        """Something is ready to be sent."""
        self._call(self._start)

    def cut_later(self, chunk: Chunk) -> None:
        """Send the chunk when it has lingered, full or not."""
        self._call(self._schedule_cut, chunk)

    async def idle(self) -> None:
        """Wait until everything that is ready has its results."""
        self._start()
        await self._idle.wait()

    async def close(self) -> None:
        """Give up on what is under way: those outcomes are unknown."""
        for timer in self._timers:
            timer.cancel()
        tasks = dict(self._requests)
        for task in tasks:
            task.cancel()
        for task, chunk in tasks.items():
            with contextlib.suppress(asyncio.CancelledError):
                await task
            if not chunk.done.is_set():
                chunk.abandon("the client was closed")
        while self._accumulator.ready:
            self._accumulator.ready.popleft().abandon("the client was closed before it was sent")

    def _call(self, function: Callable[..., None], *args: object) -> None:
        if threading.get_ident() == self._thread_id:
            function(*args)
        else:
            self._loop.call_soon_threadsafe(function, *args)

    def _schedule_cut(self, chunk: Chunk) -> None:
        def cut() -> None:
            self._timers.discard(timer)
            self._accumulator.cut(chunk)
            self._start()

        timer = self._loop.call_later(self._accumulator.limits.linger_ms / 1000, cut)
        self._timers.add(timer)

    def _start(self) -> None:
        """Begin as many requests as may be under way."""
        ready, requests = self._accumulator.ready, self._requests
        while ready and len(requests) < self._accumulator.limits.requests_max:
            if self._is_ordered_under_way or (ready[0].is_ordered and requests):
                return
            chunk = ready.popleft()
            self._is_ordered_under_way = chunk.is_ordered
            self._idle.clear()
            task = self._loop.create_task(self._send(chunk), name="mqservice batch")
            requests[task] = chunk
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        chunk = self._requests.pop(task)
        if chunk.is_ordered:
            self._is_ordered_under_way = False
        self._accumulator.finished(chunk)
        self._on_finished(chunk)
        self._start()
        if not self._requests and not self._accumulator.ready:
            self._idle.set()

    async def _send(self, chunk: Chunk) -> None:
        count = len(chunk.forms)
        with batch_span(
            self._caller.base_url, self._topic, count, chunk.traces, chunk.context
        ) as span:
            results = await self._results(chunk)
            failure = next((each for each in results if isinstance(each, MQError)), None)
            if failure is not None:
                span.fail(failure)
        chunk.finish(results)

    async def _results(self, chunk: Chunk) -> list[Stored | MQError]:
        results: dict[int, Stored | MQError] = {}
        waiting = list(range(len(chunk.forms)))
        limits = self._accumulator.limits
        timeout_ms = self._caller.timeout_ms if limits.timeout_ms is None else limits.timeout_ms
        deadline = self._loop.time() + timeout_ms / 1000
        attempt = 0
        while waiting:
            attempt += 1
            outcome = await self._attempt(chunk, waiting, deadline)
            results.update(outcome)
            wait_ms = self._backoff.wait_ms(
                attempt, self._random, floor_ms=_longest_wait_ms(outcome.values())
            )
            if attempt == limits.attempts_max or self._loop.time() + wait_ms / 1000 >= deadline:
                break
            waiting = _repeatable(chunk, waiting, results, repeat_unknown=limits.repeat_unknown)
            if waiting:
                self.repeated += len(waiting)
                await asyncio.sleep(wait_ms / 1000)
        return [results[index] for index in range(len(chunk.forms))]

    async def _attempt(
        self, chunk: Chunk, indexes: list[int], deadline: float
    ) -> dict[int, Stored | MQError]:
        """One request; more of them when refused messages hide among good ones."""
        forms = [chunk.forms[index] for index in indexes]
        left_ms = max(1, round((deadline - self._loop.time()) * 1000))
        if chunk.alone is None:
            request = batch_request(self._root, self._topic, forms)
        else:
            request = send_request(self._root, self._topic, chunk.alone)
        try:
            response = await self._caller.once(request, min(left_ms, self._caller.timeout_ms))
            results = parse_batch(response, self._topic, len(forms))
        except RequestRejected as exc:
            if 400 <= exc.status < 500 and not exc.retryable and len(indexes) > 1:
                bad = {indexes[at] for at in faulty_indexes(exc) if at < len(indexes)}
                if bad:
                    good = [index for index in indexes if index not in bad]
                    rest = await self._attempt(chunk, good, deadline) if good else {}
                    return {**rest, **dict.fromkeys(bad, exc)}
                if exc.status in (400, 413):
                    half = len(indexes) // 2
                    return {
                        **await self._attempt(chunk, indexes[:half], deadline),
                        **await self._attempt(chunk, indexes[half:], deadline),
                    }
            return dict.fromkeys(indexes, exc)
        except MQError as exc:
            return {index: _for_message(exc, chunk.keys[index]) for index in indexes}
        return dict(zip(indexes, results, strict=True))


def _for_message(error: MQError, key: str | None) -> MQError:
    if isinstance(error, OutcomeUnknown) and key is not None:
        of_message = OutcomeUnknown("a message of a batch", error.cause, idempotency_key=key)
        of_message.__cause__ = error.__cause__
        return of_message
    return error


def _longest_wait_ms(results: Iterable[Stored | MQError]) -> int:
    waits = [each.retry_after_ms or 0 for each in results if isinstance(each, MQError)]
    return max(waits, default=0)


def _repeatable(
    chunk: Chunk, indexes: list[int], results: dict[int, Stored | MQError], *, repeat_unknown: bool
) -> list[int]:
    """Those that may be sent again.

    With a message group, only those that no later one of their group may have overtaken.
    """
    again: list[int] = []
    overtaken: set[str] = set()
    for index in reversed(indexes):
        result, group = results[index], chunk.groups[index]
        if isinstance(result, Stored):
            may_repeat = False
        else:
            is_safe = result.stored is False or chunk.keys[index] is not None
            may_repeat = result.retryable and (is_safe or repeat_unknown)
        if may_repeat and not (group is not None and group in overtaken):
            again.append(index)
        elif group is not None and (isinstance(result, Stored) or result.stored is None):
            overtaken.add(group)
    return again[::-1]
