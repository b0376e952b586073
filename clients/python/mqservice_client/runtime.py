"""What a client has once it is used: the event loop it belongs to, its connections, its process.

AsyncClient ─▶ [Runtime] ─▶ Caller (REST), SocketHub, subscriptions
"""

from __future__ import annotations

import asyncio
import os
import weakref
from random import Random
from typing import Any, Protocol

from .caller import Caller
from .errors import ClientClosed, ForkedClient, MQError, Unreachable, WrongEventLoop
from .messages import BaseMessage, Feed, Home, log
from .network import Network, UpgradeRefused
from .protocol.frames import Subprotocol
from .rest_receiver import RestSource
from .session import SocketSubscription, SubscribeOptions
from .socket_hub import SocketHub

CONFIRM_WAIT_S = 10.0
LEAVE_WAIT_S = 2.0
ABANDONED_LOOK_S = 0.2


class Closeable(Protocol):
    """What ends before subscriptions do: batches with messages to send, consumers that run."""

    async def close(self, timeout_s: float) -> None: ...


class Runtime:
    """Made by the first call of a client, on the loop of that call."""

    def __init__(
        self,
        network: Network,
        *,
        base_url: str,
        root: str,
        timeout_ms: int,
        client_name: str,
        transport: str,
        subprotocol: Subprotocol,
    ) -> None:
        self.root = root
        self.random = Random()
        self.loop = asyncio.get_running_loop()
        self.caller = Caller(network, base_url, timeout_ms, self.random)
        self.transport = transport
        self.subscriptions: set[Reading] = set()
        self.closeables: set[Closeable] = set()
        self.is_forked = False
        self._client_name = client_name
        self._subprotocol = subprotocol
        self._hub: SocketHub | None = None
        _alive.add(self)

    def check(self) -> None:
        """Raises ForkedClient, WrongEventLoop: this client must not be used here."""
        self.check_anywhere()
        if asyncio._get_running_loop() is not self.loop:
            raise WrongEventLoop("the event loop that this client belongs to is another one")

    def check_anywhere(self) -> None:
        """The same on whatever thread this is."""
        if self.is_forked:
            raise forked_error()
        if self.loop.is_closed():
            raise WrongEventLoop("the event loop that this client belongs to is closed")

    def mark_forked(self) -> None:
        """In the child: what has arrived here is the parent's, and no lock can be relied upon."""
        self.is_forked = True
        for reading in self.subscriptions:
            reading.feed.buffer.clear()
            reading.feed.is_ended = True
            for home in reading.homes:
                home.sender = _Forked()

    @property
    def hub(self) -> SocketHub:
        if self._hub is None:
            self._hub = SocketHub(
                self.caller.network,
                client_name=self._client_name,
                subprotocol=self._subprotocol,
                first_connect_s=self.caller.timeout_ms / 1000,
                on_blocked=self._on_blocked,
                random=self.random,
            )
        return self._hub

    async def close(self, timeout_s: float) -> None:
        deadline = self.loop.time() + timeout_s
        await asyncio.gather(*(each.close(timeout_s) for each in list(self.closeables)))
        left_s = max(0.0, deadline - self.loop.time())
        await asyncio.gather(*(each.close(left_s) for each in list(self.subscriptions)))
        if self._hub is not None:
            await self._hub.close()
        await self.caller.close()

    def _on_blocked(self, exc: UpgradeRefused) -> None:
        if self.transport == "auto":
            log.warning(
                "WebSockets are blocked; messages are received over REST",
                extra={"action": "rest_fallback", "error": str(exc)},
            )
            self.transport = "rest"
            for reading in self.subscriptions:
                reading.use_rest()
            return
        error = Unreachable(self.caller.base_url, str(exc))
        error.what_to_do = "Let WebSockets through, or pass transport='auto' or 'rest'."
        for reading in self.subscriptions:
            reading.feed.fail(error)


class Reading:
    """One subscription of a program: one or several topics for one group, in one feed."""

    def __init__(
        self,
        runtime: Runtime,
        topics: list[str],
        group: str,
        options: SubscribeOptions,
        kind: type[BaseMessage],
        side: Any,
    ) -> None:
        """``kind`` and ``side``: what the program's messages are, and how it waits."""
        self.feed = Feed(kind, side)
        self.group = group
        self._runtime = runtime
        self._topics = topics
        # The credit is for all topics together, at least one message for each.
        self._options = SubscribeOptions(
            prefetch=max(1, options.prefetch // len(topics)),
            prefetch_bytes=max(1, options.prefetch_bytes // len(topics)),
            filter=options.filter,
            lease_ms=options.lease_ms,
            auto_extend_ms=options.auto_extend_ms,
            client_id=options.client_id,
            consumer_id=options.consumer_id,
            consumer_zone=options.consumer_zone,
        )
        self._on_socket: list[SocketSubscription] = []
        self._on_rest: list[RestSource] = []
        self.is_closed = False
        self._finishing: asyncio.Task[None] | None = None
        runtime.subscriptions.add(self)
        if runtime.transport == "rest":
            self.use_rest()
        else:
            hub = runtime.hub
            self._on_socket = [
                hub.subscribe(topic, group, self._options, self.feed) for topic in topics
            ]

    @property
    def transport(self) -> str:
        return "rest" if self._on_rest else "websocket"

    @property
    def is_ready(self) -> bool:
        """Whether the service has confirmed every topic, so that messages come if there are any."""
        if self._on_rest:
            return all(each.was_seen for each in self._on_rest)
        is_welcome = self._runtime.hub.session.is_welcome
        return is_welcome and all(each.is_confirmed for each in self._on_socket)

    @property
    def homes(self) -> list[Home]:
        return [*self._on_socket, *self._on_rest]

    def check(self) -> None:
        """Raises ClientStateError: nobody may wait for it here."""
        self._runtime.check()

    def use_rest(self) -> None:
        """Go on without a socket, which could not be opened."""
        for subscription in self._on_socket:
            self._runtime.hub.session.forget(subscription)
        self._on_socket = []
        runtime = self._runtime
        self._on_rest = [
            RestSource(
                runtime.caller,
                runtime.root,
                topic,
                self.group,
                self._options,
                self.feed,
                runtime.random,
            )
            for topic in self._topics
        ]

    def prefetch_more(self, messages: int, size: int) -> None:
        for each in self._on_socket:
            self._runtime.hub.prefetch_more(each, messages, size)
        for source in self._on_rest:
            source.prefetch_more(messages)

    def stop(self) -> None:
        """Ask for nothing more."""
        for each in self._on_socket:
            self._runtime.hub.stop(each)
        for source in self._on_rest:
            source.stop()

    async def drain(self, timeout_s: float = CONFIRM_WAIT_S) -> bool:
        """Ask for nothing more; whether all results given so far are confirmed."""
        hub = self._runtime.hub if self._on_socket else None
        waits = [hub.drain(each, timeout_s) for each in self._on_socket if hub is not None]
        waits += [each.drain(timeout_s) for each in self._on_rest]
        return all(await asyncio.gather(*waits))

    async def close(self, timeout_s: float = CONFIRM_WAIT_S) -> None:
        """Confirm what was settled, give the rest back without an attempt counted, and end."""
        if self.is_closed:
            return
        self._runtime.check()
        self.is_closed = True
        if self._finishing is not None and self._finishing is not asyncio.current_task():
            self._finishing.cancel()
        self._runtime.subscriptions.discard(self)
        self.feed.close()
        await self.drain(timeout_s)
        if self._on_socket:
            hub = self._runtime.hub
            await asyncio.gather(*(hub.leave(each, LEAVE_WAIT_S) for each in self._on_socket))
        await asyncio.gather(*(each.leave(LEAVE_WAIT_S) for each in self._on_rest))

    def abandon(self) -> None:
        """The program has lost it without closing it, as a loop does that is left by ``break``."""
        if self.is_closed or self._runtime.loop.is_closed() or self._runtime.is_forked:
            return
        self._runtime.loop.call_soon_threadsafe(self._start_finishing)

    def _start_finishing(self) -> None:
        if not self.is_closed:
            finishing = self._finish()
            self._finishing = self._runtime.loop.create_task(finishing, name="mqservice finish")

    async def _finish(self) -> None:
        """Closes it as soon as the program has settled, or lost, all messages that it has taken."""
        await self.drain()
        while self._is_in_use():  # noqa: ASYNC110  # an event would cost each ack a little
            await asyncio.sleep(ABANDONED_LOOK_S)
        await self.close()

    def _is_in_use(self) -> bool:
        waiting = set(map(id, self.feed.buffer))
        return any(
            not (message.is_settled or message.is_lost or id(message) in waiting)
            for home in self.homes
            for message in home.outstanding.values()
        )

    def next_or_raise(self) -> BaseMessage | None:
        """A message; None when one has to be waited for. Raises StopIteration at the end."""
        message = self.feed.take()
        if message is None and self.feed.is_ended:
            if self._runtime.is_forked:
                raise forked_error()
            error, self.feed.error = self.feed.error, None
            if error is not None:
                raise error
            raise EndOfFeed
        return message


class _Forked:
    """Sends nothing, for messages that came before a fork."""

    is_flush_due = False

    def flush_soon(self) -> None:
        raise forked_error()


class EndOfFeed(Exception):
    """Nothing more comes."""


def forked_error() -> ForkedClient:
    return ForkedClient("this client had connected before the process forked")


def closed_error() -> MQError:
    return ClientClosed("this client is closed")


_alive: weakref.WeakSet[Runtime] = weakref.WeakSet()


def _mark_forked() -> None:
    for runtime in _alive:
        runtime.mark_forked()


os.register_at_fork(after_in_child=_mark_forked)
