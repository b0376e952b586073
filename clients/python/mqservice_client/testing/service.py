"""The fake itself: one store, its clock, and the network that leads to it.

    Client(network=service.network()) ─▶ FakeNetwork ─┬─ exchange ────▶ RestApi ─────┐
                                                      └─ open_socket ─▶ FakeSession ─┴▶ Store

Clients live on event loops of their own, tests on any thread: one lock protects the store, and
whoever waits on a loop is woken through it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from ..errors import ConnectionLost, Unreachable
from ..http_calls import Request, Response
from ..network import BROKEN, NotSent, Socket
from ..values import Duration, milliseconds
from .rest import RestApi, Waiting, lag_of
from .settings import GROUP_CHECKS, GROUP_DEFAULTS, TOPIC_CHECKS, TOPIC_DEFAULTS, changed
from .sockets import FakeSession
from .store import FakeMessage, Group, Lease, Store, Topic

ADDRESS: Final = "http://fake.invalid"
# With a clock that runs by itself: how late a delay or the end of a lease may be noticed.
TICK_S: Final = 0.02
CLOSED_BY_CLIENT: Final = 1000
KEPT_MS: Final = 60_000


class FakeService:
    """A service in memory for tests, for any number of clients, on threads or on event loops.

        service = FakeService(topics=["orders"], groups=["billing"])
        with Client(network=service.network()) as mq:
            ...
        service.advance("30s")

    Its clock stands still but for ``advance``: delays, retries and the ends of leases come when
    the test says so. What it does not know (SQL filters, assignment of queues, quotas, access) it
    refuses or leaves out; it is as lenient with keys as a service without any.
    """

    def __init__(
        self,
        *,
        topics: Sequence[str] = (),
        groups: Sequence[str] = (),
        clock: Callable[[], int] | None = None,
    ) -> None:
        """
        Args:
            topics, groups: to create, with one queue and default settings.
            clock: the time in ms since 1970, for a fake whose time passes by itself; ``advance``
                is added to it.
        """
        self._start_ms = time.time_ns() // 1_000_000
        self._clock = clock
        self._advanced_ms = 0
        self._lock = threading.RLock()
        self._store = Store(self._now_ms, self._lose)
        self._api = RestApi(self._store)
        self._sockets: dict[int, _FakeSocket] = {}
        # Connections that broke, by session: their clients may come back until then.
        self._kept: dict[str, tuple[_FakeSocket, int]] = {}
        self._numbers = itertools.count(1)
        self._waiters: set[_Waiter] = set()
        self._is_down = False
        for name in topics:
            self.create_topic(name)
        for name in groups:
            self.create_group(name)

    # For tests ------------------------------------------------------------------------------

    def network(self) -> FakeNetwork:
        """Pass it to ``Client`` or ``AsyncClient``; each may have its own."""
        return FakeNetwork(self)

    def create_topic(self, name: str, **settings: Any) -> None:
        """A topic of one queue, unless ``settings`` say otherwise: those of ``topics.create``."""
        with self._lock:
            wanted = changed(TOPIC_DEFAULTS, {"queues": 1, **settings}, TOPIC_CHECKS)
            self._store.topics[name] = Topic(name, wanted, self._now_ms())

    def create_group(self, name: str, **settings: Any) -> None:
        """A group, with settings as those of ``groups.create``."""
        with self._lock:
            wanted = changed(GROUP_DEFAULTS, settings, GROUP_CHECKS)
            self._store.groups[name] = Group(name, wanted, self._now_ms())

    def advance(self, duration: Duration) -> None:
        """Let time pass: what becomes due is delivered, leases that end are lost."""
        with self._lock:
            self._advanced_ms += milliseconds(duration)
            self._serve()

    def messages(self, topic: str) -> list[FakeMessage]:
        """All that are stored in a topic, in the order of sending, whether delivered or not."""
        with self._lock:
            return list(self._store.topic(topic).messages())

    def dead_letters(self, group: str) -> list[tuple[FakeMessage, str]]:
        """Messages that a group gave up, each with the reason."""
        with self._lock:
            found = self._store.group(group).dead_letters
            return [(letter.message, letter.reason) for letter in found]

    def lag(self, group: str) -> int:
        """How many messages a group has still to do of the topics that it has read."""
        with self._lock:
            return lag_of(self._store.group(group))["lag"] or 0

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Be unreachable for a while: connections break, requests are not sent."""
        self.disconnect()
        self._is_down = True
        try:
            yield
        finally:
            self._is_down = False

    def disconnect(self) -> None:
        """Break every WebSocket; clients connect again, and have what they had for 60 s."""
        with self._lock:
            for socket in list(self._sockets.values()):
                socket.end(BROKEN)

    # For its network ------------------------------------------------------------------------

    def answer(self, request: Request) -> Response | Waiting:
        """Raises NotSent while the service is down."""
        if self._is_down:
            raise NotSent("the fake service is down")
        with self._lock:
            self._store.tick()
            response = self._api.answer(request)
            self._serve()
            return response

    def open(self) -> Socket:
        """Raises Unreachable."""
        if self._is_down:
            raise Unreachable(ADDRESS, "the fake service is down")
        with self._lock:
            number = next(self._numbers)
            self._sockets[number] = _FakeSocket(self, number)
            return self._sockets[number]

    def take(self, socket: _FakeSocket, content: bytes) -> None:
        with self._lock:
            socket.session.take(content)
            self._serve()

    def close(self, socket: _FakeSocket, code: int) -> None:
        with self._lock:
            if self._sockets.pop(socket.number, None) is None:
                return
            if code == BROKEN:
                self._kept[socket.session.name] = (socket, self._now_ms() + KEPT_MS)
            else:
                socket.session.close()
                self._serve()

    def session(self, socket: _FakeSocket) -> FakeSession:
        def find_kept(name: str) -> FakeSession | None:
            kept = self._kept.pop(name, None)
            if kept is None:
                return None
            socket.take_over(kept[0])
            return kept[0].session

        return FakeSession(socket.number, self._store, socket.push, find_kept)

    async def wait(self, waiter: _Waiter, timeout_s: float | None = None) -> None:
        """Until something may have changed, or the clock has moved a little by itself."""
        if self._clock is not None:
            timeout_s = TICK_S
        await waiter.wait(timeout_s)
        if self._clock is not None:
            with self._lock:
                if self._store.tick():
                    self._serve()

    @contextlib.contextmanager
    def waiter(self) -> Iterator[_Waiter]:
        """Woken whenever something may have changed."""
        waiter = _Waiter()
        with self._lock:
            self._waiters.add(waiter)
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiters.discard(waiter)

    def retry(self, waiting: Waiting) -> Response | None:
        with self._lock:
            return waiting.retry()

    def _serve(self) -> None:
        """Deliver what can be delivered, on sockets first."""
        self._store.tick()
        for name, (socket, until_ms) in list(self._kept.items()):
            if until_ms <= self._now_ms():
                del self._kept[name]
                socket.session.close()
        found = [
            (subscription, socket.session)
            for socket in self._sockets.values()
            for subscription in socket.session.subscriptions
        ]
        for subscription, session in sorted(found, key=lambda each: each[0].served):
            session.deliver(subscription)
        for waiter in self._waiters:
            waiter.wake()

    def _lose(self, lease: Lease, why: str) -> None:
        kept = (socket for socket, _ in self._kept.values())
        for socket in (*self._sockets.values(), *kept):
            socket.session.lose(lease, why)

    def _now_ms(self) -> int:
        now_ms = self._start_ms if self._clock is None else self._clock()
        return now_ms + self._advanced_ms


class FakeNetwork:
    """How one client reaches a ``FakeService``."""

    def __init__(self, service: FakeService) -> None:
        self._service = service

    async def exchange(self, request: Request, timeout_ms: int) -> Response:
        service, loop = self._service, asyncio.get_running_loop()
        response = service.answer(request)
        if isinstance(response, Response):
            return response
        deadline = loop.time() + request.wait_ms / 1000
        with service.waiter() as waiter:
            while (left_s := deadline - loop.time()) > 0:
                found = service.retry(response)
                if found is not None:
                    return found
                await service.wait(waiter, left_s)
        return response.empty

    async def open_socket(self) -> Socket:
        return self._service.open()

    async def close(self) -> None:
        """There is nothing to close."""


class _Waiter:
    """Somebody who waits on an event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken: asyncio.Future[None] = self._loop.create_future()

    def wake(self) -> None:
        """From any thread."""
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._wake)

    async def wait(self, timeout_s: float | None) -> None:
        # Not ``wait_for``: before Python 3.12 it loses a cancellation that comes with the wake.
        await asyncio.wait({self._woken}, timeout=timeout_s)
        if self._woken.done():
            self._woken = self._loop.create_future()

    def _wake(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)


class _FakeSocket:
    """The client's end."""

    def __init__(self, service: FakeService, number: int) -> None:
        self.number = number
        self.session = service.session(self)
        self._service = service
        self._waiter = _Waiter()
        self._pushes: deque[bytes] = deque()
        self._left_over: deque[bytes] = deque()
        self._end_code = 0

    async def send(self, content: bytes) -> None:
        if self._end_code:
            raise ConnectionLost(self._end_code, "the fake service broke the connection")
        self._service.take(self, content)

    async def receive(self) -> bytes:
        while not self._pushes:
            if self._end_code:
                raise ConnectionLost(self._end_code, "the fake service broke the connection")
            await self._service.wait(self._waiter)
        return self._pushes.popleft()

    async def close(self, code: int = CLOSED_BY_CLIENT) -> None:
        self.end(code)

    def push(self, content: bytes) -> None:
        self._pushes.append(content)
        self._pushes.extend(self._left_over)
        self._left_over.clear()
        self._waiter.wake()

    def take_over(self, former: _FakeSocket) -> None:
        """What the former connection of this session did not get to, once it is welcome."""
        self._left_over.extend(former._pushes)
        former._pushes.clear()

    def end(self, code: int) -> None:
        """No more comes, once what was pushed has been received."""
        self._end_code = self._end_code or code
        self._service.close(self, self._end_code)
        self._waiter.wake()
