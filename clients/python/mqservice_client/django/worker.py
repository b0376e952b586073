"""Runs tasks: messages come on an event loop, functions run on threads.

    topics of each queue ─▶ [_receive] ─▶ waiting, by lane ─▶ [_dispatch] ─▶ thread ─▶ ack, nack

A worker holds few messages that it does not run yet, so that an urgent task waits for the end of
one that runs, and for nothing else. Told to stop, it takes no more, ends what it runs, and gives
the rest back.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import logging
import os
import queue
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import msgspec
from django.db import close_old_connections
from django.db.models import Q
from django.utils import timezone

from ..aio.client import AsyncClient
from ..aio.message import AsyncMessage
from ..errors import Forbidden, MQError
from ..tasks import within
from .backend import TaskBackend
from .compat import TaskResultStatus
from .execution import Outcome, execute
from .models import TaskRecord
from .options import TOPIC_RETENTION, Lane

SWEEP_S: Final = 10.0
UNSENT_AFTER: Final = timedelta(seconds=10)  # by then whoever enqueued it has tried
SWEEP_MAX: Final = 500
IDLE_S: Final = 2.0
FAILURE_DELAY: Final = "10s"
log = logging.getLogger("mqservice_client")


class Order(msgspec.Struct):
    """The body of a message: which task to run."""

    id: str


class Worker:
    """Runs tasks of some queues of one backend until it is told to stop."""

    def __init__(
        self,
        backend: TaskBackend,
        queue_names: Sequence[str],
        *,
        concurrency: int,
        drain_timeout_s: float,
        is_burst: bool = False,
    ) -> None:
        """``is_burst``: end by itself when nothing has come for two seconds, and nothing is
        waiting, here or to be sent.
        """
        self.worker_id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self.finished_count = 0
        self._backend = backend
        self._queue_names = list(queue_names)
        self._concurrency = concurrency
        self._drain_timeout_s = drain_timeout_s
        self._is_burst = is_burst
        self._waiting: list[tuple[int, int, AsyncMessage]] = []
        self._numbers = itertools.count()
        self._running: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._came_at = 0.0
        self._has_waited = False  # for what was in flight when nothing else was left
        self._may_be_unsent = True  # tasks that nobody could send yet
        self._threads = Threads(concurrency)

    def stop(self) -> None:
        """Take no more. Call it on the event loop."""
        self._stopping.set()
        self._changed.set()

    async def run(self) -> None:
        """Raises MQError: the service ended a subscription, or refuses the key."""
        options = self._backend.settings.connection
        self._came_at = asyncio.get_running_loop().time()
        async with AsyncClient(
            options.base_url,
            options.api_key,
            namespace=options.namespace,
            client_name=self.worker_id,
            network=options.network,
        ) as mq:
            await self._create_missing(mq)
            receivers = [
                asyncio.create_task(self._receive(mq, name, lane))
                for name in self._queue_names
                for lane in Lane
            ]
            sweeper = asyncio.create_task(self._sweep())
            dispatcher = asyncio.create_task(self._dispatch(mq))
            try:
                ended, _ = await asyncio.wait(
                    [*receivers, sweeper, dispatcher], return_when=asyncio.FIRST_COMPLETED
                )
                await self._drain()
                for task in ended:
                    task.result()
            finally:
                for task in (*receivers, sweeper, dispatcher):
                    task.cancel()
                await asyncio.gather(*receivers, sweeper, dispatcher, return_exceptions=True)

    async def _create_missing(self, mq: AsyncClient) -> None:
        settings = self._backend.settings
        try:
            for name in self._queue_names:
                for lane in Lane:
                    await mq.topics.create(settings.topic(name, lane), retention=TOPIC_RETENTION)
            # How often a task is run is decided here, by its row.
            changes: dict[str, Any] = {} if settings.retry is None else {"retry": settings.retry}
            await mq.groups.create(
                settings.group, start_from="earliest", max_attempts=None, **changes
            )
        except Forbidden as exc:
            log.info(
                "The key may not create topics and groups; they have to be there",
                extra={"action": "tasks_not_set_up", "error": str(exc)},
            )

    async def _receive(self, mq: AsyncClient, queue_name: str, lane: Lane) -> None:
        settings = self._backend.settings
        rank = list(Lane).index(lane)
        subscription = mq.subscribe(
            settings.topic(queue_name, lane),
            settings.group,
            prefetch=self._concurrency + 1,  # one of each lane waits, to choose from
            lease=settings.lease,
            auto_extend="3h",
        )
        async with subscription:
            async for message in subscription:
                self._came_at = asyncio.get_running_loop().time()
                self._has_waited = False
                heapq.heappush(self._waiting, (rank, next(self._numbers), message))
                self._changed.set()

    async def _dispatch(self, mq: AsyncClient) -> None:
        while not self._stopping.is_set():
            self._changed.clear()
            while self._waiting and len(self._running) < self._concurrency:
                _, _, message = heapq.heappop(self._waiting)
                if not message.is_lost:
                    task = asyncio.create_task(self._execute(message))
                    self._running.add(task)
                    task.add_done_callback(self._ended)
            if self._is_burst and self._is_idle() and await self._is_nothing_ready(mq):
                return
            with suppress(asyncio.TimeoutError):  # a burst looks again whether all is done
                await within(IDLE_S if self._is_burst else None, self._changed.wait())

    def _is_idle(self) -> bool:
        is_quiet = asyncio.get_running_loop().time() - self._came_at >= IDLE_S
        return not (self._may_be_unsent or self._running or self._waiting) and is_quiet

    async def _is_nothing_ready(self, mq: AsyncClient) -> bool:
        """A slow service may have messages that have not come yet. A key may not be let ask.

        What is in flight may be on its way to here: it is another worker's if none of it has come
        until the next look.
        """
        settings = self._backend.settings
        is_in_flight = False
        try:
            for name in self._queue_names:
                for lane in Lane:
                    topic = settings.topic(name, lane)
                    lag = await mq.groups.lag(settings.group, topic=topic)
                    if lag.ready != 0:
                        return False
                    is_in_flight |= lag.inflight != 0
        except Forbidden:
            pass
        except MQError as exc:
            if not exc.retryable:
                raise
            return False
        if is_in_flight and not self._has_waited:
            self._has_waited = True
            return False
        return self._is_idle()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._changed.set()

    async def _execute(self, message: AsyncMessage) -> None:
        try:
            order = message.json(Order)
        except msgspec.DecodeError as exc:
            log.error(
                "A message is no task",
                extra={"action": "message_not_a_task", "message_id": message.id, "error": str(exc)},
            )
            message.dead_letter("it is no task")
            return
        try:
            with message._span(is_root=True):
                outcome = await self._threads.run(
                    lambda: execute(self._backend, order.id, message.id, self.worker_id)
                )
        except Exception as exc:  # of the database: the task may have run or not
            log.exception(
                "Could not record a task; it is delivered again",
                extra={"action": "task_not_recorded", "task_id": order.id},
            )
            message.nack(delay=FAILURE_DELAY, reason=str(exc))
            return
        self.finished_count += 1
        if outcome is Outcome.DONE:
            message.ack()
        else:
            message.nack(reason="the task raised")

    async def _sweep(self) -> None:
        """Send what whoever enqueued it could not, and delete old results."""
        while not self._stopping.is_set():
            try:
                self._may_be_unsent = await self._threads.run_beside(self._sweep_once)
            except Exception:
                log.exception("Could not look for unsent tasks", extra={"action": "sweep_failed"})
                self._may_be_unsent = False  # a burst does not wait for a database
            with suppress(asyncio.TimeoutError):
                await within(IDLE_S if self._is_burst else SWEEP_S, self._stopping.wait())

    def _sweep_once(self) -> bool:
        """Returns whether some are unsent still, those included that are being sent right now."""
        close_old_connections()
        try:
            mine = Q(backend=self._backend.alias, queue_name__in=self._queue_names)
            unsent = TaskRecord.objects.filter(
                mine, sent_at__isnull=True, status=TaskResultStatus.READY
            )
            late = unsent.filter(enqueued_at__lt=timezone.now() - UNSENT_AFTER)
            for record in late.order_by("enqueued_at")[:SWEEP_MAX]:
                if not self._backend.send(record):
                    break
            old = timezone.now() - self._backend.settings.keep_results
            ids = TaskRecord.objects.filter(mine, finished_at__lt=old).values_list("pk", flat=True)
            TaskRecord.objects.filter(pk__in=list(ids[:SWEEP_MAX])).delete()
            return bool(unsent.exists())
        finally:
            close_old_connections()

    async def _drain(self) -> None:
        """Wait for what runs; what is left after the timeout is delivered again."""
        self.stop()
        self._waiting.clear()  # closing the subscriptions gives them back
        if self._running:
            _, left = await asyncio.wait(self._running, timeout=self._drain_timeout_s)
            for task in left:
                task.cancel()
            if left:
                log.warning(
                    "Tasks still run; they will be run again",
                    extra={"action": "tasks_abandoned", "count": len(left)},
                )


class Threads:
    """Threads that do not keep the process from ending, as those of an executor do."""

    def __init__(self, count: int) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._sweeps: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        for number in range(count):
            self._start(self._calls, f"task {number}")
        self._start(self._sweeps, "task sweeper")

    async def run(self, call: Callable[[], Any]) -> Any:  # Any: what ``call`` returns
        return await self._submit(self._calls, call)

    async def run_beside(self, call: Callable[[], Any]) -> Any:
        """On a thread that no task keeps busy."""
        return await self._submit(self._sweeps, call)

    @staticmethod
    async def _submit(
        calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]], call: Callable[[], Any]
    ) -> Any:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        context = contextvars.copy_context()  # with the current span
        calls.put((future, lambda: context.run(call)))
        return await asyncio.shield(asyncio.wrap_future(future))

    @staticmethod
    def _start(calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]], name: str) -> None:
        threading.Thread(target=_serve, args=(calls,), name=name, daemon=True).start()


def _serve(calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]]) -> None:
    while True:
        future, call = calls.get()
        try:
            result = call()
        except BaseException as exc:
            future.set_exception(exc)
        else:
            future.set_result(result)
