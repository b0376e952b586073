"""The client's one socket: connects, reads, writes, reconnects.

    SocketSession ◀─ take ─ [SocketHub] ◀─ receive ─ Socket
                  ─ flush ─▶            ─ send ────▶

``on_blocked`` is called when something on the way lets no WebSocket through; the subscriptions go
on over REST then. Everything runs on the client's event loop but ``flush_soon``.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from random import Random
from typing import Final

from .backoff import Backoff
from .errors import ConnectionLost, MQError, RequestRejected, ResponseMalformed, Unreachable
from .messages import Feed, broken, log
from .network import BROKEN, Network, Socket, UpgradeRefused
from .protocol.frames import Subprotocol
from .session import SocketSession, SocketSubscription, SubscribeOptions
from .tasks import call_on, end, within

TAKEN_OVER: Final = 4409
GOING_AWAY: Final = 1001
WELCOME_WAIT_S: Final = 10.0
# A connection that lived this long was a good one: the next failure counts from 1 again.
STEADY_S: Final = 5.0
REFUSED_RETRY_S: Final = 0.5
GOAWAY_WAIT_S: Final = 2.0


class SocketHub:
    """Sends and receives for all subscriptions of a client."""

    def __init__(
        self,
        network: Network,
        *,
        client_name: str,
        subprotocol: Subprotocol,
        first_connect_s: float,
        on_blocked: Callable[[UpgradeRefused], None],
        random: Random,
    ) -> None:
        """``first_connect_s``: how long the first connection is tried for before it fails."""
        self.session = SocketSession(client_name, self, subprotocol)
        self.is_flush_due = False
        self._network = network
        self._first_connect_s = first_connect_s
        self._on_blocked = on_blocked
        self._random = random
        self._backoff = Backoff()
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False
        self._last_received = 0.0
        self._refused_timer: asyncio.TimerHandle | None = None

    def subscribe(
        self, topic: str, group: str, options: SubscribeOptions, feed: Feed
    ) -> SocketSubscription:
        subscription = self.session.subscribe(topic, group, options, feed)
        if self._task is None or self._task.done():
            self._is_closing = False
            self._task = self._loop.create_task(self._run(), name="mqservice socket")
        self._wake.set()
        return subscription

    def flush_soon(self) -> None:
        """Send what is queued in the loop's next turn. From any thread."""
        self.is_flush_due = not self._loop.is_closed()
        call_on(self._loop, self._thread_id, self._flush)

    def prefetch_more(self, subscription: SocketSubscription, messages: int, size: int) -> None:
        self.session.add_credit(subscription, messages, size)
        self._wake.set()

    def stop(self, subscription: SocketSubscription) -> None:
        """Stop the flow of messages."""
        self.session.drain(subscription)
        self._wake.set()

    async def drain(self, subscription: SocketSubscription, timeout_s: float) -> bool:
        """Stop the flow of messages; whether all results are confirmed within the time."""
        self.session.drain(subscription)
        return await self.settled(subscription, timeout_s)

    async def settled(self, subscription: SocketSubscription, timeout_s: float) -> bool:
        """Wait until nothing of it is unconfirmed. False: the time is over, or the end came."""
        deadline = self._loop.time() + timeout_s
        while self.session.is_busy(subscription):
            self._wake.set()
            left = deadline - self._loop.time()
            if left <= 0 or self._task is None or self._task.done():
                return False
            self._changed.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await within(left, self._changed.wait())
        return True

    async def leave(self, subscription: SocketSubscription, timeout_s: float) -> None:
        """Give back what is outstanding, without an attempt counted, and forget it."""
        self.session.release(subscription)
        if self.session.is_welcome:
            await self.settled(subscription, timeout_s)
        self.session.forget(subscription)
        if not self.session.subscriptions:
            await self.close()

    async def close(self) -> None:
        """End the connection; what is outstanding goes to others when the session expires."""
        self._is_closing = True
        self._wake.set()
        task, self._task = self._task, None
        if self._refused_timer is not None:
            self._refused_timer.cancel()
        if task is not None:
            await end(task)

    # The connection -------------------------------------------------------------------------

    async def _run(self) -> None:
        attempt = 0
        started = self._loop.time()
        while not self._is_closing:
            connected_at = self._loop.time()
            try:
                await self._connect_and_serve()
            except UpgradeRefused as exc:
                self._on_blocked(exc)
                return
            except (MQError, OSError) as exc:
                lived_s = self._loop.time() - connected_at
                attempt = 1 if lived_s >= STEADY_S else attempt + 1
                if not self._may_retry(exc, self._loop.time() - started):
                    return
                await self._pause(attempt, exc)
            except Exception as exc:
                log.exception("The connection failed", extra={"action": "connection_failed"})
                self.session.fail_all(broken(exc))
                return
            finally:
                self.session.disconnected()
                self._changed.set()

    def _may_retry(self, exc: Exception, tried_s: float) -> bool:
        """Whether to connect again; else every subscription has got the error."""
        error = exc if isinstance(exc, MQError) else Unreachable("the service", str(exc))
        is_final = not error.retryable and not (
            isinstance(error, RequestRejected) and error.status >= 500
        )
        if isinstance(error, ConnectionLost) and error.code == TAKEN_OVER:
            self.session.forget_token()
        if not self.session.was_welcome and tried_s >= self._first_connect_s:
            is_final = True
        if is_final:
            log.error(
                "The connection ended for good",
                extra={"action": "connection_ended", "error": str(error)},
            )
            self.session.fail_all(error)
        return not is_final

    async def _pause(self, attempt: int, exc: Exception) -> None:
        floor_ms = getattr(exc, "retry_after_ms", None) or 0
        wait_ms = self._backoff.wait_ms(attempt, self._random, floor_ms=floor_ms)
        for subscription in self.session.subscriptions.values():
            subscription.feed.stats.reconnects += 1
        log.warning(
            "The connection broke and is tried again",
            extra={"action": "reconnecting", "wait_ms": wait_ms, "error": str(exc)},
        )
        await asyncio.sleep(wait_ms / 1000)

    async def _connect_and_serve(self) -> None:
        socket = await self._network.open_socket()
        code = GOING_AWAY
        try:
            await socket.send(self.session.hello())
            await self._welcomed(socket)
            await self._serve(socket)
        except ResponseMalformed:
            code = 1002
            raise
        finally:
            # Shielded: a cancelled close would leave the socket to the garbage collector.
            await asyncio.shield(self._loop.create_task(socket.close(code)))

    async def _welcomed(self, socket: Socket) -> None:
        try:
            content = await within(WELCOME_WAIT_S, socket.receive())
        except asyncio.TimeoutError as exc:
            raise ConnectionLost(BROKEN, "no welcome came") from exc
        self.session.take(content)
        if not self.session.is_welcome:
            raise ResponseMalformed("the first frame of the service is no welcome")
        self._last_received = self._loop.time()
        self._wake.set()

    async def _serve(self, socket: Socket) -> None:
        """Until the connection ends, which is raised; or the service asks to go elsewhere."""
        tasks = [
            self._loop.create_task(self._read(socket), name="mqservice socket reader"),
            self._loop.create_task(self._write(socket), name="mqservice socket writer"),
        ]
        try:
            while True:
                silence_s = self.session.silence_ms_max / 1000
                left_s = self._last_received + silence_s - self._loop.time()
                done, _ = await asyncio.wait(
                    tasks, timeout=max(left_s, 0.0), return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
                if self.session.goaway is not None:
                    raise self.session.goaway
                if self._loop.time() - self._last_received >= silence_s:
                    raise ConnectionLost(BROKEN, f"nothing came for {silence_s:g} s")
        finally:
            await end(*tasks)

    async def _read(self, socket: Socket) -> None:
        session = self.session
        while session.goaway is None:
            content = await socket.receive()
            self._last_received = self._loop.time()
            session.take(content)
            self._after_take()
        # What is under way may still be confirmed before the connection moves.
        with contextlib.suppress(asyncio.TimeoutError):
            await within(GOAWAY_WAIT_S, self._confirm_rest(socket))

    async def _confirm_rest(self, socket: Socket) -> None:
        while self.session.has_unconfirmed:
            self.session.take(await socket.receive())
            self._after_take()

    def _after_take(self) -> None:
        self._changed.set()
        self._wake.set()
        if self.session.has_refused and self._refused_timer is None:
            self._refused_timer = self._loop.call_later(REFUSED_RETRY_S, self._send_refused)

    def _send_refused(self) -> None:
        self._refused_timer = None
        if self.session.is_welcome:
            self.session.send_refused()
            self._wake.set()

    async def _write(self, socket: Socket) -> None:
        wake = self._wake
        while True:
            await wake.wait()
            wake.clear()
            for content in self.session.flush():
                await socket.send(content)

    def _flush(self) -> None:
        self.is_flush_due = False
        self._wake.set()
