"""Consuming for a group: what to hand over, when to ack it, when to end.

    service ─▶ AsyncSubscription ─▶ [Consumer] ─▶ on_messages(list of Delivered)
                                ◀── ack ───┘          (returns before the ack leaves)

Invariants: a message is acked only after ``on_messages`` took it. With ``messages_max`` the
consumer never has credit for more messages than it still wants, as long as the connection lasts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from mqservice_client import AsyncClient, AsyncMessage, AsyncSubscription, MQError
from mqservice_client.values import Filter, rfc3339

from mqservice.cli.library_errors import client_error
from mqservice.cli.messages import Delivered

HANDED_OVER_MAX: Final = 256
READY_LOOK_MS: Final = 20  # how often to look whether the service has confirmed a subscription
# What the library tells by log that a person at a terminal wants to know, and in which words.
NOTICES: Final = {
    "reconnecting": "{error}; trying again in {wait_s:.1f} s",
    "receive_retried": "{error}; trying again in {wait_s:.1f} s",
    "rest_fallback": "{error}; receiving over REST instead",
}


class ConsumeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """``messages_max`` None: no end; ``idle_exit_ms`` None: wait for ever."""

    window_messages: int = 64
    window_bytes: int = 4 * 1024 * 1024
    messages_max: int | None = None
    idle_exit_ms: int | None = None
    does_ack: bool = False
    filter: Filter | None = None


class Totals(msgspec.Struct):
    received: int = 0
    acked: int = 0
    ack_failed: int = 0
    unconfirmed: int = 0
    repeated: int = 0
    lost: int = 0
    reconnects: int = 0


class Consumer:
    """Receives one topic for one group until done, stopped or refused."""

    def __init__(
        self,
        client: AsyncClient,
        topic: str,
        group: str,
        *,
        limits: ConsumeLimits,
        on_messages: Callable[[list[Delivered]], None],
        on_notice: Callable[[str], None],
        client_id: str | None = None,
    ) -> None:
        self.totals = Totals()
        self._client = client
        self._topic = topic
        self._group = group
        self._client_id = client_id
        self._limits = limits
        self._on_messages = on_messages
        self._on_notice = on_notice
        self._stop = asyncio.Event()
        self._acks_held: deque[AsyncMessage] = deque()
        self._ack_count = 0
        self._idle_since = 0.0
        most = limits.messages_max or limits.window_messages
        self._window = min(limits.window_messages, most)

    def stop(self) -> None:
        """Finish soon: confirm what was acked, then leave."""
        self._stop.set()

    async def run(self) -> None:
        """Consume until a limit is reached or ``stop`` was called.

        Raises:
            ClientError: the service does not want this client, or nobody answered the first time.
        """
        with _notices(self._on_notice):
            subscription = self._client.subscribe(
                self._topic,
                self._group,
                prefetch=self._window,
                prefetch_bytes=self._limits.window_bytes,
                filter=self._limits.filter,
                auto_extend=None,
                client_id=self._client_id,
            )
            try:
                await self._receive(subscription)
                # Before the last acks, for they would give credit back, and messages with it.
                await subscription.drain()
                self._send_acks(len(self._acks_held))
            except MQError as exc:
                raise client_error(exc) from exc
            finally:
                await subscription.close()
                self._count(subscription)

    async def _receive(self, subscription: AsyncSubscription) -> None:
        self._idle_since = asyncio.get_running_loop().time()
        stopping = asyncio.create_task(self._stop.wait())
        try:
            while (wait_ms := self._wait_ms(subscription)) != 0 and self._wanted() != 0:
                waiting = asyncio.create_task(
                    subscription.get(None if wait_ms is None else f"{wait_ms}ms")
                )
                await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    waiting.cancel()
                    return
                if (first := waiting.result()) is not None:
                    await self._hand_over(subscription, first)
        finally:
            stopping.cancel()

    def _wait_ms(self, subscription: AsyncSubscription) -> int | None:
        if self._limits.idle_exit_ms is None:
            return None
        now = asyncio.get_running_loop().time()
        if not subscription.is_ready:  # nothing can come yet, so this is not idle time
            self._idle_since = now
            return READY_LOOK_MS
        passed_ms = (now - self._idle_since) * 1000
        return max(self._limits.idle_exit_ms - round(passed_ms), 0)

    def _wanted(self) -> int | None:
        """How many more messages; None for all there are."""
        most = self._limits.messages_max
        return None if most is None else most - self.totals.received

    async def _hand_over(self, subscription: AsyncSubscription, first: AsyncMessage) -> None:
        """The message and those that are here with it."""
        messages = [first]
        wanted = self._wanted()
        most = HANDED_OVER_MAX if wanted is None else min(wanted, HANDED_OVER_MAX)
        while len(messages) < most and (another := await subscription.get("0s")) is not None:
            messages.append(another)
        self._on_messages([_delivered(message) for message in messages])
        self.totals.received += len(messages)
        self._idle_since = asyncio.get_running_loop().time()
        if self._limits.does_ack:
            self._acks_held += messages
            self._send_acks(self._credit_left())
        elif (count := min(len(messages), self._credit_left())) > 0:
            self._ack_count += count
            size = sum(len(message.body) for message in messages)
            await subscription.prefetch_more(count, max(size, 1))

    def _credit_left(self) -> int:
        """For how many more messages there may be credit, of which an ack gives back one."""
        if self._limits.messages_max is None:
            return HANDED_OVER_MAX
        return self._limits.messages_max - self._window - self._ack_count

    def _send_acks(self, count: int) -> None:
        for _ in range(min(count, len(self._acks_held))):
            self._acks_held.popleft().ack()
            self._ack_count += 1

    def _count(self, subscription: AsyncSubscription) -> None:
        stats, totals = subscription.stats, self.totals
        totals.acked, totals.ack_failed = stats.acked, stats.failed
        totals.repeated, totals.lost = stats.repeated, stats.lost
        totals.reconnects = stats.reconnects
        if self._limits.does_ack:
            totals.unconfirmed = totals.received - stats.acked - stats.failed


class _NoticeHandler(logging.Handler):
    def __init__(self, on_notice: Callable[[str], None]) -> None:
        super().__init__()
        self._on_notice = on_notice

    def emit(self, record: logging.LogRecord) -> None:
        fields = vars(record)
        if (text := NOTICES.get(fields.get("action", ""))) is not None:
            self._on_notice(
                text.format(error=fields["error"], wait_s=fields.get("wait_ms", 0) / 1000)
            )


@contextmanager
def _notices(on_notice: Callable[[str], None]) -> Iterator[None]:
    """Tell what the library logs meanwhile."""
    log, handler = logging.getLogger("mqservice_client"), _NoticeHandler(on_notice)
    log.addHandler(handler)
    before, log.propagate = log.propagate, False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = before


def _delivered(message: AsyncMessage) -> Delivered:
    return Delivered(
        id=message.id,
        queue=message.queue,
        offset=message.offset,
        attempt=message.attempt,
        body=message.body,
        tag=message.tag,
        keys=message.keys,
        message_group=message.message_group,
        properties=message.properties,
        stored_at=rfc3339(message.stored_at, "stored_at"),
    )
